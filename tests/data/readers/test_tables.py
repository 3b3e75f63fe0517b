"""Tables of texts: CSV, TSV, Parquet, folders, data frames; the same documents give the same data set."""

import gzip
import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.data import Columns, load, load_labels, open_store
from unmissed.data.documents import Documents
from unmissed.data.large_text import convert_text
from unmissed.data.readers.json_lines import JsonLines
from unmissed.data.readers.reader import ReadOptions
from unmissed.data.table_columns import LabelCells
from unmissed.errors import InputError
from unmissed.settings import SETTINGS

TEXTS = ["cod, and a net", 'the judge said "no"', "milk\nand bread", "cod quota"]
LABELS = [["fish"], ["law", "court, high"], [], ["fish", "trade"]]
ROWS = list(zip(TEXTS, LABELS, strict=True))


def write_json(path):
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in ROWS))
    return path


def frame(**columns):
    return pd.DataFrame({"body": TEXTS, "tags": [";".join(labels) for labels in LABELS], **columns})


@pytest.fixture
def expected(tmp_path):
    return load(write_json(tmp_path / "expected.jsonl"))


def written(form, folder):
    """Write the documents in a form; returns the source."""
    path = folder / f"posts.{form}"
    if form == "frame":
        return frame()
    if form == "folder":
        (folder / "posts").mkdir()
        for number, (text, labels) in enumerate(ROWS):
            (folder / "posts" / f"{number}.txt").write_text(text)
            if labels:
                suffix = "key" if number else "tags"
                (folder / "posts" / f"{number}.{suffix}").write_text("".join(f"{label}\n" for label in labels))
        return folder / "posts"
    if form == "parquet":
        pd.DataFrame({"body": TEXTS, "tags": LABELS}).to_parquet(path)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(frame().to_csv(index=False).encode()))
    elif form == "semicolons.csv":
        frame(more="x;y").to_csv(path, sep=";", index=False)
    else:
        frame().to_csv(path, sep="\t" if form == "tsv" else ",", index=False)
    return path


FORMS = ["csv", "csv.gz", "semicolons.csv", "tsv", "parquet", "folder", "frame"]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_documents_are_the_same_data_set_in_every_form(form, tmp_path, expected):
    source = written(form, tmp_path)
    found = load(source, text="body", labels="tags")
    assert found.digest == expected.digest
    Y, names, _ = load_labels(source, columns=Columns(labels="tags"))
    assert names == expected.label_names
    assert (Y != expected.Y).nnz == 0
    if form != "frame":
        options = ReadOptions(columns=Columns("body", "tags"))
        convert_text(source, tmp_path / "store", options=options)
        assert open_store(tmp_path / "store").digest == expected.digest
        assert Documents(source, options).write(JsonLines(), tmp_path / "back.jsonl") == (4, 4)
        assert load(tmp_path / "back.jsonl").digest == expected.digest


def test_blocks_of_a_table_are_cut_where_they_are_large_enough(tmp_path, expected, monkeypatch):
    monkeypatch.setattr(SETTINGS, "text_block", 100)
    convert_text(written("csv", tmp_path), tmp_path / "store", options=ReadOptions(columns=Columns("body", "tags")))
    assert open_store(tmp_path / "store").digest == expected.digest


def test_a_test_set_gets_the_columns_of_the_training_set(tmp_path, expected):
    (tmp_path / "test.csv").write_text('text,labels\n"cod net",toys;fish\n')
    test = load(tmp_path / "test.csv", like=expected)
    assert test.n_unknown_labels == 1
    assert test.X.shape[1] == expected.n_features
    assert test.Y.toarray().sum() == 1


def test_json_lines_take_other_fields_and_labels_in_one_string(tmp_path, expected):
    lines = [json.dumps({"b": text, "t": "|".join(labels)}) for text, labels in ROWS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert load(tmp_path / "a.jsonl", columns=Columns("b", "t", "|")).digest == expected.digest
    with pytest.raises(InputError, match="expected 't' to be a list of identifiers, found a string"):
        load(tmp_path / "a.jsonl", text="b", labels="t")


def test_a_table_without_a_header_has_numbered_columns(tmp_path):
    (tmp_path / "a.csv").write_text("7,cod net,fish;sea\n8,judge,law\n")
    found = load(tmp_path / "a.csv", columns=Columns("2", "3"), header=False)
    assert found.label_names == ["fish", "law", "sea"]
    options = ReadOptions(header=False, columns=Columns("2", "3", id="1"))
    texts, ids = Documents(tmp_path / "a.csv", options).texts_and_ids()
    assert (list(texts), ids) == (["cod net", "judge"], ["7", "8"])


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("a;b ; c;", ["a", "b", "c"]),
        ('["a", "b;c"]', ["a", "b;c"]),
        ("['it\\'s', \"b\", 7]", ["it's", "b", 7]),
        ("['\\xe4\\u00e4\\n']", ["ää\n"]),
        ("[]", []),
        ("", []),
        (None, []),
        (float("nan"), []),
        (3, [3]),
        (("a", "b"), ["a", "b"]),
        ({"b", "a"}, ["a", "b"]),
    ],
)
def test_cells_of_labels_are_taken_apart(cell, labels):
    assert LabelCells("a.csv", Columns()).read("a.csv:2", cell) == labels


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_list_as_python_writes_it_is_read_back(labels):
    assert LabelCells("a.csv", Columns()).read("a.csv:2", repr(labels)) == labels


@pytest.mark.parametrize("cell", ["['a', b]", "['a' 'b']", "[['a']]", "{'a': 1}]".replace("{", "[{"), '["a", NaN}]'])
def test_what_is_no_list_of_labels_is_refused(cell, tmp_path):
    pd.DataFrame({"text": ["x y"], "labels": [cell]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"a\.csv:2: expected"):
        load(tmp_path / "a.csv")


def test_a_separator_that_was_guessed_wrong_is_refused_and_a_named_one_taken(tmp_path):
    (tmp_path / "a.csv").write_text('text,labels\ncod net,"fish,sea"\njudge,law\n')
    with pytest.raises(InputError, match=r"no cell of 'labels' has ';'.* but 1 have ','; name the separator"):
        load(tmp_path / "a.csv")
    assert load(tmp_path / "a.csv", columns=Columns(separator=",")).label_names == ["fish", "law", "sea"]
    assert load(tmp_path / "a.csv", columns=Columns(separator=";")).label_names == ["fish,sea", "law"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"text,labels\n", "holds no documents"),
        (b"title,tags\nx,y\n", r"a\.csv:1: there is no column 'text'; the columns are 'title', 'tags' \(--text-column"),
        (b"text,text,labels\nx,y,z\n", "more than one column 'text'"),
        (b"text,labels\nx\n", r"a\.csv:2: 1 fields; the first line has 2"),
        (b"text,labels\nx,y,z\n", r"a\.csv:2: 3 fields"),
        (b'text,labels\n"x,y\nz\n', r"a\.csv:2: a record cannot be read, up to line 3"),
        (b'text,labels\nx,y\n"x"y,z\n', r"a\.csv:3: a record cannot be read"),
        (b"text,labels\nx,y\n\xff,z\n", r"a\.csv:3:1: expected UTF-8 text, found byte 0xFF"),
        (b'"text,labels\n', "names of columns cannot be read"),
    ],
)
def test_malformed_tables_are_refused_with_their_line(content, what, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=what):
        load(tmp_path / "a.csv")


def test_a_line_with_too_many_fields_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "line_fields", 10)
    (tmp_path / "a.csv").write_text("text,labels\n" + "," * 11 + "\n")
    with pytest.raises(InputError, match="a line of more than 10 fields"):
        load(tmp_path / "a.csv")


def test_ids_must_be_there_where_they_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x", "key": 1}\n{"text": "y"}\n')
    assert read_ids(ReadOptions(), tmp_path / "a.jsonl") == []
    with pytest.raises(InputError, match=r"a\.jsonl:2: expected 'key', which names rows.*found nothing"):
        read_ids(ReadOptions(columns=Columns(id="key")), tmp_path / "a.jsonl")
    (tmp_path / "a.csv").write_text("text\nx\n")
    with pytest.raises(InputError, match=r"no column 'key'.*--id-column"):
        read_ids(ReadOptions(columns=Columns(id="key")), tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ("jsonl", "a.jsonl:2: .* found null"),
        ("csv", "a.csv:3: .* found an empty string"),
        ("tsv", "a.tsv:3: .* found an empty string"),
        ("parquet", "a.parquet, row 2: .* found null"),
        ("frame", "the data frame, row 2: .* found (null|a number)"),
    ],
)
def test_a_row_without_the_id_that_was_named_is_refused_wherever_rows_are_read(form, where, tmp_path):
    rows = [{"text": "cod", "labels": "a;b", "key": "k1"}, {"text": "net", "labels": "a", "key": None}]
    source = tmp_path / f"a.{form}"
    if form == "jsonl":
        lines = [json.dumps({**row, "labels": row["labels"].split(";")}) for row in rows]
        source.write_text("\n".join(lines) + "\n")
    elif form in ("csv", "tsv"):
        sign = "," if form == "csv" else "\t"
        lines = [sign.join(rows[0]), *(sign.join(value or "" for value in row.values()) for row in rows)]
        source.write_text("\n".join(lines) + "\n")
    else:
        table = pd.DataFrame(rows)
        if form == "parquet":
            table.to_parquet(source)
        else:
            source = table
    named = ReadOptions(columns=Columns(id="key"))
    with pytest.raises(InputError, match=where):
        load(source, columns=named.columns)
    with pytest.raises(InputError, match=where):
        load_labels(source, columns=named.columns)
    with pytest.raises(InputError, match=where):
        read_ids(named, source)
    with pytest.raises(InputError, match=where):
        Documents(source, named).write(JsonLines(), tmp_path / "out.jsonl")
    if form != "frame":
        with pytest.raises(InputError, match=where):
            convert_text(source, tmp_path / "store", options=named)
    assert not (tmp_path / "out.jsonl").exists()
    assert not (tmp_path / "store").exists()
    assert load(source).n_samples == 2, "the default id column is optional"


def read_ids(options, source):
    texts, ids = Documents(source, options).texts_and_ids()
    list(texts)  # the ids are complete when all texts are taken
    return ids


def test_folders_of_texts_name_documents_and_refuse_labels_without_a_text(tmp_path):
    source = written("folder", tmp_path)
    assert read_ids(ReadOptions(), source) == ["0", "1", "2", "3"]
    (source / "9.tags").write_text("x\n")
    with pytest.raises(InputError, match=r"9\.tags: holds labels, but there is no 9\.txt"):
        load(source)
    (source / "9.tags").rename(source / "0.key")
    with pytest.raises(InputError, match=r"0\.tags: holds labels, but 0\.key has labels too"):
        load(source)
    (source / "0.key").unlink()
    (source / "0.txt").unlink()
    (source / "0.txt").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="symbolic link"):
        load(source)


def test_parquet_that_is_none_and_texts_that_are_none_are_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + b"\xff" * 60 + b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file"):
        load(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="data frame, row 2: expected 'text' to be a string, found null"):
        load(pd.DataFrame({"text": pd.Series(["x", None], dtype=object), "labels": ["a", "b"]}))
    with pytest.raises(InputError, match="data frame: there is no column 'text'"):
        load(pd.DataFrame({"labels": ["a"]}))


def test_a_missing_file_names_the_one_most_like_it(tmp_path):
    (tmp_path / "train.csv").write_text("text,labels\n")
    with pytest.raises(InputError, match=r"trian\.csv: no such file or folder; did you mean 'train\.csv'\?"):
        load(tmp_path / "trian.csv")


def test_a_missing_column_names_the_one_most_like_it(tmp_path):
    (tmp_path / "a.csv").write_text("description,labels\n")
    expected = r"no column 'descripton'; the columns are .*\(--text-column names one\); did you mean 'description'\?"
    with pytest.raises(InputError, match=expected):
        load(tmp_path / "a.csv", text="descripton")


def test_columns_are_names_and_separators_are_not_empty():
    with pytest.raises(InputError, match="by its name"):
        Columns(text=3)
    with pytest.raises(InputError, match="separator of labels must be"):
        Columns(separator="")
