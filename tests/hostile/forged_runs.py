"""Forged runs of every method: recipes, sizes, metadata and arrays changed, with every checksum made right again.

A forged run must be refused by one InputError, or open and rank correctly. Correctly means: each row's labels exist and
are distinct, and scores fall; parameters that ranking does not read change no bit of it; and a recipe that training
refuses is refused when it is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from scipy import sparse

from tests.hostile.campaign import DifferenceError, Format, ViolationError
from tests.hostile.mutators import ODD, Rng, pick, spoil_array, spoil_json
from unmissed.archive import checksum, write_manifest
from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Work
from unmissed.models.method_registry import find_model, known_methods, make_model
from unmissed.models.parameters import Parameter, parameters_of
from unmissed.runs import calibrate, open_run, train
from unmissed.runs.inspection import describe_label, summarize

MANIFEST = "manifest.json"
MEMORY = 1 << 30  # bytes; the base runs have some 50 KB
TINY = {"n_jobs": 1, "block_size": 4, "n_trees": 2, "n_learners": 2, "n_components": 4, "max_leaf": 3}
CALIBRATED = ("pw-dismec", "popularity", "parabel")  # runs with probabilities
RANKS = frozenset(  # parameters that ranking reads: it may change with them
    ("normalize", "beam", "votes", "search", "n_trees", "n_learners", "alpha", "gamma", "candidates")
)
NUMBERS: tuple[Any, ...] = (
    0, 1, 2, 3, 5, -1, -7, 100, 10**5, 10**8, 2**31 - 1, 2**31, 2**62, 2**63, -(2**63), 10**30, 0.0, -0.0, 0.5, 1.0,
    1.5, 2.0, -0.5, 1e-12, 5e-324, 1e18, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), True, False,
)  # fmt: skip
SIZES: tuple[Any, ...] = (
    0, 1, -1, 100, 10**5, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**63, 10**30, 9.0, float("nan"), True, None, "9", [9],
)  # fmt: skip
PROPENSITIES: tuple[Any, ...] = (
    *({"model": "jain", "a": a, "b": 1.5} for a in NUMBERS),
    *({"model": "jain", "a": 0.55, "b": b} for b in NUMBERS),
    *({"model": "constant", "p": p} for p in (*NUMBERS, None, "x", [0.5])),
    *({"model": "table", "values": [0.5] * n} for n in (0, 1, 8, 9, 10, 1000)),
    *({"model": "table", "values": [value] * 9} for value in (*NUMBERS, None, "x", [])),
    {"model": "jain"}, {"model": "constant"}, {"model": "table"}, {"model": "jain", "a": 1.0, "b": 1.0, "c": 1.0},
    {"model": "table", "values": {}}, {"model": "table", "values": 1.0}, {"model": []}, {"model": "none"},
)  # fmt: skip


COSTS = ("weighting", "propensity", "C", "loss")
"""What training makes of label counts. Ranking reads none of it, and whether it can be trained depends on the data."""


class Base(NamedTuple):
    """A sound run of a method, what it answers, and the files that a forger can change."""

    method: str
    root: Path
    folders: tuple[str, ...]
    files: tuple[str, ...]
    labels: bytes
    scores: bytes


class Forged(NamedTuple):
    """A forged run: `same` if ranking must not change, `params` if training can tell whether they are valid."""

    base: Base
    folder: Path
    same: bool = False
    params: dict[str, Any] | None = None


class TrainingBegan(Exception):  # noqa: N818, it is no error
    """Parameters were checked and accepted."""


class UntouchedWork(Work):
    """Work that ends training when it is first used, which is after the check of parameters."""

    def __init__(self) -> None:
        super().__init__(executor=object())  # type: ignore[arg-type]

    def __getattribute__(self, name: str) -> Any:
        if name in ("plan", "map", "run", "tell", "pieces"):
            raise TrainingBegan(name)
        return super().__getattribute__(name)


def own_methods() -> list[str]:
    """Return the methods of this package; opening a run of another package runs that package's code."""
    return sorted(name for name, one in known_methods().items() if one.import_path.startswith("unmissed."))


def prepare(workdir: Path) -> dict[str, Any]:
    """Train a tiny run of every method."""
    from tests.hostile.folders import corpus  # which imports what only the other campaigns need

    dataset, rows = corpus()
    seeds: dict[str, Any] = {"rows": rows, "train": Dataset(dataset.X, dataset.Y), "bases": {}}
    for method in own_methods():
        data = dataset if method == "pw-dismec" else seeds["train"]
        folder = workdir / method
        known = make_model(method, {})._get_param_names()
        train(method, data, folder, {name: value for name, value in TINY.items() if name in known})
        if method in CALIBRATED:
            calibrate(folder, old_rows=[data])
        for lock in folder.glob(".*lock"):
            lock.unlink()
        entries = sorted(folder.rglob("*"))
        ranking = rank(folder, rows)
        seeds["bases"][method] = Base(
            method,
            folder,
            tuple(str(one.relative_to(folder)) for one in entries if one.is_dir()),
            tuple(str(one.relative_to(folder)) for one in entries if one.is_file()),
            ranking.labels.tobytes(),
            ranking.scores.tobytes(),
        )
        use(seeds, Forged(seeds["bases"][method], folder, same=True))  # compiles what the children will need
    return seeds


def method_of(rng: Rng, seeds: Any) -> str:
    """Choose the method of a case: the first draw of its generator."""
    return str(pick(rng, sorted(seeds["bases"])))


def spoil(rng: Rng, seeds: Any, folder: Path) -> Forged:
    """Copy a base run by hard links and forge it; only changed files are written."""
    base: Base = seeds["bases"][method_of(rng, seeds)]
    target = folder / "run"
    target.mkdir()
    for name in base.folders:
        os.mkdir(target / name)
    for name in base.files:
        os.link(base.root / name, target / name)
    forge: Callable[[Rng, Base, Path], Forged] = pick(
        rng, (forge_parameter,) * 6 + (forge_recipe, forge_sizes, forge_sizes, forge_metadata, forge_array, forge_array)
    )
    return forge(rng, base, target)


def forge_parameter(rng: Rng, base: Base, target: Path) -> Forged:
    """Give one parameter, sometimes two, another value."""
    known = [one for one in parameters_of(find_model(base.method)) if one.changes_result]
    if not known:
        return forge_sizes(rng, base, target)
    manifest = read(target)
    chosen = {one.name: one for one in (pick(rng, known) for _ in range(1 + int(rng.random() < 0.2)))}
    for name, one in chosen.items():
        manifest["recipe"]["params"][name] = forged_value(rng, one)
    write(target, manifest)
    return Forged(base, target, not RANKS & chosen.keys(), manifest["recipe"]["params"])


def forged_value(rng: Rng, parameter: Parameter) -> Any:
    """Return a value out of range, huge, of another type, not a number; or a valid one."""
    if rng.random() < 0.15:
        return pick(rng, ODD)
    if parameter.is_propensity:
        return pick(rng, PROPENSITIES)
    words = [word for one in (parameter.annotation, *get_args(parameter.annotation)) for word in get_args(one)]
    words = [word for word in words if isinstance(word, str)]
    return pick(rng, (*words, *(word.upper() for word in words), True, False, "x" * 10**5) if words else NUMBERS)


def forge_recipe(rng: Rng, base: Base, target: Path) -> Forged:
    """Leave out, add or rename parameters, name another method, or spoil any part of the recipe."""
    manifest = read(target)
    recipe = manifest["recipe"]
    way = int(rng.integers(5))
    if way == 0 and recipe["params"]:
        recipe["params"].pop(pick(rng, sorted(recipe["params"])))
    elif way == 1:
        recipe["params"][pick(rng, ("C", "beam", "n_jobs", "self", "", "x" * 1000, "__class__"))] = pick(rng, ODD)
    elif way == 2:
        recipe["method"] = pick(rng, (*sorted(known_methods()), "", "x", None, 1, [], "os:system", "../dismec"))
    elif way == 3:
        recipe["text"] = pick(rng, (*ODD, {"ngrams": [1, 10**9]}, {"min_count": -1}, {"lowercase": "x"}))
    else:
        manifest["recipe"] = spoil_json(rng, recipe)
    write(target, manifest)
    return Forged(base, target)


def forge_sizes(rng: Rng, base: Base, target: Path) -> Forged:
    """Claim other numbers of features, labels or rows, with label counts that agree or with none."""
    manifest = read(target)
    part = manifest["parts"][0]
    name = pick(rng, ("n_features", "n_labels", "n_labels", "n_samples", "first"))
    position = manifest if name == "n_features" else part
    true = position[name]
    value = position[name] = pick(rng, (*SIZES, true + 1, true - 1, 2 * true))
    if name == "n_labels" and rng.random() < 0.8:
        labels = target / "labels" / "00000000"
        held = json.loads((labels / MANIFEST).read_bytes())
        held["arrays"] = {}
        if type(value) is int and 0 <= value <= 10**5 and rng.random() < 0.5:
            save(labels, held, "counts", np.ones(value, np.int64))
        else:
            write_manifest(labels, held)
    if name == "n_labels" and rng.random() < 0.2:
        manifest["parts"].append({**part, "first": value, "n_labels": pick(rng, SIZES)})
    write(target, manifest)
    return Forged(base, target)


def forge_metadata(rng: Rng, base: Base, target: Path) -> Forged:
    """Spoil what the manifest of a piece, of the labels or of the text features says."""
    folder = target / pick(rng, [name for name in base.files if name.endswith(f"/{MANIFEST}")])
    manifest = json.loads(folder.read_bytes())
    for _ in range(1 + int(rng.integers(2))):
        if isinstance(manifest.get("metadata"), dict) and manifest["metadata"] and rng.random() < 0.7:
            manifest["metadata"][pick(rng, sorted(manifest["metadata"]))] = pick(rng, (*NUMBERS, *ODD))
        else:
            manifest = spoil_json(rng, manifest)
        if not isinstance(manifest, dict):
            manifest = {"kind": manifest}
    write(folder.parent, manifest)
    return Forged(base, target)


def forge_array(rng: Rng, base: Base, target: Path) -> Forged:
    """Change values, type, length or shape of one array, sometimes of two of one piece."""
    path = target / pick(rng, [name for name in base.files if name.endswith(".npy")])
    manifest = json.loads((path.parent / MANIFEST).read_bytes())
    for name in {path.stem, pick(rng, sorted(manifest["arrays"]))} if rng.random() < 0.3 else {path.stem}:
        with open(path.with_name(f"{name}.npy"), "rb") as stream:
            array = np.load(stream)
        save(path.parent, manifest, name, spoil_array(rng, array))
    return Forged(base, target)


def read(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_bytes())


def write(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with its right checksum; the base's file, to which it was linked, stays."""
    (folder / MANIFEST).unlink()
    write_manifest(folder, manifest)


def save(folder: Path, manifest: dict[str, Any], name: str, array: Any) -> None:
    """Write an array and its right size and checksum."""
    path = folder / f"{name}.npy"
    path.unlink(missing_ok=True)
    with open(path, "wb") as stream:
        np.save(stream, array, allow_pickle=False)
    manifest["arrays"][name] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
    write(folder, manifest)


def use(seeds: Any, made: Forged) -> None:
    """Open and use a forged run, and hold what it answers to the contract."""
    run = open_run(made.folder)
    run.model.with_jobs(1)
    ranking = rank(made.folder, seeds["rows"], run)
    check_ranking(ranking, run.n_labels)
    if made.same and (ranking.labels.tobytes(), ranking.scores.tobytes()) != (made.base.labels, made.base.scores):
        raise DifferenceError(f"{made.base.method} ranks otherwise with {made.params}")
    if made.params is not None and (why := refused_by_training(made.base.method, made.params, seeds["train"])):
        raise ViolationError(f"opened what training refuses: {why}")
    if run.text is not None:
        check_ranking(run.rank(["cod net quota", ""], 3), run.n_labels)
    summarize(run)
    if run.calibration is not None:
        run.held_out_cells()
    if run.label_counts is not None and run.parts[0].n_samples >= 3:
        run.propensities()
    try:
        describe_label(run, run.label(0))
    except InputError as error:
        if "cannot" not in str(error):
            raise


def rank(folder: Path, rows: Dataset, run: Any = None) -> Any:
    """Rank a few rows of as many features as the run says it has."""
    run = open_run(folder) if run is None else run
    X = rows.X[:20]
    if run.n_features != rows.n_features:
        X = sparse.csr_matrix(X[:, : min(rows.n_features, run.n_features)])
        X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(20, run.n_features))
    return run.rank(X, 3)


def check_ranking(ranking: Any, n_labels: int) -> None:
    """Refuse a ranking with labels that do not exist or occur twice, or with scores that rise or are no numbers."""
    labels, scores = np.asarray(ranking.labels), np.asarray(ranking.scores)
    if ranking.probabilities is not None and not ((ranking.probabilities >= 0) & (ranking.probabilities <= 1)).all():
        raise ViolationError(f"impossible probabilities: {ranking.probabilities}")
    for listed, values in zip(labels.tolist(), scores.tolist(), strict=True):
        real = [label for label in listed if label != -1]
        if listed[: len(real)] != real or len(set(real)) != len(real) or not all(0 <= x < n_labels for x in real):
            raise ViolationError(f"impossible ranking: labels {listed} of {n_labels}")
        if any(not first >= second for first, second in pairwise(values)):
            raise ViolationError(f"impossible ranking: scores {values}")


def refused_by_training(method: str, params: dict[str, Any], data: Dataset) -> str | None:
    """Return why training refuses these parameters, or None if it would begin."""
    from unmissed.runs.recipe import Recipe

    params = {name: value for name, value in params.items() if name not in COSTS}
    try:
        model = find_model(method)(**Recipe(method, params).constructor_params())
        model.fit_rows(model.check_rows(data), UntouchedWork())
    except InputError as error:
        return " ".join(str(error).split())[:120]
    except TrainingBegan:
        return None
    return None


FORMATS = (Format("forged runs", prepare, spoil, use, group=method_of, memory=MEMORY),)
