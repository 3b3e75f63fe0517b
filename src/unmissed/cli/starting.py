"""Lazy imports that shorten the start of short commands."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

_UNUSED = ("f2py", "ma", "polynomial", "testing")


def defer_unused() -> None:
    """Import unused subpackages of numpy lazily, at their first attribute access.

    scipy touches every attribute of numpy and would import numpy.f2py, numpy.testing and others, a fifth of the time
    that `predict --text` takes.
    """
    import numpy

    for name in _UNUSED:
        full = f"numpy.{name}"
        spec = None if full in sys.modules else find_spec(full)
        if spec is None or spec.loader is None:
            continue
        spec.loader = LazyLoader(spec.loader)
        sys.modules[full] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(numpy, name, module)
