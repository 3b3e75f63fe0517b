"""`python -m unmissed` is the command `unmissed`."""

from unmissed.cli import main

if __name__ == "__main__":
    main()
