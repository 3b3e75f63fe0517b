"""Folders: stores and runs, spoilt file by file, with checksums left wrong or made right again; and kills."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.campaign import DifferenceError, Format
from tests.hostile.mutators import (
    Rng,
    dump,
    flip,
    pick,
    spoil_array,
    spoil_bytes,
    spoil_header,
    spoil_json,
    spoil_json_text,
)
from tests.runs.corpora import tree_bytes
from tests.runs.killing import die_at, died, forked
from unmissed.archive import checksum, write_manifest
from unmissed.data import TextFeatures, make_corpus, open_store, write_store
from unmissed.data.dataset import Dataset
from unmissed.data.statistics import describe_labels
from unmissed.errors import InputError, UnmissedError
from unmissed.models.method_registry import known_methods, make_model
from unmissed.runs import open_run, train
from unmissed.runs.inspection import describe_label, summarize, verify

MANIFEST = "manifest.json"
QUICK = {"n_jobs": 1, "block_size": 4, "n_trees": 2, "n_learners": 2, "rank": 8}
WORDS = ("cod", "net", "quota", "court", "judge", "appeal", "bread", "milk", "cheese", "wine")


def linked(source: Path, target: Path) -> None:
    """Copy a folder by hard links: a file that is to be spoilt is replaced, never written to."""
    shutil.copytree(source, target, copy_function=os.link)


def replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def put_right(folder: Path) -> None:
    """Make every checksum below a folder right again, as somebody who means harm would."""
    for manifest in sorted(folder.rglob(MANIFEST)):
        if manifest.is_symlink() or not manifest.is_file() or manifest.stat().st_size > 1 << 30:
            continue
        try:
            value = json.loads(manifest.read_bytes())
            for name, entry in value.get("arrays", {}).items():
                file = manifest.parent / f"{name}.npy"
                if isinstance(entry, dict) and file.is_file() and file.stat().st_size < 1 << 30:
                    entry.update(bytes=file.stat().st_size, sha256=checksum(file))
            manifest.unlink()
            write_manifest(manifest.parent, value)
        except (ValueError, AttributeError, OSError, RecursionError, TypeError):
            continue


def spoil_folder(rng: Rng, folder: Path) -> None:
    """Spoil one or two files of a folder in any way, and sometimes put the checksums right."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for position in rng.permutation(len(files))[: 1 + int(rng.integers(2))].tolist():
        spoil_file(rng, files[position])
    if rng.random() < 0.7:
        put_right(folder)


def spoil_file(rng: Rng, path: Path) -> None:
    raw = path.read_bytes()
    way = rng.random()
    if way < 0.06:
        _exchange(rng, path)
    elif path.suffix == ".json":
        if way < 0.7:
            replace(path, dump(spoil_json(rng, json.loads(raw))).encode("utf-8", "surrogateescape"))
        else:
            spoilt = spoil_json_text(rng, raw.decode()).encode("utf-8", "surrogateescape")
            replace(path, spoilt if way < 0.9 else spoil_bytes(rng, raw))
    elif path.suffix == ".npy" and way < 0.6:
        with open(path, "rb") as stream:
            array = np.load(stream)
        spoilt = spoil_array(rng, array)
        path.unlink()
        with open(path, "wb") as stream:
            np.save(stream, spoilt, allow_pickle=False)
    else:
        replace(path, pick(rng, (spoil_header, spoil_bytes, flip))(rng, raw))


def _exchange(rng: Rng, path: Path) -> None:
    """Put something else in a file's place: a link, a pipe, a folder, nothing, a hole without end."""
    way = int(rng.integers(6))
    path.unlink()
    if way < 2:
        path.symlink_to(("/dev/zero", "/etc/passwd")[way])
    elif way == 2:
        os.mkfifo(path)
    elif way == 3:
        path.mkdir()
    elif way == 4:
        with open(path, "wb") as stream:
            stream.truncate(1 << 40)


def corpus() -> tuple[Dataset, Dataset]:
    """Texts and their labels, so that stores and runs have names and text features too."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(340)]
    made = make_corpus(340, 0, 9, 10, rng=0).train
    text = TextFeatures()
    X = text.fit_transform(texts[:40])
    names = [f"label {number} ä" for number in range(9)]
    dataset = Dataset(X, made.Y[:40], names, text.terms_, text, label_titles=names)
    return dataset, Dataset(text.transform(texts[40:]), made.Y[40:340])


def prepare_store(workdir: Path) -> dict[str, Any]:
    dataset, rows = corpus()
    model = make_model("dismec", {"n_jobs": 1, "block_size": 4}).fit(dataset.X, dataset.Y)
    write_store(dataset, workdir / "store")
    return {
        "folder": workdir / "store",
        "model": model,
        "rows": rows,
        "intact": look(open_store(workdir / "store"), model),
    }


def look(dataset: Dataset, model: Any) -> Any:
    """Use all that a store holds; returns what was seen."""
    seen = [describe_labels(dataset.Y), dataset.label_counts.tolist(), dataset.label_names, dataset.label_titles]
    seen += [dataset.feature_names, dataset.n_unknown_labels, dataset.digest]
    if dataset.X.shape[1] == model.n_features_in_:
        seen.append(model.rank(dataset.X, 3).scores.tobytes())
    if sum(dataset.digest.encode()) % 16 == 0 and dataset.X.shape[0] < 100 and dataset.Y.shape[1] < 100:
        type(model)(n_jobs=1, block_size=4).fit(dataset.X, dataset.Y)
    if dataset.text is not None:
        seen.append(dataset.text.transform(["cod net quota", "unknown"]).data.tobytes())
    return seen


def spoil_copy(rng: Rng, seeds: Any, folder: Path) -> tuple[Path, bool]:
    source = pick(rng, seeds["folders"]) if "folders" in seeds else seeds["folder"]
    linked(source, folder / source.name)
    spoil_folder(rng, folder / source.name)
    return folder / source.name, bool(rng.random() < 0.3)


def use_store(seeds: Any, made: tuple[Path, bool]) -> None:
    look(open_store(made[0], verify=made[1]), seeds["model"])


def prepare_runs(workdir: Path) -> dict[str, Any]:
    """Train every method that is known, and one of them on text with names too."""
    dataset, rows = corpus()
    plain = Dataset(dataset.X, dataset.Y)
    seeds: dict[str, Any] = {"folders": [], "rows": rows, "seen": {}}
    for method in known_methods():
        for name, data in (("text", dataset), ("plain", plain)) if method == "pw-dismec" else (("plain", plain),):
            folder = workdir / f"{method}-{name}"
            known = make_model(method, {})._get_param_names()
            train(method, data, folder, {key: value for key, value in QUICK.items() if key in known})
            (folder / ".lock").unlink(missing_ok=True)
            seeds["folders"].append(folder)
            seeds["seen"][folder.name] = look_at_run(folder, rows, False)
    return seeds


def look_at_run(folder: Path, rows: Dataset, verified: bool) -> Any:
    """Use all that a run holds; returns what was seen."""
    run = open_run(folder, verify=verified)
    if verified:
        verify(run)
    seen: list[Any] = [run.label_names, run.label_titles, run.feature_names]
    seen.append(None if run.label_counts is None else run.label_counts.tolist())
    if run.n_features == rows.n_features:
        ranking = run.rank(rows.X, 3)
        seen += [ranking.labels.tobytes(), ranking.scores.tobytes(), run.rank(rows.X[:2], 3).scores.tobytes()]
    if run.text is not None:
        seen.append(run.rank(["cod net quota", ""], 3).scores.tobytes())
    summary = summarize(run)
    seen.append({key: summary[key] for key in ("n_labels", "n_features", "model", "recipe")})
    try:
        seen.append(describe_label(run, 0))
    except InputError as error:
        if "cannot" not in str(error):
            raise
    if run.label_counts is not None and run.parts[0].n_samples >= 3:
        seen.append(run.propensities().tobytes())
    return seen


def use_run(seeds: Any, made: tuple[Path, bool]) -> None:
    look_at_run(made[0], seeds["rows"], made[1])


def flip_store(rng: Rng, seeds: Any, folder: Path) -> Path:
    return flip_one(rng, seeds["folder"], folder)


def flip_run(rng: Rng, seeds: Any, folder: Path) -> Path:
    return flip_one(rng, pick(rng, seeds["folders"]), folder)


def flip_one(rng: Rng, source: Path, folder: Path) -> Path:
    """Flip one bit of one file, each byte of the folder as likely as any other."""
    linked(source, folder / source.name)
    files = sorted(path for path in (folder / source.name).rglob("*") if path.is_file())
    sizes = np.array([path.stat().st_size for path in files], np.float64)
    path = files[int(rng.choice(len(files), p=sizes / sizes.sum()))]
    replace(path, flip(rng, path.read_bytes()))
    return folder / source.name


def use_flipped_store(seeds: Any, folder: Path) -> None:
    """Without checksums nothing may crash; with them, what still opens is what was written."""
    with suppress(UnmissedError):
        look(open_store(folder), seeds["model"])
    if look(open_store(folder, verify=True), seeds["model"]) != seeds["intact"]:
        raise DifferenceError(folder.name)


def use_flipped_run(seeds: Any, folder: Path) -> None:
    with suppress(UnmissedError):
        look_at_run(folder, seeds["rows"], False)
    if look_at_run(folder, seeds["rows"], True) != seeds["seen"][folder.name]:
        raise DifferenceError(folder.name)


def prepare_kills(workdir: Path) -> dict[str, Any]:
    """Train every method to the end; kills at later and later calls then count its disk operations."""
    dataset, _ = corpus()
    seeds: dict[str, Any] = {"data": dataset, "trees": {}}
    for method in known_methods():
        seeds["trees"][method] = tree_bytes(_trained(method, dataset, workdir / method))
    return seeds


def _trained(method: str, data: Dataset, folder: Path) -> Path:
    known = make_model(method, {})._get_param_names()
    train(method, data, folder, {key: value for key, value in QUICK.items() if key in known})
    return folder


def spoil_kill(rng: Rng, seeds: Any, folder: Path) -> tuple[str, Path, list[int]]:
    method = pick(rng, sorted(seeds["trees"]))
    return method, folder / "run", [int(n) for n in rng.integers(1, 40, size=1 + int(rng.integers(3)))]


def use_kill(seeds: Any, made: tuple[str, Path, list[int]]) -> None:
    """Die at some call that changes the disk, again and again, then go on to the end: the same bytes."""
    method, folder, deaths = made

    def dying(n: int) -> None:
        die_at(n)
        _trained(method, seeds["data"], folder)

    for n in deaths:
        died(forked(lambda n=n: dying(n)))  # type: ignore[misc]
    _trained(method, seeds["data"], folder)
    if tree_bytes(folder) != seeds["trees"][method]:
        raise DifferenceError(f"{method} after deaths at {deaths}")


FORMATS = (
    Format("store", prepare_store, spoil_copy, use_store),
    Format("run", prepare_runs, spoil_copy, use_run),
    Format("flips of a store", prepare_store, flip_store, use_flipped_store),
    Format("flips of runs", prepare_runs, flip_run, use_flipped_run),
    Format("kills", prepare_kills, spoil_kill, use_kill),
)
