"""The registry of file formats; it is light, because the help of commands lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from unmissed.registry import Registry

if TYPE_CHECKING:
    from unmissed.data.readers.reader import Format


class ListedFormat(NamedTuple):
    """A format of this package: its class, and how help and messages list it as a source and as a target."""

    import_path: str
    source: str = ""
    target: str = ""


_HERE = "unmissed.data.readers"
LISTED = {
    "store": ListedFormat(f"{_HERE}.store_folder:Store", "a store folder", "a folder (store)"),
    "npz": ListedFormat(
        f"{_HERE}.npz:NumpyFiles", "'X.npz,Y.npz', 'X.npz,E.npy,Y.npz'", "'X.npz,Y.npz', 'X.npz,E.npy,Y.npz'"
    ),
    "frame": ListedFormat(f"{_HERE}.data_frame:DataFrame"),
    "folder": ListedFormat(
        f"{_HERE}.text_folder:TextFolder", "a folder of texts with NAME.tags, NAME.key or NAME.tsv files"
    ),
    "annif-tsv": ListedFormat(f"{_HERE}.annif_corpora:AnnifTsv", "Annif's .tsv, .csv and .jsonl corpora"),
    "annif-csv": ListedFormat(f"{_HERE}.annif_corpora:AnnifCsv"),
    "json": ListedFormat(f"{_HERE}.json_lines:JsonLines", ".jsonl", ".jsonl"),
    "fasttext": ListedFormat(f"{_HERE}.fasttext:FastText", ".txt (fastText)"),
    "xmc": ListedFormat(f"{_HERE}.xmc_text:XmcText", ".txt (XMC text)", ".txt (XMC text)"),
    "table": ListedFormat(f"{_HERE}.delimited:Delimited", ".csv, .tsv"),
    "parquet": ListedFormat(f"{_HERE}.parquet:Parquet", ".parquet"),
}
"""The formats in the order in which they are tried."""

FORMATS: Registry[type[Format]] = Registry(
    "unmissed.readers", "format", {name: one.import_path for name, one in LISTED.items()}
)
"""All formats; an installed package adds its own by an entry point in the group `unmissed.readers`."""

SOURCES = ", ".join(one.source for one in LISTED.values() if one.source)
TARGETS = ", ".join(one.target for one in LISTED.values() if one.target)
COMPRESSED = "text files also as .gz or .xz"


def all_formats() -> Iterator[Format]:
    """Yield one object per format, in the order in which they are tried."""
    return (cls() for cls in FORMATS)
