"""Single files: scipy's matrices, rankings, tables of propensities, idx images, XMC text, JSON lines, fastText, CSV."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tests.hostile.campaign import Format
from tests.hostile.mutators import Rng, pick, spoil_array, spoil_bytes, spoil_header, spoil_json, spoil_json_text
from unmissed.archive import open_archive
from unmissed.data import Dataset, Vocabulary, load, make_corpus, read_vocabulary
from unmissed.data.readers.npz import read_matrix
from unmissed.data.statistics import describe_labels
from unmissed.data.vocabulary import KIND as VOCABULARY_KIND
from unmissed.matrices import check_X, check_Y
from unmissed.metrics import evaluate
from unmissed.models import DiSMEC
from unmissed.propensity import FromTable, drop_labels
from unmissed.ranking import Ranking
from unmissed.studies.idx import read_idx

FORMS = ("csr", "csc", "bsr", "coo", "dia")
MEMBERS = {"bsr": ("indices", "indptr"), "coo": ("row", "col"), "dia": ("offsets",)}


def fitted() -> tuple[Dataset, Dataset, DiSMEC]:
    """A small corpus and a prepared model of it: all kernels compiled."""
    corpus = make_corpus(60, 300, 9, 40, words_per_row=6, rng=0)
    model = DiSMEC(n_jobs=1, block_size=4).fit(corpus.train.X, corpus.train.Y)
    evaluate(model.prepare().rank(corpus.test.X, 3), corpus.test.Y, np.ones(9), k=(1, 3))
    return corpus.train, corpus.test, model


def use_matrices(seeds: Any, X: Any, Y: Any) -> None:
    """Let matrices go where the program would take them."""
    _, test, model = seeds["fitted"]
    features = check_X(X)
    if features.shape[1] == model.n_features_in_ and features.shape[0] <= 5000:
        model.rank(features, 3)
    labels = check_Y(Y)
    describe_labels(labels)
    drop_labels(labels, 0.5, np.random.default_rng(0))
    if labels.shape == test.Y.shape:
        evaluate(model.rank(test.X, 3), labels, k=(1, 3))


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def zipped(members: dict[str, bytes], method: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def spoil_npz(rng: Rng, arrays: dict[str, Any]) -> bytes:
    """Spoil a `.npz`: its bytes, one array in it, or the head of one, with the zip's own checksums right again."""
    held = dict(arrays)
    method = pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    way = rng.random()
    name = pick(rng, list(held))
    if way < 0.5:
        for _ in range(1 + int(rng.integers(2))):
            name = pick(rng, list(held))
            held[name] = spoil_array(rng, held[name])
        return zipped({name: npy(array) for name, array in held.items()}, method)
    raw = {name: npy(array) for name, array in held.items()}
    if way < 0.6:
        raw[name] = spoil_header(rng, raw[name])
    elif way < 0.7:
        raw[name] = spoil_bytes(rng, raw[name])
    elif way < 0.74:
        del raw[name]
    else:
        return spoil_bytes(rng, zipped(raw, method))
    return zipped(raw, method)


def parts_of(matrix: Any) -> dict[str, Any]:
    held = {"format": np.array(matrix.format.encode()), "shape": np.array(matrix.shape), "data": matrix.data}
    names = MEMBERS.get(matrix.format, ("indices", "indptr"))
    return held | {name: getattr(matrix, name) for name in names}


def prepare_npz(workdir: Path) -> dict[str, Any]:
    seeds: dict[str, Any] = {"fitted": fitted()}
    _, test, _ = seeds["fitted"]
    for form in FORMS:
        seeds[form] = [parts_of(_as(test.X, form)), parts_of(_as(test.Y, form))]
    return seeds


def _as(matrix: Any, form: str) -> Any:
    return sparse.csr_matrix(matrix).asformat(form)


def spoil_pair(rng: Rng, seeds: Any, folder: Path) -> Path:
    form, which = pick(rng, FORMS), int(rng.integers(2))
    for position, (name, arrays) in enumerate(zip("XY", seeds[form], strict=True)):
        intact = zipped({key: npy(array) for key, array in arrays.items()}, zipfile.ZIP_STORED)
        (folder / f"{name}.npz").write_bytes(spoil_npz(rng, arrays) if position == which else intact)
    return folder


def use_pair(seeds: Any, folder: Path) -> None:
    dataset = load(f"{folder}/X.npz,{folder}/Y.npz")
    use_matrices(seeds, dataset.X, dataset.Y)
    read_matrix(folder / "X.npz")


def spoil_memory(rng: Rng, seeds: Any, folder: Path) -> list[Any]:
    """Spoil matrices in memory: their attributes, as no constructor of scipy's would have made them."""
    made = []
    for matrix in (seeds["fitted"][1].X, seeds["fitted"][1].Y):
        form = pick(rng, FORMS)
        one = matrix.tobsr((1, 1)) if form == "bsr" else _as(matrix, form)
        if pick(rng, (True, False)):
            one = getattr(sparse, f"{form}_array")(one)
        for _ in range(1 + int(rng.integers(2))):
            name = pick(rng, ("data", *MEMBERS.get(form, ("indices", "indptr"))))
            setattr(one, name, spoil_array(rng, getattr(one, name)))
        if rng.random() < 0.2:
            one._shape = tuple(int(size) for size in rng.integers(0, 400, 2))
        made.append(one)
    return made


def use_memory(seeds: Any, made: list[Any]) -> None:
    use_matrices(seeds, *made)


def prepare_ranking(workdir: Path) -> dict[str, Any]:
    _, test, model = fitted()
    found = model.rank(test.X, 5)
    return {"arrays": {"labels": found.labels, "scores": found.scores}, "Y": test.Y}


def spoil_ranking(rng: Rng, seeds: Any, folder: Path) -> Path:
    (folder / "ranking.npz").write_bytes(spoil_npz(rng, seeds["arrays"]))
    return folder / "ranking.npz"


def use_ranking(seeds: Any, path: Path) -> None:
    evaluate(Ranking.load(path), seeds["Y"], np.full(seeds["Y"].shape[1], 2.0), k=(1, 3))


def prepare_table(workdir: Path) -> dict[str, Any]:
    values = np.random.default_rng(0).uniform(0.1, 1, 50)
    return {"npy": npy(values), "values": values, "txt": "".join(f"{value!r}\n" for value in values).encode()}


def spoil_table(rng: Rng, seeds: Any, folder: Path) -> Path:
    path = folder / pick(rng, ("p.npy", "p.npy", "p.txt"))
    if path.suffix == ".txt":
        path.write_bytes(spoil_bytes(rng, seeds["txt"]))
    elif rng.random() < 0.4:
        path.write_bytes(npy(spoil_array(rng, seeds["values"])))
    else:
        path.write_bytes(pick(rng, (spoil_header, spoil_bytes))(rng, seeds["npy"]))
    return path


def use_table(seeds: Any, path: Path) -> None:
    FromTable(path)


def prepare_idx(workdir: Path) -> bytes:
    return bytes([0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 3]) + np.random.default_rng(0).bytes(36)


def spoil_idx(rng: Rng, seeds: Any, folder: Path) -> Path:
    raw, packed = seeds, rng.random() < 0.4
    path = folder / ("a.gz" if packed else "a")
    if packed and rng.random() < 0.5:
        path.write_bytes(spoil_bytes(rng, gzip.compress(raw)))
    else:
        raw = spoil_bytes(rng, raw)
        path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def use_idx(seeds: Any, path: Path) -> None:
    read_idx(path)


def prepare_text(workdir: Path) -> bytes:
    raw = b"6 40 9\n0,3 0:0.5 7:1e-3 39:2\n8 1:1 2:-1.25\n 5:3\n1,2,4 0:1 1:1 2:1 3:1\n\n7 12:0.3333\n"
    workdir.mkdir()
    for name, content in (("a.txt", raw), ("b.txt", raw.replace(b"0,3", b"3,0").replace(b"1e-3", b"1" * 40 + b"e-60"))):
        (workdir / name).write_bytes(content)
        load(workdir / name)  # compiled before the children are forked
    return raw


def spoil_text(rng: Rng, seeds: bytes, folder: Path) -> tuple[Path, bool]:
    suffix = pick(rng, ("", "", ".gz", ".xz"))
    header = bool(rng.random() < 0.7)
    raw = seeds if header else seeds.partition(b"\n")[2]
    spoilt = spoil_bytes(rng, spoil_bytes(rng, raw) if rng.random() < 0.5 else raw)
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    content = pack(spoilt)
    if suffix and rng.random() < 0.6:
        content = spoil_bytes(rng, pack(raw))
    path = folder / f"a.txt{suffix}"
    path.write_bytes(content)
    return path, header


def use_text(seeds: Any, made: tuple[Path, bool]) -> None:
    path, header = made
    dataset = load(path, header=header)
    describe_labels(dataset.Y)
    Dataset(dataset.X, dataset.Y)  # what was parsed must be canonical


def prepare_lines(workdir: Path) -> list[dict[str, Any]]:
    return [{"text": f"one two {word}", "labels": ["a", word]} for word in ("three", "four", "äöü", "six")]


def spoil_lines(rng: Rng, seeds: Any, folder: Path) -> Path:
    lines = [json.dumps(one) for one in seeds]
    position = int(rng.integers(len(lines)))
    if rng.random() < 0.5:
        lines[position] = json.dumps(spoil_json(rng, seeds[position]))
    else:
        lines[position] = spoil_json_text(rng, lines[position])
    path = folder / "a.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    return path


def use_lines(seeds: Any, path: Path) -> None:
    describe_labels(load(path).Y)


def prepare_tables(workdir: Path) -> bytes:
    return 'id,text,labels\n1,"one, two",a;b\n2,"three ""four""\nfive",a\n3,six äöü,"[\'c\']"\n4,x,\n'.encode()


def spoil_tables(rng: Rng, seeds: bytes, folder: Path) -> Path:
    raw = spoil_bytes(rng, spoil_bytes(rng, seeds) if rng.random() < 0.5 else seeds)
    path = folder / pick(rng, ("a.csv", "a.csv", "a.csv.gz", "a.tsv"))
    raw = raw.replace(b",", b"\t") if path.suffix == ".tsv" else raw
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def prepare_fasttext(workdir: Path) -> bytes:
    return "__label__a __label__b one two\n\nthree __label__a four\näöü six\n".encode()


def spoil_fasttext(rng: Rng, seeds: bytes, folder: Path) -> Path:
    raw = spoil_bytes(rng, spoil_bytes(rng, seeds) if rng.random() < 0.5 else seeds)
    path = folder / pick(rng, ("a.ft", "a.ft.gz", "a.txt"))
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def prepare_annif(workdir: Path) -> dict[str, Any]:
    rows = [f"one two {word}" for word in ("three", "four", '"five', "äöü")]
    uris = ["<http://a.org/1> <http://a.org/2>", "<urn:x>", "", "http://a.org/1"]
    pairs = list(zip(rows, uris, strict=True))
    document = {"document_id": "1", "text": "one", "metadata": {"title": "two"}, "subjects": [{"uri": "<a>"}]}
    return {
        "tsv": "".join(f"{text}\t{listed}\n" for text, listed in pairs).encode(),
        "csv": (
            "document_id,text,subject_uris\n" + "".join(f"1,{text[:5]},{listed}\n" for text, listed in pairs)
        ).encode(),
        "json": document,
    }


def spoil_annif(rng: Rng, seeds: Any, folder: Path) -> Path:
    """Spoil one of Annif's corpora: a file, or a file of a folder of full texts."""
    form = pick(rng, ("tsv", "csv", "jsonl", "folder"))
    path = folder / f"a.{form}"
    if form == "folder":
        path.mkdir()
        for number, name in enumerate(("1.txt", "1.tsv", "2.txt", "2.key", "3.json")):
            raw = (b"one two", b"<http://a.org/1>\tone\n", b"three", b"four\n", json.dumps(seeds["json"]).encode())[
                number
            ]
            (path / name).write_bytes(spoil_bytes(rng, raw) if rng.random() < 0.4 else raw)
    elif form == "jsonl":
        lines = [json.dumps(seeds["json"]), json.dumps(spoil_json(rng, seeds["json"]))]
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    else:
        path.write_bytes(spoil_bytes(rng, seeds[form]))
        if rng.random() < 0.3:
            path.with_name(f"a.{form}.gz").write_bytes(gzip.compress(path.read_bytes()))
            return path.with_name(f"a.{form}.gz")
    return path


def prepare_vocabulary(workdir: Path) -> dict[str, bytes]:
    from rdflib import Graph

    skos = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix e: <http://e/> ."
    skos += 'e:1 skos:prefLabel "one"@de, "two" ; skos:notation "7" . e:2 skos:altLabel "three"@de ; skos:broader e:1 .'
    graph = Graph().parse(data=skos, format="turtle")
    syntaxes = {"ttl": "turtle", "rdf": "xml", "jsonld": "json-ld"}
    files = {suffix: graph.serialize(format=syntax, encoding="utf-8") for suffix, syntax in syntaxes.items()}
    files["csv"] = b"uri,label_de,alt_label,broader,deprecated\n1,one,a|b,2,true\n2,two,,,\n"
    return files | {"tsv": "<http://e/1>\tone\t7\nx\täöü\n".encode()}


def spoil_vocabulary(rng: Rng, seeds: dict[str, bytes], folder: Path) -> Path:
    """Spoil a vocabulary of any format."""
    suffix = pick(rng, tuple(seeds))
    path = folder / f"a.{suffix}"
    path.write_bytes(spoil_bytes(rng, seeds[suffix]))
    return path


def use_vocabulary(seeds: Any, path: Path) -> None:
    """Read a vocabulary, store it, and open it again: it is the same."""
    found = read_vocabulary(path)
    found.save(path.parent / "stored")
    metadata, arrays = open_archive(path.parent / "stored", VOCABULARY_KIND, verify=True)
    again = Vocabulary.from_arrays(metadata["language"], arrays, "stored")
    assert again.titles == found.titles
    assert [again.forms(one) for one in range(len(again))] == [found.forms(one) for one in range(len(found))]


FORMATS = (
    Format("vocabularies", prepare_vocabulary, spoil_vocabulary, use_vocabulary),
    Format("annif", prepare_annif, spoil_annif, use_lines),
    Format("fasttext", prepare_fasttext, spoil_fasttext, use_lines),
    Format("tables", prepare_tables, spoil_tables, use_lines),
    Format("npz", prepare_npz, spoil_pair, use_pair),
    Format("matrices", prepare_npz, spoil_memory, use_memory),
    Format("ranking", prepare_ranking, spoil_ranking, use_ranking),
    Format("table", prepare_table, spoil_table, use_table),
    Format("idx", prepare_idx, spoil_idx, use_idx),
    Format("text", prepare_text, spoil_text, use_text),
    Format("lines", prepare_lines, spoil_lines, use_lines),
)
