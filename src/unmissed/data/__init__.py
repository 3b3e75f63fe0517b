"""Files and text in, sparse matrices out."""

from unmissed.data import catalog
from unmissed.data.columns import Columns
from unmissed.data.dataset import Dataset
from unmissed.data.sources import load, load_labels, read_texts, save
from unmissed.data.store import open_store, write_store
from unmissed.data.synthetic import Corpus, make_corpus
from unmissed.data.text import TextFeatures
from unmissed.data.xmc_text import write_xmc

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
