"""Service: an HTTP interface over runs, and a page for people.

Start with `application.py` (`create_app`) and `endpoints.py` (what each address answers, with the types of
`messages.py`). `projects.py` opens runs, `rank_queue.py` ranks the texts of concurrent requests together. `gate.py`
limits and records requests before the endpoints see them, `connections.py` limits connections. `supervisor.py`,
`generation.py` and `worker.py` are the processes of `unmissed serve`. Nothing here computes a score: `runs` does.
"""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.serve.application import create_app
    from unmissed.serve.limits import RequestLimits

_PUBLIC = {"RequestLimits": "limits", "create_app": "application"}
__all__ = ["RequestLimits", "create_app"]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
