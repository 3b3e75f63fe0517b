"""Compiled loops over plain arrays; they know numpy and numba only."""
