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
    for line in lines:
        sys.stdout.write(f"{plain(line, terminal=terminal)}\n")
    if note is not None:
        sys.stderr.write(f"{note}\n")
