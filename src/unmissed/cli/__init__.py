"""The command `unmissed`: one verb, one file. Heavy libraries are imported inside the verbs."""

import sys


def main() -> None:
    """Run the command line."""
    from unmissed.cli.quick import answer

    try:
        answered = answer(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("unmissed: stopped by the keyboard (Ctrl-C)\n")
        sys.exit(130)
    if answered is None:
        from unmissed.cli.app import run

        run()
        return
    from unmissed.cli.letters import plain

    lines, note = answered
    terminal = sys.stdout.isatty()
    try:
        sys.stdout.write("".join(f"{plain(line, terminal=terminal)}\n" for line in lines))
        sys.stdout.flush()
    except OSError:  # nobody reads it, or the disk is full: the command says so
        from unmissed.cli.app import run

        run()
        return
    if note is not None:
        sys.stderr.write(f"{note}\n")
