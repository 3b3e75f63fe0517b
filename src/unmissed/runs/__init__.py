"""The verbs: train, predict, evaluate, and the folder that they leave behind."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmissed.runs.prediction import predict
    from unmissed.runs.recipe import Recipe
    from unmissed.runs.run import Run, load_model, open_run
    from unmissed.runs.training import extend, save, train
    from unmissed.runs.updating import update

_PUBLIC = {
    "Recipe": "recipe",
    "Run": "run",
    "extend": "training",
    "load_model": "run",
    "open_run": "run",
    "predict": "prediction",
    "save": "training",
    "train": "training",
    "update": "updating",
}
__all__ = [
    "Recipe",
    "Run",
    "extend",
    "load_model",
    "open_run",
    "predict",
    "save",
    "train",
    "update",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: ranking one sentence needs few of them."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
