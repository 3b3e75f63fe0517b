"""`unmissed compile`: compile all kernels ahead of time."""

from typing import Annotated

import typer

from unmissed.cli import show


def compile_everything(
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: all cores.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Compile all kernels into the cache ahead of time, for example in a container image.

    Without this command, each kernel is compiled at its first use, which takes seconds. The cache is
    UNMISSED_CACHE_DIR, or else the user's cache folder. This command trains, ranks and evaluates tiny problems with
    every method. Cached kernels are not compiled again. The cache can be read-only afterwards. It is valid for the same
    versions of unmissed and Numba on the same CPU type.

    Example: UNMISSED_CACHE_DIR=/opt/unmissed unmissed compile
    """
    from unmissed.runs.warmup import compile_kernels

    with show.progress_bar("compiling") as progress:
        done = compile_kernels(progress, jobs)
    if json:
        folder = None if done.folder is None else str(done.folder)
        show.print_json({"compiled": done.compiled, "seconds": round(done.seconds, 1), "cache": folder})
        return
    kept = f"cached in {done.folder}" if done.folder else "not cached; set UNMISSED_CACHE_DIR"
    show.say(f"{done.compiled} kernels compiled in {done.seconds:.0f} s; {kept}")
