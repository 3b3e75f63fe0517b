"""Mutation testing: change one operation of the source at a time and run its tests (`python -m tests.mutation --help`).

Each mutant (a changed comparison, sign, number or condition, or a removed check) is made in memory, in its own process,
which runs the tests of the package until the first failure. Surviving mutants are printed: either a test is missing, or
the mutant is equivalent. A run takes minutes to hours and is not part of the checks; use it on a package that has
changed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TESTS = {
    "losses": [
        f"tests/losses/test_{name}.py" for name in ("laws", "matrix", "margin", "inverse", "variance", "decisions")
    ],
    "losses/torch": ["tests/losses/test_torch.py", "tests/losses/test_torch_candidates.py"],
    "propensity": ["tests/propensity", "tests/losses/test_inverse.py"],
    "metrics": ["tests/metrics", "tests/losses/test_inverse.py"],
    "numerics": ["tests/numerics"],
    "models": ["tests/models"],
    "ranking.py": ["tests/test_ranking.py"],
    "matrices.py": ["tests/test_matrices.py"],
    "metrics/hits.py": ["tests/metrics"],
    "studies/mnist.py": ["tests/studies/test_mnist.py"],
}
"""The tests of each package or file below src/unmissed."""

COMPARED = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMED = [("min", "max"), ("minimum", "maximum"), ("any", "all"), ("zeros", "ones"), ("zeros_like", "ones_like")]
SWAPPED = {**dict(NAMED), **{b: a for a, b in NAMED}}
SIDES = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Mutant:
    """One change: in which file, at which of its places, which of the changes possible there."""

    path: Path
    position: int
    variant: int
    words: str


def changes(node: ast.AST) -> list[ast.AST]:
    """Return what may stand in place of a node."""
    found: list[ast.AST] = []
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in COMPARED[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops[at] = other()
                found.append(changed)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        found.append(ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))
    elif isinstance(node, ast.AugAssign):
        found.append(ast.Pass())
    elif isinstance(node, ast.BoolOp):
        found.append(ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
    elif isinstance(node, ast.UnaryOp):
        found.append(node.operand)
    elif isinstance(node, ast.Constant):
        found += _constants(node.value)
    elif isinstance(node, ast.If | ast.IfExp):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        found.append(changed)
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        found.append(ast.Pass())
    elif isinstance(node, ast.Attribute) and node.attr in SWAPPED:
        found.append(ast.Attribute(node.value, SWAPPED[node.attr], node.ctx))
    elif isinstance(node, ast.Name) and node.id in SWAPPED:
        found.append(ast.Name(SWAPPED[node.id], node.ctx))
    return found


def _constants(value: Any) -> list[ast.AST]:
    if isinstance(value, bool):
        return [ast.Constant(not value)]
    if isinstance(value, int | float):
        return [ast.Constant(value + 1)]
    if isinstance(value, str) and value in SIDES:
        return [ast.Constant(SIDES[value])]
    return []


def slots(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Give every place (parent, field, index, node) whose code decides something: no annotations, no messages."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        entries = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, node in entries:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.ImportFrom | ast.Import):
                continue
            yield tree, field, index, node
            if not isinstance(node, ast.Raise):  # what a refusal says is read by people
                yield from slots(node)


def mutants(path: Path) -> list[Mutant]:
    """List every change of a file."""
    found = []
    for position, (_, _, _, node) in enumerate(slots(ast.parse(path.read_text(encoding="utf-8")))):
        for variant, changed in enumerate(changes(node)):
            before, after = (" ".join(ast.unparse(ast.fix_missing_locations(each)).split()) for each in (node, changed))
            line = getattr(node, "lineno", 0)
            words = f"{path.relative_to(ROOT)}:{line}: {before[:90]}  ->  {after[:90]}"
            found.append(Mutant(path, position, variant, words))
    return found


def mutated(mutant: Mutant) -> ast.Module:
    """Return the tree of a file with one change in it."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    parent, field, index, node = list(slots(tree))[mutant.position]
    changed = ast.copy_location(changes(node)[mutant.variant], node)
    if index is None:
        setattr(parent, field, changed)
    else:
        getattr(parent, field)[index] = changed
    return ast.fix_missing_locations(tree)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        name = ".".join(mutant.path.relative_to(SOURCE).with_suffix("").parts)
        self.name = name.removesuffix(".__init__")
        self.path = mutant.path
        self.code = compile(mutated(mutant), str(mutant.path), "exec")

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Answer for the changed module only."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: Any) -> None:
        """Run the changed code."""
        exec(self.code, module.__dict__)


def nearest_first(tests: list[str], path: Path) -> list[str]:
    """Return the test files, first those named after the changed file."""
    files = [
        file for test in map(ROOT.joinpath, tests) for file in (test.rglob("test_*.py") if test.is_dir() else [test])
    ]
    return [str(file) for file in sorted(files, key=lambda file: (path.stem not in file.stem, file))]


class FewExamples:
    """Lets pytest draw only some examples for each property: enough for nearly every change that matters."""

    examples = 10

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Cut down what each property's own settings say."""
        import hypothesis

        name = "_hypothesis_internal_use_settings"
        for item in items:
            options = getattr(item.obj, name, None)
            if options is not None:
                fewer = hypothesis.settings(options, max_examples=min(options.max_examples, self.examples))
                setattr(item.obj, name, fewer)


def notice(mutant: Mutant | None, tests: list[str], quick: bool) -> None:
    """Run the tests in this process, with the change if there is one; exit with pytest's answer."""
    import hypothesis
    import pytest

    drawn = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # nobody reads the smallest example
    hypothesis.settings.register_profile("mutation", deadline=None, derandomize=True, phases=drawn)
    hypothesis.settings.load_profile("mutation")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, the process ends with it
    if mutant is not None:
        sys.meta_path.insert(0, Changed(mutant))
    quiet = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(int(pytest.main(["-x", *quiet, *tests], plugins=[FewExamples()] if quick else [])))


def outcome(mutant: Mutant | None, tests: list[str], seconds: float, quick: bool = True) -> tuple[str, float]:
    """Return "survived", "killed" or "timed out", and how long it took."""
    child = multiprocessing.get_context("fork").Process(target=notice, args=(mutant, tests, quick))
    begin = time.monotonic()
    child.start()
    child.join(seconds)
    took = time.monotonic() - begin
    if child.is_alive():
        child.kill()
        child.join()
        return "timed out", took
    return ("survived" if child.exitcode == 0 else "killed"), took


def main() -> None:
    """Test the mutants and print the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--modules", nargs="+", choices=sorted(TESTS), default=["losses", "propensity", "metrics"])
    parser.add_argument("--only", default="", help="only files whose path contains this text")
    parser.add_argument("--tests", nargs="+", help="only these tests, if those of the package take too long")
    parser.add_argument("--sample", type=float, default=1.0, help="the fraction of mutants to test")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args()
    sys.path[:0] = [str(SOURCE), str(ROOT)]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(HYPOTHESIS_STORAGE_DIRECTORY=scratch, OMP_NUM_THREADS="1")
        if any(module.startswith(("numerics", "losses")) for module in options.modules):
            os.environ["NUMBA_DISABLE_JIT"] = (
                "1"  # changed code is not what the cache of compiled kernels is named after
            )
        for heavy in ("hypothesis", "numba", "pytest", "scipy.sparse", "sklearn.base", "torch"):
            if importlib.util.find_spec(heavy.partition(".")[0]):
                importlib.import_module(heavy)
        for module in options.modules:
            _test_package(module, options)


def _test_package(module: str, options: argparse.Namespace) -> None:
    location = SOURCE / "unmissed" / module
    files = [location] if location.is_file() else sorted(location.glob("*.py"))
    files = [path for path in files if path == location or f"{module}/{path.name}" not in TESTS]
    every = [one for path in files if options.only in str(path) for one in mutants(path)]
    chosen = sorted(random.Random(options.seed).sample(range(len(every)), round(options.sample * len(every))))
    tests_of_package = options.tests or TESTS[module]
    fate, took = outcome(None, tests_of_package, 3600)
    if fate != "survived":
        raise SystemExit(f"{module}: its tests fail without any change")
    _say(f"{module}: {len(chosen)} of {len(every)} changes; its tests take {took:.0f} s")
    counts = dict.fromkeys(("killed", "timed out", "survived"), 0)
    for number in chosen:
        tests = nearest_first(tests_of_package, every[number].path)
        fate, _ = outcome(every[number], tests, 60 + 5 * took)
        if fate == "survived":  # the few examples of a property; now all of them
            fate, _ = outcome(every[number], tests, 600 + 20 * took, quick=False)
        counts[fate] += 1
        if fate != "killed":
            _say(f"  {fate}: {every[number].words}")
    _say(f"{module}: " + ", ".join(f"{count} {fate}" for fate, count in counts.items()))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
