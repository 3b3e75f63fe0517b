"""Problem: an error as a client sees it, a status with one line, always in the same JSON form."""

from __future__ import annotations

import json
from http import HTTPStatus


class Problem(Exception):  # noqa: N818, the name of RFC 9457
    """An error that a client gets as JSON: `status`, `title` and `detail`.

    Parameters
    ----------
    status : the HTTP status
    detail : one line that says what is wrong and what to do
    retry_after : seconds after which the client may try again
    """

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, " ".join(detail.split()), retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to the status."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**headers, "www-authenticate": "Bearer"} if self.status == HTTPStatus.UNAUTHORIZED else headers

    def body(self) -> bytes:
        """Return the JSON of the answer."""
        title = HTTPStatus(self.status).phrase
        return json.dumps({"status": self.status, "title": title, "detail": self.detail}).encode()
