"""Annif's corpora: recognized by their contents, URIs without brackets, and nothing else misread."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.speaking import said
from unmissed.data import Columns, load, open_store, read_texts
from unmissed.data.documents import Documents
from unmissed.data.formats import find_reader
from unmissed.data.large_text import convert_text
from unmissed.data.readers.annif_corpora import AnnifCsv, AnnifTsv
from unmissed.data.readers.delimited import Delimited
from unmissed.data.readers.json_lines import JsonLines
from unmissed.data.readers.reader import ReadOptions
from unmissed.data.readers.text_folder import TextFolder
from unmissed.errors import InputError

COD, LAW = "http://example.org/cod", "http://example.org/law"
ROWS = [('the "cod and net', [COD]), ("judge, court", [COD, LAW]), ("milk and bread", [])]
TSV = "".join(f"{text}\t{' '.join(f'<{uri}>' for uri in uris)}\n" for text, uris in ROWS)
CSV = (
    "document_id,title,text,subject_uris\n"
    f'd1,fish,"the ""cod and net",<{COD}>\n'
    f'd2,law,"judge, court",<{COD}> {LAW}\n'
    "d3,food,milk and bread,\n"
)


def json_rows():
    return [
        {
            "document_id": f"d{number}",
            "text": text,
            "metadata": {"title": title},
            "subjects": [{"uri": uri, "label": "a name"} for uri in uris],
        }
        for number, ((text, uris), title) in enumerate(zip(ROWS, ("fish", "law", "food"), strict=True), start=1)
    ]


def written(form, folder):
    """Write the same corpus in a form of Annif's; returns the source."""
    path = folder / f"corpus.{form}"
    if form == "folder":
        path.mkdir()
        for number, (text, uris) in enumerate(ROWS, start=1):
            (path / f"d{number}.txt").write_text(text)
            (path / f"d{number}.tsv").write_text("".join(f"<{uri}>\ta name\n" for uri in uris))
        (path / "d1.key").write_text("ignored, because there is a .tsv\n")
    elif form == "documents":
        path.mkdir()
        for row in json_rows():
            (path / f"{row['document_id']}.json").write_text(json.dumps(row))
    else:
        bare = {"tsv": TSV, "csv": CSV, "jsonl": "".join(json.dumps(row) + "\n" for row in json_rows())}
        content = bare[form.removesuffix(".gz")].encode()
        path.write_bytes(gzip.compress(content) if form.endswith(".gz") else b"\xef\xbb\xbf" + content)
    return path


@pytest.mark.parametrize(
    ("form", "reader"),
    [
        ("tsv", AnnifTsv),
        ("tsv.gz", AnnifTsv),
        ("csv", AnnifCsv),
        ("csv.gz", AnnifCsv),
        ("jsonl", JsonLines),
        ("jsonl.gz", JsonLines),
        ("folder", TextFolder),
        ("documents", TextFolder),
    ],
)
def test_the_same_corpus_gives_the_same_data_set_in_every_form(form, reader, tmp_path):
    source = written(form, tmp_path)
    assert type(find_reader(source)) is reader
    dataset = load(source)
    assert dataset.label_names == [COD, LAW]
    assert dataset.Y.toarray().tolist() == [[1, 0], [1, 1], [0, 0]]
    assert read_texts(source) == [text for text, _ in ROWS]
    (tmp_path / "expected").mkdir()
    assert dataset.digest == load(written("tsv", tmp_path / "expected")).digest
    _, ids = Documents(source).label_lists()
    assert ids == (None if form.startswith("tsv") else ["d1", "d2", "d3"])
    convert_text(source, tmp_path / "store")
    assert open_store(tmp_path / "store").digest == dataset.digest


@pytest.mark.parametrize("form", ["csv", "jsonl", "documents"])
def test_titles_of_newer_corpora_can_be_named_as_texts(form, tmp_path):
    assert read_texts(written(form, tmp_path), columns=Columns(text="title")) == ["fish", "law", "food"]


@pytest.mark.parametrize(
    ("name", "content", "reader"),
    [
        ("a.tsv", "text\tlabels\ncod\thttp://a.org/1\n", Delimited),  # a header is no URI
        ("a.tsv", "cod\tfish\nnet\tlaw\n", Delimited),
        ("a.tsv", "cod\thttp://a.org/1;http://a.org/2\n", Delimited),  # separated as in tables
        ("a.tsv", "cod\thttp://a.org/1\t7\n", Delimited),
        ("a.tsv", "http://a.org/1\tname of a label\n", Delimited),
        ("a.csv", "text,labels,subject_uris\ncod,a,<b>\n", Delimited),
        ("a.csv", "text,tags\ncod,a\n", Delimited),
        ("a.jsonl", '{"text": "cod", "labels": ["a"]}\n', JsonLines),
        ("a.jsonl", '{"text": "cod", "subjects": ["a"]}\n', JsonLines),
        ("a.jsonl", '{"text": "cod", "subjects": [{"uri": "a"}], "labels": ["b"]}\n', JsonLines),
        ("a.jsonl", '{"text": "cod"}\n', JsonLines),
    ],
)
def test_what_other_readers_read_stays_theirs(name, content, reader, tmp_path):
    (tmp_path / name).write_text(content)
    assert type(find_reader(tmp_path / name)) is reader


def test_other_files_of_a_folder_of_texts_stay_ignored(tmp_path):
    for name, content in (("1.txt", "cod"), ("1.tags", "<b>\n"), ("notes.tsv", "<x>\n"), ("settings.json", "{}")):
        (tmp_path / name).write_text(content)
    dataset = load(tmp_path)
    assert (dataset.n_samples, dataset.label_names) == (1, ["<b>"])  # brackets are removed in Annif's files only


def test_a_folder_is_no_corpus_by_tables_next_to_files_of_another_format(tmp_path):
    (tmp_path / "train.txt").write_text("1 1 1\n0 0:1\n")
    (tmp_path / "train.tsv").write_text("text\tlabels\n")
    with pytest.raises(InputError, match=r"a folder, but not a store .* did you mean one of its files: train\.tsv"):
        load(tmp_path)


def test_key_files_have_labels_or_uris(tmp_path):
    (tmp_path / "1.txt").write_text("cod and net")
    (tmp_path / "1.key").write_text(f"fish\n<{COD}>\tcod\n\n<{LAW}>\n")
    assert load(tmp_path).label_names == ["fish", COD, LAW]


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.tsv", f"cod\t<{COD}>\nno tab\n", "a.tsv:2: expected 'labels' to be a list of identifiers, found nothing"),
        ("a.tsv", f"cod\t<{COD}>\n\xff\t<x>\n", "a.tsv:2:1: expected UTF-8 text"),
        ("a.tsv", "cod\tgnd:1 gnd:2\n", "--no-header --text-column 1 --labels-column 2 --separator ' '"),
        ("a.csv", "text,subject_uris\ncod,<a>,7\n", "a.csv:2: 3 fields; the first line has 2"),
        ("a.jsonl", '{"text": "a", "subjects": []}\n{"text": "b", "subjects": [{"x": 1}]}\n', ":2: expected a subject"),
        ("a.jsonl", '{"text": "a", "subjects": []}\n{"text": "b", "subjects": 7}\n', "a.jsonl:2: expected 'subjects'"),
        ("a.jsonl", '{"text": "a", "subjects": []}\n{"text": "b", "metadata": []}\n', "a.jsonl:2: expected 'metadata'"),
    ],
)
def test_malformed_lines_are_refused_with_their_line(name, content, what, tmp_path):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as error:
        load(tmp_path / name)
    assert what in str(error.value)


def test_a_line_without_a_tab_is_a_text_to_rank(tmp_path):
    (tmp_path / "a.tsv").write_text(f"cod\t<{COD}>\nno tab here\n")
    assert read_texts(tmp_path / "a.tsv") == ["cod", "no tab here"]


def test_an_explicit_column_is_read_instead_of_annifs(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,subject_uris,tags,document_id\n7,cod,<a>,x;y,8\n")
    options = ReadOptions(columns=Columns(labels="tags", separator=";"))
    assert Documents(tmp_path / "a.csv", options).label_lists() == ([["x", "y"]], ["7"])
    named = ReadOptions(columns=Columns(id="document_id"))
    assert Documents(tmp_path / "a.csv", named).label_lists() == ([["a"]], ["8"])


words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=8)


@given(st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1), st.lists(words))
def test_what_is_written_is_what_is_read(text, uris):
    line = f"{text}\t{' '.join(f'<{uri}>' for uri in uris)}"
    found = list(AnnifTsv().parse("a", [(1, line.encode())], ReadOptions()))
    assert found == [("a:1", {"text": text, "labels": uris})]


def test_annifs_corpora_serve_training_prediction_and_conversion(tmp_path, capsys):
    source = tmp_path / "train.tsv"
    source.write_text(TSV * 5)
    said(capsys, "train", "dismec", source, "--run", tmp_path / "run", "--no-check")
    assert COD in said(capsys, "predict", tmp_path / "run", source)
    said(capsys, "data", "convert", source, tmp_path / "again.jsonl")
    assert load(tmp_path / "again.jsonl").digest == load(source).digest


def test_the_first_object_with_more_than_a_text_decides(tmp_path, monkeypatch):
    from unmissed.data.readers import json_lines

    seen = []
    known = json_lines.is_annif_document
    monkeypatch.setattr(json_lines, "is_annif_document", lambda document: seen.append(document) or known(document))
    lines = ['{"text": "a"}', *['{"text": "b", "subjects": [{"uri": "<http://e/1>"}]}'] * 5, '{"text": "c", "x": 1}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = [document for _, document in Documents(tmp_path / "a.jsonl").read(["text"])]
    assert [document.get("labels") for document in found[1:6]] == [["http://e/1"]] * 5
    assert len(seen) == 1
