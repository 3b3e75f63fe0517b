"""The command `unmissed`: one verb, one file. Heavy libraries are imported inside the verbs."""


def main() -> None:
    """Run the command line."""
    from unmissed.cli.app import run

    run()
