"""A quick start for commands that are over in half a second."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

_UNUSED = ("f2py", "ma", "polynomial", "testing")


def defer_unused() -> None:
    """Have parts of numpy that nothing here uses read when something in them is asked for.

    scipy names all that numpy has, and so would read numpy's Fortran compiler, its tests and more: a fifth of the time
    that ranking a sentence takes.
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
