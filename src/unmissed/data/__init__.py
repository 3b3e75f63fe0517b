"""Data sets: readers, text features, and the on-disk store.

`sources.py` has the entry points `load` and `save`; `formats.py` recognizes the format of a path, `readers/` has one
module per format. `dataset.py` defines `Dataset` (CSR matrices X and Y with names). `text.py` computes TF-IDF features,
`large_text.py` does so out of core. `store.py` writes and memory-maps data sets, `synthetic.py` generates them, and
`catalog.py` lists the benchmark data sets of the paper. `vocabulary.py` has the concepts that labels stand for,
`vocabulary_readers/` reads them. Start with `dataset.py` and `sources.py`.
"""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.data import catalog
    from unmissed.data.checks import check_dataset
    from unmissed.data.dataset import Dataset
    from unmissed.data.encoders import SentenceEncoder
    from unmissed.data.readers.xmc_text import write_xmc
    from unmissed.data.sources import load, load_labels, read_texts, save
    from unmissed.data.store import open_store, write_store
    from unmissed.data.synthetic import Corpus, make_corpus, make_recommendations
    from unmissed.data.table_columns import Columns
    from unmissed.data.text import TextFeatures
    from unmissed.data.vocabulary import Concept, Vocabulary
    from unmissed.data.vocabulary_readers.vocabulary_registry import read_vocabulary

_PUBLIC = {
    "Columns": "table_columns",
    "Concept": "vocabulary",
    "Corpus": "synthetic",
    "Dataset": "dataset",
    "SentenceEncoder": "encoders",
    "TextFeatures": "text",
    "Vocabulary": "vocabulary",
    "catalog": "catalog",
    "check_dataset": "checks",
    "load": "sources",
    "load_labels": "sources",
    "make_corpus": "synthetic",
    "make_recommendations": "synthetic",
    "open_store": "store",
    "read_texts": "sources",
    "read_vocabulary": "vocabulary_readers.vocabulary_registry",
    "save": "sources",
    "write_store": "store",
    "write_xmc": "readers.xmc_text",
}
__all__ = [
    "Columns",
    "Concept",
    "Corpus",
    "Dataset",
    "SentenceEncoder",
    "TextFeatures",
    "Vocabulary",
    "catalog",
    "check_dataset",
    "load",
    "load_labels",
    "make_corpus",
    "make_recommendations",
    "open_store",
    "read_texts",
    "read_vocabulary",
    "save",
    "write_store",
    "write_xmc",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
