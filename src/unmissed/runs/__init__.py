"""The verbs: train, predict, evaluate, and the folder that they leave behind."""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

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
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
