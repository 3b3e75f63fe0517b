"""`unmissed serve`: an HTTP service over runs, and a page."""

import gc
import json as json_module
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.serve.service import Log

ACCESS = "Who may use it"
LIMITS = "Limits"


def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, trained on texts.")],
    host: Annotated[
        str,
        typer.Option(help="The address to listen at; by default this machine only.", rich_help_panel=ACCESS),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Worker processes; they share one copy of the runs.")
    ] = 1,
    watch: Annotated[bool, typer.Option("--watch", help="Reload when a run changes.")] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with a token; requests need the header `Authorization: Bearer TOKEN`.", rich_help_panel=ACCESS
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A site, such as https://example.org, whose pages may use the service (CORS); can be repeated.",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write texts into the access log, too.")] = False,
    no_access_log: Annotated[bool, typer.Option("--no-access-log", help="Write no access log.")] = False,
    max_text: Annotated[int, typer.Option(min=1, help="Characters of a text.", rich_help_panel=LIMITS)] = 200_000,
    max_batch: Annotated[int, typer.Option(min=1, help="Texts of a request.", rich_help_panel=LIMITS)] = 32,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.", rich_help_panel=LIMITS)] = 4 << 20,
    max_concurrent: Annotated[
        int, typer.Option(min=1, help="Requests at the same time per worker; others get 503.", rich_help_panel=LIMITS)
    ] = 128,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds in which a request must arrive, and be answered.", rich_help_panel=LIMITS),
    ] = 30.0,
) -> None:
    """Serve runs over HTTP: suggestions for programs (Annif's and Hugging Face's interfaces), and a page for people.

    The page is at /, the documentation of the interface at /docs. SIGHUP, --watch or POST /admin/reload opens the runs
    again; the old ones answer until then. SIGTERM and Ctrl-C finish the open requests first. The access log, JSON
    lines, is standard output.

    Example: unmissed serve laws

    Example: unmissed serve laws tags --workers 2 --watch --port 8080
    """
    from unmissed.archive import HashedAhead

    with _no_collection(), HashedAhead(runs) as hashed:  # computed while modules are imported
        try:
            from unmissed.serve.limits import RequestLimits
            from unmissed.serve.service import Options
            from unmissed.serve.supervisor import Supervisor
        except ImportError as error:
            raise InputError(f"serve needs {error.name}: pip install 'unmissed[serve]'") from None
        limits = RequestLimits(
            text=max_text, batch=max_batch, body=max_body, concurrent=max_concurrent, seconds=timeout
        )
        options = Options(
            limits=limits,
            token=None if token_file is None else _read_token(token_file),
            origins=tuple(allow_origin or ()),
            log=None if no_access_log else _access_log(),
            log_texts=log_texts,
        )
        supervisor = Supervisor(runs, options, workers, watch=watch, say=lambda line: show.say(line, err=True))
        supervisor.run(host, port, hashed)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from searching modules and runs, which are all kept; the supervisor enables it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read_token(path: Path) -> str:
    from unmissed.files import read_text

    token = read_text(path).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{path}: a token is one line of printable ASCII characters without spaces")
    return token


def _access_log() -> "Log":
    """Return a function that writes a JSON line to standard output, in one piece."""

    def write(record: dict[str, Any]) -> None:
        line = json_module.dumps(record, ensure_ascii=True).encode() + b"\n"
        try:
            os.write(1, line)
        except OSError:  # whoever read it is gone; the service goes on
            return

    return write
