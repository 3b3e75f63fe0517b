"""The root command: it registers the commands and turns errors into messages and exit codes."""

import errno
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmissed._version import __version__
from unmissed.cli import (
    audit,
    calibrate,
    compare,
    compile,
    data,
    demo,
    ensemble,
    evaluate,
    inspect,
    missing,
    plan,
    predict,
    serve,
    show,
    study,
    train,
    tune,
    update,
)
from unmissed.errors import UnmissedError
from unmissed.writing import FULL


class OrderedCommands(TyperGroup):
    """The commands in order of use."""

    order = (
        "data",
        "train",
        "calibrate",
        "audit",
        "predict",
        "serve",
        "evaluate",
        "inspect",
        "missing",
        "tune",
        "compare",
        "ensemble",
        "extend",
        "update",
        "plan",
    )

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; those that are not in `order` come last."""
        listed: list[str] = super().list_commands(ctx)
        return sorted(listed, key=lambda name: self.order.index(name) if name in self.order else len(self.order))


app = typer.Typer(
    name="unmissed",
    cls=OrderedCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


_USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, or of the copy of click inside newer releases of typer
_STOPPED = 130
_LEVELS = {"--verbose": logging.INFO, "-v": logging.INFO, "-vv": logging.DEBUG}
_CAUSES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than the system allows (see ulimit -f)",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "no such file or folder",
    errno.EISDIR: "is a folder; a file was expected",
    errno.ENOTDIR: "is a file; a folder was expected",
    errno.ENAMETOOLONG: "the name is too long",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unmissed {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log each step on standard error; -vv logs each piece of work, too.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback after an error.")] = False,
) -> None:
    """Extreme multi-label classification with missing labels: train, predict, evaluate and compare methods.

    --verbose and --debug may also follow the command.
    """


for command in (
    calibrate.calibrate,
    predict.predict,
    serve.serve,
    evaluate.evaluate,
    inspect.inspect,
    missing.missing,
    tune.tune,
    compare.compare,
    ensemble.ensemble,
    train.extend,
    update.update,
    plan.plan,
    demo.demo,
):
    app.command()(command)
app.command("compile")(compile.compile_everything)
for name, group in (("data", data.app), ("train", train.app), ("audit", audit.app), ("study", study.app)):
    app.add_typer(group, name=name)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Bad input gives one line on standard error and exit code 2, with `--debug` a traceback."""
    words, taken = _take_out(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in taken
    try:
        with show.logs(min((_LEVELS[word] for word in taken if word in _LEVELS), default=None)):
            code = app(args=words, prog_name="unmissed", standalone_mode=False) or 0
        sys.stdout.flush()
        if code == _STOPPED:  # Ctrl-C in newer releases of typer; older ones raise Abort
            raise KeyboardInterrupt
        sys.exit(code)
    except _USAGE_ERROR as error:
        message = io.StringIO()
        error.show(file=message)
        show.say(message.getvalue().rstrip(), err=True)
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        if debug:
            raise
        show.say(f"unmissed: interrupted (Ctrl-C){show.what_is_kept()}", err=True)
        sys.exit(_STOPPED)
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        _close_output()
        sys.exit(1)
    except (UnmissedError, OSError, MemoryError) as error:
        if (
            isinstance(error, OSError) and error.errno in FULL and error.filename is None
        ):  # only standard output has no name
            error.filename = "standard output"
            _close_output()
        if debug:
            raise
        show.say(f"unmissed: {_message_of(error)}", err=True)
        sys.exit(2)


def _take_out(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command line without the options that may be anywhere before `--`, and these options."""
    words = list(words)
    end = words.index("--") if "--" in words else len(words)
    taken = [word for word in words[:end] if word in ("--debug", *_LEVELS)]
    return [word for word in words[:end] if word not in taken] + words[end:], taken


def _close_output() -> None:
    """Redirect standard output to /dev/null, because the interpreter flushes it at exit and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message_of(error: Exception) -> str:
    """Return a message of one line for an error."""
    message = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"not enough memory{': ' + message if message else ''}"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{_CAUSES.get(error.errno or 0, error.strerror)}"
    return message or type(error).__name__
