"""The guide to data: its code runs."""

import re
from pathlib import Path

from unmissed.data.readers.format_registry import FORMATS

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_code_of_the_guide_runs_and_says_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, object] = {}
    try:
        for block in blocks:
            exec(block, names)
    finally:
        FORMATS._found.pop("bars", None)
    assert names["test"].n_samples == 500
    assert (names["entry"].n_labels, names["entry"].a, names["entry"].b) == (501070, 0.5, 0.4)
    assert names["dataset"].label_names[:3] == ["label0", "label1", "label2"]
    assert 0 < names["observed"].nnz < names["train"].Y.nnz


def test_the_guides_example_of_xmc_text_is_read(tmp_path):
    from unmissed.data import load

    example = re.search(r"```text\n(3 5 4\n.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert example is not None
    (tmp_path / "example.txt").write_text(example.group(1))
    dataset = load(tmp_path / "example.txt")
    assert dataset.Y.toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert dataset.X.toarray().tolist() == [[0.5, 0, 0, 1, 0], [0, 0.25, 0, 0, 0], [0, 0, 1, 0, 2]]


def test_the_guide_names_every_file_of_a_store(tmp_path):
    from unmissed.data import Dataset, TextFeatures, write_store

    text = TextFeatures()
    X = text.fit_transform(["some words"] * 2 + ["others"])
    names = ["only"]
    dataset = Dataset(X, X[:, :1] > 0, label_names=names, feature_names=text.terms_, label_titles=names, text=text)
    write_store(dataset, tmp_path / "store")
    page = PAGE.read_text(encoding="utf-8")
    for file in (tmp_path / "store").iterdir():
        stem = re.sub(r"^(label_titles|feature_names)_", "label_names_", file.stem)
        assert f"`{stem}`" in page or f"`{file.name}`" in page, file.name
