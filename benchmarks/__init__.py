"""Benchmarks against other systems: `python -m benchmarks.NAME --help`; `rivals/` has their adapters."""
