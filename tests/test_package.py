"""The package: its imports, its public names and its version."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import typing
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

import unmissed

HEAVY = {"jinja2", "matplotlib", "numba", "numpy", "rich", "scipy", "sklearn", "torch", "typer"}
PACKAGES = [
    "calibration",
    "data",
    "execution",
    "losses",
    "metrics",
    "models",
    "numerics",
    "propensity",
    "runs",
    "serve",
    "studies",
]


def imported_by(statement):
    """Run a statement in a new process; return the libraries that it imported."""
    script = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_version_is_that_of_the_installed_distribution():
    assert unmissed.__version__ == version("unmissed")


@pytest.mark.parametrize("file", ["CHANGELOG.md", "CITATION.cff"])
def test_the_files_around_the_package_name_its_version(file):
    assert unmissed.__version__ in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


def test_importing_the_package_imports_no_library():
    assert not HEAVY & imported_by("import unmissed")


def test_the_losses_need_no_torch_and_no_compiler():
    assert not {"torch", "numba", "sklearn"} & imported_by("import unmissed.losses")


def test_nothing_but_the_network_of_the_study_and_the_torch_losses_imports_torch():
    names = ", ".join(f"unmissed.{package}" for package in PACKAGES)
    assert "torch" not in imported_by(f"import {names}")


@pytest.mark.parametrize("name", unmissed.__all__)
def test_every_public_name_of_the_package_resolves(name):
    assert getattr(unmissed, name) is not None
    assert name in dir(unmissed)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_resolves_and_is_documented(package):
    module = importlib.import_module(f"unmissed.{package}")
    assert module.__doc__
    for name in getattr(module, "__all__", []):
        value = getattr(module, name)
        is_alias = typing.get_origin(value) is not None  # such as a Literal, which has no docstring of its own
        assert is_alias or not callable(value) or value.__doc__, f"{package}.{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unmissed.nothing  # noqa: B018, the access is the test


def test_every_module_imports():
    pytest.importorskip("torch")
    names = [module.name for module in pkgutil.walk_packages(unmissed.__path__, "unmissed.")]
    assert len(names) > 50
    for name in names:
        importlib.import_module(name)


def test_names_of_modules_and_of_public_classes_are_unique():
    paths = list(Path(unmissed.__file__).parent.rglob("*.py"))
    stems = Counter(path.stem for path in paths if path.stem not in {"__init__", "estimator", "solver", "kernels"})
    assert [name for name, count in stems.items() if count > 1] == []
    classes = Counter(
        node.name
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_types_are_shipped():
    assert (Path(unmissed.__file__).parent / "py.typed").is_file()
