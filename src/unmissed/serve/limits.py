"""Limits: what one request, and all requests together, may take."""

from __future__ import annotations

from dataclasses import dataclass, fields

from unmissed.errors import InputError


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a service; those of requests count per worker.

    Parameters
    ----------
    text : characters of a text
    batch : texts of a request
    labels : labels per text, and per search
    body : bytes of a request's body
    headers : bytes of a request's first line and headers
    concurrent : requests that are answered at the same time; further ones get status 503
    connections : open connections; further ones are closed
    seconds : time in which a request must arrive, and then be answered
    """

    text: int = 200_000
    batch: int = 32
    labels: int = 1000
    body: int = 4 << 20
    headers: int = 32 << 10
    concurrent: int = 128
    connections: int = 1000
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise InputError(f"the limit {one.name} must be above 0; got {getattr(self, one.name)}")
