"""Files and text in, sparse matrices out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmissed.data import catalog
    from unmissed.data.columns import Columns
    from unmissed.data.dataset import Dataset
    from unmissed.data.sources import load, load_labels, read_texts, save
    from unmissed.data.store import open_store, write_store
    from unmissed.data.synthetic import Corpus, make_corpus
    from unmissed.data.text import TextFeatures
    from unmissed.data.xmc_text import write_xmc

_PUBLIC = {
    "Columns": "columns",
    "Corpus": "synthetic",
    "Dataset": "dataset",
    "TextFeatures": "text",
    "catalog": "catalog",
    "load": "sources",
    "load_labels": "sources",
    "make_corpus": "synthetic",
    "open_store": "store",
    "read_texts": "sources",
    "save": "sources",
    "write_store": "store",
    "write_xmc": "xmc_text",
}
__all__ = [
    "Columns",
    "Corpus",
    "Dataset",
    "TextFeatures",
    "catalog",
    "load",
    "load_labels",
    "make_corpus",
    "open_store",
    "read_texts",
    "save",
    "write_store",
    "write_xmc",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: ranking one sentence needs few of them."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PUBLIC[name]}")
    return module if name == _PUBLIC[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
