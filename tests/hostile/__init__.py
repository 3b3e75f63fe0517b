"""The hostile campaign: inputs that somebody spoilt, by accident or on purpose, each tried in a child process."""
