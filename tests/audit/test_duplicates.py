"""Propensities from rows with the same text."""

import json

import numpy as np
import pytest

from unmissed.audit.duplicates import estimate_duplicates
from unmissed.errors import InputError
from unmissed.propensity import parse


def write_duplicates(path, n_texts, p, seed=0, copies=0):
    """JSON lines: each text twice, its labels kept with probability p independently; `copies` texts are copied."""
    rng = np.random.default_rng(seed)
    with open(path, "w", encoding="utf-8") as stream:
        for number in range(n_texts + copies):
            true = rng.choice(40, size=6, replace=False)
            rows = [[f"l{label}" for label in true if rng.random() < p] for _ in range(2)]
            for labels in rows if number < n_texts else rows[:1] * 2:
                stream.write(json.dumps({"text": f"text  {number}", "labels": labels}) + "\n")
    return path


def test_the_propensity_of_independent_rows_is_found(tmp_path):
    found = estimate_duplicates(str(write_duplicates(tmp_path / "d.jsonl", 600, 0.6)))
    assert (found.n_groups, found.n_texts) == (600, 600)
    assert len(found.bands) > 2
    for band in found.bands:
        assert band.low - 0.03 <= 0.6 <= band.high + 0.03
        assert band.low <= band.p <= band.high


def test_copied_rows_are_left_out_and_counted(tmp_path):
    plain = estimate_duplicates(str(write_duplicates(tmp_path / "a.jsonl", 300, 0.5)))
    copied = estimate_duplicates(str(write_duplicates(tmp_path / "b.jsonl", 300, 0.5, copies=300)))
    assert copied.n_groups - copied.n_equal == pytest.approx(plain.n_groups - plain.n_equal, abs=10)
    assert copied.n_equal > plain.n_equal + 280
    assert f"{copied.n_equal:,} of {copied.n_groups:,} texts" in copied.warning
    assert np.mean([one.p for one in copied.bands]) == pytest.approx(np.mean([one.p for one in plain.bands]), abs=0.05)
    assert all(one.p_all > one.p + 0.1 for one in copied.bands)


def test_the_word_gives_the_curve_and_warns(tmp_path):
    path = str(write_duplicates(tmp_path / "d.jsonl", 300, 0.5))
    with pytest.warns(UserWarning, match="as copied records have"):
        curve = parse(f"duplicates:{path}")
    assert curve == estimate_duplicates(path).curve()


def test_rows_without_text_are_compared_by_features(tmp_path):
    path = write_duplicates(tmp_path / "d.jsonl", 200, 0.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    with open(tmp_path / "d.txt", "w") as stream:
        stream.write(f"{len(lines)} 200 40\n")
        for number, line in enumerate(lines):
            stream.write(f"{','.join(sorted(label[1:] for label in line['labels']))} {number // 2}:1\n")
    texts, features = estimate_duplicates(str(path)), estimate_duplicates(str(tmp_path / "d.txt"))
    for one, other in zip(texts.bands, features.bands, strict=True):
        assert one[:5] == pytest.approx(other[:5])


def test_too_few_duplicates_are_refused_with_the_number_that_is_needed(tmp_path):
    with pytest.raises(InputError, match=r"needs 100, that is about \d+ such texts"):
        estimate_duplicates(str(write_duplicates(tmp_path / "d.jsonl", 8, 0.5)))
    (tmp_path / "e.jsonl").write_text('{"text": "a", "labels": ["x"]}\n{"text": "b", "labels": ["y"]}\n')
    with pytest.raises(InputError, match="has 0 texts that several rows have"):
        estimate_duplicates(str(tmp_path / "e.jsonl"))
