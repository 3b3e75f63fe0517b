"""The command line `unmissed`: one file per command.

Start with `app.py`, which registers the commands and turns errors into messages. `train.py`, `predict.py`,
`evaluate.py` and the others each define one command; `methods.py` builds `unmissed train METHOD` from the parameters of
an estimator. `options.py` has options that several commands share, `show.py` output and progress bars. Commands import
heavy libraries inside their functions, so that `unmissed --help` starts fast.
"""

import sys


def main() -> None:
    """Run the command line: the entry point of `unmissed`."""
    from unmissed.cli.quick import answer

    try:
        answered = answer(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("unmissed: interrupted (Ctrl-C)\n")
        sys.exit(130)
    if answered is None:
        from unmissed.cli.app import run

        run()
        return
    from unmissed.cli.terminal_text import escape_control

    lines, note = answered
    terminal = sys.stdout.isatty()
    try:
        sys.stdout.write("".join(f"{escape_control(line, terminal=terminal)}\n" for line in lines))
        sys.stdout.flush()
    except OSError:  # closed pipe or full disk: the full command reports it
        from unmissed.cli.app import run

        run()
        return
    if note is not None:
        sys.stderr.write(f"{note}\n")
