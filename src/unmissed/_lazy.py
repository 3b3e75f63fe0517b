"""Lazy imports of a package's public names (PEP 562), so that short commands start quickly."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, public: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `public` maps each name to its submodule (or to itself)."""

    def find(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{public[name]}")
        return module if name == public[name] else getattr(module, name)

    return find, lambda: sorted(public)
