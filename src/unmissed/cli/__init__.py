"""The command line `unmissed`: one file per command.

Start with `app.py`, which registers the commands and turns errors into messages. `train.py`, `predict.py`,
`evaluate.py` and the others each define one command; `methods.py` builds `unmissed train METHOD` from the parameters of
an estimator. `options.py` has options that several commands share, `show.py` output and progress bars. Commands import
heavy libraries inside their functions, so that `unmissed --help` starts fast.
"""


def main() -> None:
    """Run the command line: the entry point of `unmissed`."""
    from unmissed.cli.app import run

    run()
