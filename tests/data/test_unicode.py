"""Characters: normal forms of texts and label names, lone surrogates, encodings."""

import io
import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.cli.speaking import refused, said
from unmissed.data import Columns, Dataset, TextFeatures, load, load_labels, open_store
from unmissed.data.documents import Documents
from unmissed.data.large_text import convert_text
from unmissed.data.readers.reader import ReadOptions
from unmissed.errors import InputError
from unmissed.models.frames import open_labels
from unmissed.ranking import digest_names
from unmissed.runs import open_run, train
from unmissed.runs.lines import TextLines

ROWS = [("Ökologie der Wälder", ["Ökologie"]), ("Küche und Öfen", ["Küche"]), ("Wälder, Küche", ["Ökologie", "Küche"])]
HALF = "half of a surrogate pair"


def nfd(text):
    return unicodedata.normalize("NFD", text)


def write_rows(path, form="NFC", **more):
    rows = [
        {"text": unicodedata.normalize(form, text), "labels": [unicodedata.normalize(form, one) for one in labels]}
        for text, labels in ROWS
    ]
    path.write_text("".join(json.dumps({**row, **more}) + "\n" for row in rows))
    return path


def write_form(folder, form, kind):
    """Write the rows, in a normal form, as one kind of file."""
    if kind == "jsonl":
        return write_rows(folder / f"{form}.jsonl", form)
    change = {"text": [unicodedata.normalize(form, text) for text, _ in ROWS]}
    change["labels"] = [unicodedata.normalize(form, ";".join(labels)) for _, labels in ROWS]
    frame = pd.DataFrame(change)
    path = folder / f"{form}.{kind}"
    if kind == "frame":
        return frame
    if kind == "folder":
        path.mkdir()
        for number, (text, labels) in enumerate(zip(frame.text, frame.labels, strict=True)):
            (path / f"{number}.txt").write_text(text)
            (path / f"{number}.tags").write_text(labels.replace(";", "\n"))
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "folder", "frame"])
def test_decomposed_and_composed_texts_are_the_same_data_set(kind, tmp_path):
    composed, decomposed = (write_form(tmp_path, form, kind) for form in ("NFC", "NFD"))
    assert load(decomposed).digest == load(composed).digest
    assert load(decomposed).label_names == ["Küche", "Ökologie"]
    as_they_are = load(decomposed, columns=Columns(unicode_normalization="none"))
    assert as_they_are.label_names == sorted([nfd("Küche"), nfd("Ökologie")])
    assert as_they_are.feature_names != load(composed).feature_names


def test_a_store_made_in_blocks_is_normalized_too(tmp_path):
    convert_text(write_rows(tmp_path / "a.jsonl", "NFD"), tmp_path / "store")
    assert open_store(tmp_path / "store").digest == load(write_rows(tmp_path / "b.jsonl")).digest


def test_feature_names_are_normalized_unless_two_become_equal(tmp_path):
    (tmp_path / "a.txt").write_text("2 1 2\n0 0:1\n1 0:2\n")
    (tmp_path / "labels.txt").write_text(f"{nfd('Öl')}\nb\n")
    assert load(tmp_path / "a.txt").label_names == ["Öl", "b"]
    assert load(tmp_path / "a.txt", columns=Columns(unicode_normalization="none")).label_names == [nfd("Öl"), "b"]
    (tmp_path / "labels.txt").write_text(f"{nfd('Öl')}\nÖl\n")
    assert load(tmp_path / "a.txt").label_names == [nfd("Öl"), "Öl"]


def test_readable_names_are_found_by_identifiers_in_another_form(tmp_path):
    (tmp_path / "label_names.tsv").write_text(f"{nfd('Ökologie')}\tecology\nKüche\t{nfd('Küche')}\n")
    assert load(write_rows(tmp_path / "a.jsonl")).label_titles == ["Küche", "ecology"]


def test_text_features_remember_the_normal_form(tmp_path):
    texts = ["Öl ½ Liter", nfd("Öl")]
    assert TextFeatures().fit(texts).terms_ == ["liter", "öl"]
    plain = TextFeatures(unicode_normalization="none").fit(texts)
    assert plain.terms_ == ["liter", "öl"]  # the mark is no letter, and the o alone is no word
    assert plain.transform([nfd("Öl")]).nnz == 0
    wide = TextFeatures(unicode_normalization="nfkc").fit(["ﬁsch"])
    assert wide.terms_ == ["fisch"]
    for one in (plain, wide):
        one.save(tmp_path / one.unicode_normalization)
        back = TextFeatures.load(tmp_path / one.unicode_normalization)
        assert back.unicode_normalization == one.unicode_normalization
    with pytest.raises(InputError, match="unicode_normalization is 'nfx'; expected one of nfc, nfkc, none"):
        TextFeatures(unicode_normalization="nfx")
    assert TextFeatures(stop_words=[nfd("öl")]).fit(["Öl Liter"]).terms_ == ["liter"]


def test_a_run_answers_alike_to_both_forms_and_finds_labels_by_both(tmp_path):
    run = train("popularity", load(write_rows(tmp_path / "a.jsonl", "NFD")), tmp_path / "run")
    assert run.text.transform([nfd("Ökologie")]).nnz == run.text.transform(["Ökologie"]).nnz == 1
    assert run.label(nfd("Küche")) == run.label("Küche") == 0
    old = train(
        "popularity",
        load(tmp_path / "a.jsonl", columns=Columns(unicode_normalization="none")),
        tmp_path / "old",
    )
    assert old.label("Küche") == old.label(nfd("Küche"))
    test = load(write_rows(tmp_path / "b.jsonl"), like=old.like())
    assert test.n_unknown_labels == 0


def test_predict_and_evaluate_match_labels_whatever_the_form(tmp_path, capsys):
    source = write_rows(tmp_path / "train.jsonl")
    said(capsys, "train", "popularity", source, "--run", tmp_path / "run")
    other = write_rows(tmp_path / "test.jsonl", "NFD")
    said(capsys, "predict", tmp_path / "run", other, "--top", 2, "--out", tmp_path / "best.tsv")
    (tmp_path / "nfd.tsv").write_text(nfd((tmp_path / "best.tsv").read_text()))
    words = ["--truth", other, "--train", source, "-k", "1", "--bootstrap", "0", "--json"]
    found = [json.loads(said(capsys, "evaluate", tmp_path / name, *words)) for name in ("best.tsv", "nfd.tsv")]
    assert found[0]["figures"] == found[1]["figures"]
    assert found[0]["unseen"]["assignments"] == 0


def test_the_shell_takes_another_normal_form_and_the_run_remembers_it(tmp_path, capsys):
    source = write_rows(tmp_path / "train.jsonl", "NFD")
    said(capsys, "train", "popularity", source, "--run", tmp_path / "run", "--unicode-normalization", "none")
    run = open_run(tmp_path / "run")
    assert run.text.unicode_normalization == "none"
    assert nfd("Küche") in run.label_names
    line = refused(capsys, "data", "stats", source, "--unicode-normalization", "nfz")
    assert "unicode_normalization is 'nfz'; expected one of nfc, nfkc, none" in line


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": "a \ud800", "labels": ["x"]}, "'text'"),
        ({"text": "a", "labels": ["\udc00x"]}, "label '\\udc00x'"),
        ({"id": "7\ud800", "text": "a", "labels": ["x"]}, "the id '7\\ud800'"),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_is(row, what, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine", "labels": ["x"]}\n' + json.dumps(row) + "\n")
    for read in (load, lambda one: list(Documents(one).texts_and_ids()[0])):
        if what.startswith("label") and read is not load:
            continue
        with pytest.raises(InputError, match=HALF) as found:
            read(path)
        assert str(found.value).startswith(f"{path}:2: {what} has {HALF}")
    with pytest.raises(InputError, match=f"the data frame, row 1: .*{HALF}"):
        load(pd.DataFrame({"id": ["1"], **{name: [value] for name, value in row.items()}}, dtype=object))


def test_predict_refuses_an_id_that_it_could_not_write(tmp_path, capsys):
    said(capsys, "train", "popularity", write_rows(tmp_path / "train.jsonl"), "--run", tmp_path / "run")
    (tmp_path / "test.jsonl").write_text('{"id": "\\ud800", "text": "Wald"}\n')
    for out in ([], ["--out", tmp_path / "best.tsv"], ["--out", tmp_path / "best.npz"]):
        line = refused(capsys, "predict", tmp_path / "run", tmp_path / "test.jsonl", *out)
        assert f"test.jsonl:1: the id '\\ud800' has {HALF}" in line


def test_lists_of_names_with_half_a_surrogate_pair_are_refused(tmp_path):
    X, Y = sparse.csr_matrix(np.eye(2)), sparse.csr_matrix(np.eye(2))
    with pytest.raises(InputError, match=f"label_names: entry 1 has {HALF}"):
        Dataset(X, Y, label_names=["a", "\ud800"])
    with pytest.raises(InputError, match="feature_names: entry 0 is a int; expected a string"):
        Dataset(X, Y, feature_names=[1, 2])
    with pytest.raises(InputError, match=f"label names: entry 1 has {HALF}"):
        open_labels([["a"], ["\udfff"]])
    with pytest.raises(InputError, match=HALF):
        digest_names(["\ud800"])
    with pytest.raises(InputError, match=f"texts: text 1 has {HALF}"):
        TextFeatures(analyzer="char").fit(["fine", "\ud800"])


ENCODED = 'id,text,labels\n1,"Öl für Küchen",Küche\n2,"Wälder – grün",Wald\n'


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8-sig", "utf-32", "cp437"])
def test_a_file_in_another_encoding_is_the_same_data_set(encoding, tmp_path):
    text = ENCODED if encoding != "cp437" else ENCODED.replace("–", "-")
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "b.csv").write_text(text, encoding=encoding)
    expected = load(tmp_path / "a.csv")
    columns = Columns(encoding=encoding)
    assert load(tmp_path / "b.csv", columns=columns).digest == expected.digest
    convert_text(tmp_path / "b.csv", tmp_path / "store", options=ReadOptions(columns=columns))
    assert open_store(tmp_path / "store").digest == expected.digest
    rows = [{"text": text, "labels": labels} for text, labels in ROWS]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (tmp_path / "c.jsonl").write_text(lines, encoding=encoding)
    assert load(tmp_path / "c.jsonl", columns=columns).digest == load(write_rows(tmp_path / "d.jsonl")).digest
    assert load_labels(tmp_path / "c.jsonl", columns=columns)[1] == ["Küche", "Ökologie"]
    (tmp_path / "e.txt").write_text("Öl\nWälder\n", encoding=encoding)
    assert list(TextLines(tmp_path / "e.txt", encoding=encoding)) == [["Öl", "Wälder"]]


def test_folders_of_texts_are_read_in_their_encoding(tmp_path):
    (tmp_path / "posts").mkdir()
    for encoding in ("cp1252", "utf-16"):
        (tmp_path / "posts" / "1.txt").write_text("Öl für Küchen", encoding=encoding)
        (tmp_path / "posts" / "1.tags").write_text("Küche", encoding=encoding)
        found = load(tmp_path / "posts", columns=Columns(encoding=encoding))
        assert (found.label_names, found.feature_names) == (["Küche"], ["für", "küchen", "öl"])
        with pytest.raises(InputError, match=f"1.txt: .*--encoding {encoding}"):
            load(tmp_path / "posts")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_that_is_not_utf8_names_the_encoding_that_fits(name, tmp_path, capsys):
    rows = ENCODED if name == "a.csv" else '{"text": "Öl für Küchen", "labels": ["Küche"]}\n'
    for encoding in ("latin-1", "cp1252"):
        (tmp_path / name).write_text(rows.replace("–", "-"), encoding=encoding)
        line = refused(capsys, "train", "popularity", tmp_path / name, "--run", tmp_path / "run")
        assert "expected UTF-8 text, found byte 0x" in line
        assert "the file is probably in cp1252: add --encoding cp1252, or save it as UTF-8" in line
    (tmp_path / name).write_text(rows, encoding="utf-16")
    line = refused(capsys, "train", "popularity", tmp_path / name, "--run", tmp_path / "run")
    assert "is UTF-16 text (its byte-order mark says so); add --encoding utf-16" in line
    (tmp_path / name).write_text(rows.replace("–", "-"), encoding="cp1252")
    words = ["train", "popularity", tmp_path / name, "--run", tmp_path / "run", "--encoding", "latin-1"]
    said(capsys, *words)
    assert "Küche" in open_run(tmp_path / "run").label_names


def test_text_that_fits_no_western_encoding_is_not_guessed(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,labels\nпривет мир,мир\n".encode("cp1251"))
    with pytest.raises(InputError, match=r"name the file's encoding \(--encoding\)"):
        load(tmp_path / "a.csv")


def test_an_encoding_that_is_unknown_or_does_not_fit_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,labels\nfine,x\nbroken \x81,x\n")
    for name in ("cp9999", "zip", "latin one", 7):
        with pytest.raises(InputError, match="unknown encoding"):
            Columns(encoding=name)
    with pytest.raises(InputError, match=r"a.csv:3: not cp1252 text .*is --encoding right\?"):
        load(tmp_path / "a.csv", columns=Columns(encoding="cp1252"))


def test_a_run_reads_its_old_rows_in_the_encoding_that_they_were_read_in(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(ENCODED, encoding="cp1252")
    words = ["--encoding", "cp1252", "--jobs", 1]
    said(capsys, "train", "dismec", tmp_path / "a.csv", "--run", tmp_path / "run", *words)
    write_rows(tmp_path / "more.jsonl")
    said(capsys, "extend", tmp_path / "run", tmp_path / "more.jsonl", "--jobs", 1)
    assert open_run(tmp_path / "run").label_names == ["Küche", "Wald", "Ökologie"]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_standard_input_is_read_in_its_encoding(encoding, monkeypatch):
    def given(encoding):
        stream = io.TextIOWrapper(io.BytesIO("Öl\nWälder".encode(encoding)))
        monkeypatch.setattr("sys.stdin", stream)

    given(encoding)
    assert [text for batch in TextLines("-", encoding=encoding) for text in batch] == ["Öl", "Wälder"]
    given(encoding)
    with pytest.raises(InputError, match=f"standard input.*--encoding {encoding}"):
        list(TextLines("-"))
