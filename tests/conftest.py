"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("unmissed", deadline=None)  # the first example may compile a kernel
settings.load_profile("unmissed")
