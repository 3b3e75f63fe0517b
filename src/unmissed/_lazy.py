"""Names of a package that are imported when they are first asked for, so that short commands start at once."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, public: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`; `public` gives the module of each name, which may be a module."""

    def find(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{public[name]}")
        return module if name == public[name] else getattr(module, name)

    return find, lambda: sorted(public)
