"""Side by side with rivals: python -m benchmarks.NAME."""
