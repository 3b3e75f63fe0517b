"""Files and text in, sparse matrices out."""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.data import catalog
    from unmissed.data.checks import check_dataset
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
    "check_dataset": "checks",
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
    "check_dataset",
    "load",
    "load_labels",
    "make_corpus",
    "open_store",
    "read_texts",
    "save",
    "write_store",
    "write_xmc",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
