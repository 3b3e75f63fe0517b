"""Layouts: data that a model prepares from its pieces, kept on disk so that later processes need not prepare it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from unmissed.errors import InputError
from unmissed.execution.pieces import OnDisk, Piece, Pieces, PrefixedPieces, RecordedPieces

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layouts:
    """Layouts of one model, each under a digest of what it was made from; the last one is kept.

    Parameters
    ----------
    path : the folder
    keeps : whether new layouts are kept: only those of pieces that were compared with their checksums
    """

    path: Path
    keeps: bool

    def get(self, key: str) -> Piece | None:
        """Return the layout of this digest, compared with its checksums; None if there is none, or if it is damaged."""
        try:
            return self._pieces.get(key)
        except (InputError, OSError) as error:
            self.discard(error)
            return None

    def put(self, piece: Piece) -> None:
        """Keep a layout in place of all others, if that is possible."""
        if not self.keeps:
            return
        try:
            for key in self._pieces.listed():
                self._pieces.drop(key)
            self._pieces.put(piece)
        except (InputError, OSError) as error:
            _logger.info("the layout was not kept: %s", error)

    def discard(self, error: Exception) -> None:
        """Say that a layout is of no use; the next `put` replaces it."""
        _logger.warning("%s; the layout is built again", error)

    @property
    def _pieces(self) -> OnDisk:
        return OnDisk(self.path, verify=True)


def layouts_of(pieces: Pieces) -> Layouts | None:
    """Return where the layouts of a model are kept that has these pieces; None if they are not those of a run."""
    prefixes: list[str] = []
    while isinstance(pieces, PrefixedPieces | RecordedPieces):
        if isinstance(pieces, PrefixedPieces):
            prefixes.insert(0, pieces.prefix)
        pieces = pieces.pieces
    if not isinstance(pieces, OnDisk) or pieces.layouts is None:
        return None
    return Layouts(pieces.layouts.joinpath(*prefixes), pieces.verify)
