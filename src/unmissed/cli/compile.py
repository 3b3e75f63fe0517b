"""`unmissed compile`: every kernel, ahead of time."""

from unmissed.cli import show


def compile_everything(json: show.JsonOption = False) -> None:
    """Compile all kernels into the cache now, so that no later command has to: for the image of a container.

    Kernels are compiled when they are first used, which takes seconds, and kept in UNMISSED_CACHE_DIR or the user's
    cache folder. This trains, ranks and evaluates tiny problems with every method. What is in the cache already is not
    compiled again. The cache may be read-only afterwards; it serves the same versions of this program and of Numba, on
    the same kind of processor.

    Example: UNMISSED_CACHE_DIR=/opt/unmissed unmissed compile
    """
    from unmissed.runs.warmup import compile_kernels

    with show.progress_bar("compiling") as progress:
        done = compile_kernels(progress)
    if json:
        folder = None if done.folder is None else str(done.folder)
        show.print_json({"compiled": done.compiled, "seconds": round(done.seconds, 1), "cache": folder})
        return
    kept = f"kept in {done.folder}" if done.folder else "kept nowhere; set UNMISSED_CACHE_DIR"
    show.say(f"{done.compiled} compilations in {done.seconds:.0f} s; {kept}")
