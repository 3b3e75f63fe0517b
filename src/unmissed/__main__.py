"""`python -m unmissed` is the command `unmissed`."""

from unmissed.cli import main

main()
