"""Answers of people: what is written for annotators comes back as answers, and what cannot be read is refused."""

import csv
import io
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed.audit import Answer, read_answers
from unmissed.audit.exports import FORMATS, csv_line
from unmissed.errors import InputError
from unmissed.runs.cells import guard

HOSTILE = ['</script><script>alert("x")</script>', "=1+1", 'a "quoted", name', "two\nlines", "ümlaut \u2028"]


class Found(list):
    """Missing labels, as far as writers look at them."""

    run = SimpleNamespace(label_titles=["titles"])
    training_rows = SimpleNamespace(ids=["ids"])

    def texts(self):
        return iter([f"text {HOSTILE[0]}"] * len(self))


@pytest.fixture
def found():
    """A cell per hostile name."""
    keys = ("row", "id", "label", "title", "missing_probability", "observed_probability", "count", "words")
    return Found(
        dict(zip(keys, (at, f"{name} id", name, f"{name} title", 0.75, 0.5, 3, [("cod", 0.5)]), strict=True))
        for at, name in enumerate(HOSTILE)
    )


EXPECTED = [
    Answer(f"{name} id", name, verdict, "ann", 0.75)
    for name, verdict in zip(HOSTILE, ("yes", "no", "unsure", "yes", "no"), strict=True)
]
VERDICTS = [answer.verdict for answer in EXPECTED]


def test_a_label_studio_export_comes_back(found, tmp_path):
    FORMATS["label-studio"](found, tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert tasks[0]["predictions"][0]["score"] == 0.75
    assert read_answers(tmp_path / "tasks.json") == []  # nobody answered
    for task, verdict in zip(tasks, VERDICTS, strict=True):
        result = {"from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": [verdict]}}
        other = {"from_name": "comment", "value": {"text": ["hm"]}}
        task["annotations"] = [
            {"completed_by": {"email": "ann"}, "was_cancelled": False, "result": [other, result]},
            {"completed_by": {"email": "ben"}, "was_cancelled": True, "result": [result]},
        ]
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert read_answers(tmp_path / "export.json") == EXPECTED


def test_label_studios_short_exports_come_back(found, tmp_path):
    """JSON-MIN and CSV have the data of a task beside Label Studio's own id, as its converter writes them."""
    FORMATS["label-studio"](found, tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    own = {"annotation_id": 500, "created_at": "2024-01-01", "lead_time": 1.5}
    items = [
        {**task["data"], "id": 100 + at, "answer": verdict, "annotator": "ann", **own}
        for at, (task, verdict) in enumerate(zip(tasks, VERDICTS, strict=True))
    ]
    (tmp_path / "min.json").write_text(json.dumps(items), encoding="utf-8")
    assert read_answers(tmp_path / "min.json") == EXPECTED
    with open(tmp_path / "result.csv", "w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, sorted(items[0]))
        table.writeheader()
        table.writerows(items)
    got = [answer._replace(row=answer.row.replace("\r\n", "\n")) for answer in read_answers(tmp_path / "result.csv")]
    assert got == EXPECTED


def test_prodigy_examples_come_back(found, tmp_path):
    FORMATS["prodigy"](found, tmp_path / "tasks.jsonl")
    examples = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert examples[0]["label"] == f"{HOSTILE[0]} title"
    words = {"yes": "accept", "no": "reject", "unsure": "ignore"}
    for example, verdict in zip(examples, VERDICTS, strict=True):
        example |= {"answer": words[verdict], "_annotator_id": "ann"}
    (tmp_path / "done.jsonl").write_text("".join(json.dumps(one) + "\n" for one in examples), encoding="utf-8")
    assert read_answers(tmp_path / "done.jsonl") == EXPECTED


def test_argilla_records_come_back(found, tmp_path):
    FORMATS["argilla"](found, tmp_path / "records.json")
    records = json.loads((tmp_path / "records.json").read_text(encoding="utf-8"))
    assert len({record["id"] for record in records}) == len(records)
    assert read_answers(tmp_path / "records.json") == []
    for record, verdict in zip(records, VERDICTS, strict=True):
        draft = {"value": "no", "user_id": "ben", "status": "draft"}
        record["responses"] = {"answer": [{"value": verdict, "user_id": "ann"}, draft]}
    (tmp_path / "records.json").write_text(json.dumps(records), encoding="utf-8")
    assert read_answers(tmp_path / "records.json") == EXPECTED


def test_a_table_with_a_column_of_answers_comes_back(found, tmp_path):
    FORMATS["csv"](found, tmp_path / "missing.csv")
    with open(tmp_path / "missing.csv", newline="", encoding="utf-8") as stream:
        table = list(csv.reader(stream))
    assert table[2][1] == "'=1+1 id"
    lines = [csv_line([*table[0], "answer", "annotator"])]
    lines += [csv_line([*line, verdict.upper(), "ann"]) for line, verdict in zip(table[1:], VERDICTS, strict=True)]
    (tmp_path / "missing.csv").write_bytes(b"".join(lines))
    assert read_answers(tmp_path / "missing.csv") == EXPECTED


def test_an_answer_with_a_long_text_is_read(tmp_path):
    limit = csv.field_size_limit()
    csv.field_size_limit(131_072)  # that of a new process
    text = "a long text\n\n" * 20_000
    (tmp_path / "answers.csv").write_text(f'id,label,answer,text\nr1,law,yes,"{text}"\n', encoding="utf-8")
    assert read_answers(tmp_path / "answers.csv") == [Answer("r1", "law", "yes")]
    csv.field_size_limit(max(limit, csv.field_size_limit()))


def test_a_folder_gives_the_answers_of_its_files_by_name(tmp_path):
    (tmp_path / "b.csv").write_text("row;label;answer\n3;law;y\n4;law;\n")
    (tmp_path / "a.jsonl").write_text('{"row": 7, "label": "food", "answer": "no", "annotator": "cy"}\n')
    (tmp_path / "notes.txt").write_text("not answers")
    assert read_answers(tmp_path) == [Answer("7", "food", "no", "cy"), Answer("3", "law", "yes")]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1), st.sampled_from(["yes", "no", "unsure", ""]))))
def test_any_table_comes_back(tmp_path_factory, cells):
    allowed = [cell for cell in cells if all(one.isprintable() and one.strip() == one for one in cell)]
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    lines = [csv_line(["row", "label", "answer"]), *(csv_line([guard(r), guard(n), a]) for r, n, a in allowed)]
    path.write_bytes(b"".join(lines))
    assert read_answers(path) == [Answer(row, label, word) for row, label, word in allowed if word]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "row,label,answer\n1,law,yes\n2,law,maybe\n", r"a\.csv:3: the answer is 'maybe'"),
        ("a.csv", "row,label\n1,law\n", r"a\.csv:1: expected the columns"),
        ("a.csv", "row,\rlabel,answer\n1,law,yes\n", r"a\.csv:1: the header cannot be read"),
        ("a.csv", "row,label,answer\n1,yes\n", r"a\.csv:2: 2 fields"),
        ("a.csv", "row,label,answer\n,law,yes\n", r"a\.csv:2: expected a row"),
        ("a.csv", 'row,label,answer\n1,"law,yes\n', r"a\.csv:2: a record cannot be read"),
        ("a.jsonl", '{"row": 1, "answer": "yes"}\n', r"a\.jsonl:1: expected a label"),
        ("a.jsonl", "{\n", r"a\.jsonl:1"),
        ("a.json", "{}", "expected a list"),
        ("a.json", '[{"data": {}}, {"text": 1}]', "item 2: expected a task"),
        ("a.json", '[{"data": {}, "annotations": 3}]', "item 1: expected 'annotations'"),
        ("a.json", '[{"metadata": {}, "responses": [1]}]', "item 1: expected responses"),
        ("a.txt", "yes", "cannot tell the format"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_answers(tmp_path / name)


def test_folders_and_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InputError, match="no files of answers"):
        read_answers(tmp_path)
    with pytest.raises(InputError, match="no such"):
        read_answers(tmp_path / "answers.csv")


def test_a_line_of_a_table_is_one_record():
    assert next(csv.reader(io.StringIO(csv_line(HOSTILE).decode(), newline=""))) == HOSTILE
