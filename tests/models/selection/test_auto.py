"""`PWDiSMEC(weighting="auto")`: the weighting and C, selected together."""

import json
import pickle

import numpy as np
import pytest

from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import InMemory, Partition, Piece, Unfinished, Work
from unmissed.models import PWDiSMEC
from unmissed.models.linear.dismec.estimator import Selection
from unmissed.propensity import FromTable
from unmissed.propensity.weighting import CONVEX
from unmissed.runs import extend, open_run, train

TRAIN, TEST = small_corpus()
LOSING = FromTable(np.where(TRAIN.label_counts > 30, 0.999, 0.5))  # by which `tail` hardly learns frequent labels
AUTO = {"weighting": "auto", "block_size": 16, "propensity": LOSING}


@pytest.fixture(scope="module")
def auto():
    return PWDiSMEC(**AUTO, n_jobs=1).fit(TRAIN.X, TRAIN.Y)


def test_auto_searches_both_and_ranks_like_what_it_chose(auto):
    found = auto.choice()
    assert found["params"] == {"weighting": auto.weighting_, "C": auto.C_}
    assert found["baseline"] == {"weighting": "none", "C": 1.0}
    assert found["metric"] == ["P@1", "P@5", "PSP@5"]
    tried = {(one["params"]["weighting"], one["params"]["C"]) for one in found["candidates"]}
    assert tried == {(weighting, C) for weighting in CONVEX for C in (0.1, 0.3, 0.5, 1.0, 3.0)}
    for one in found["candidates"]:
        if one["params"]["weighting"] == "tail":
            assert one["gains"]["P@1"]["high"] < 0  # the positives of frequent labels cost 0.001
    assert auto.weighting_ != "tail"
    named = PWDiSMEC(**{**AUTO, "weighting": auto.weighting_, "C": auto.C_}, n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    assert named.choice() is None
    assert (named.weighting_, named.C_) == (auto.weighting_, auto.C_)
    assert np.array_equal(auto.rank(TEST.X, 5).scores, named.rank(TEST.X, 5).scores)
    assert (auto.weighting, auto.C) == ("auto", PWDiSMEC().C)
    assert json.loads(json.dumps(found)) == found


def test_a_c_that_is_not_the_default_is_kept():
    model = PWDiSMEC(**AUTO, C=7.0, n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    assert model.C_ == 7.0
    assert model.choice()["params"] == {"weighting": model.weighting_}
    assert model.choice()["baseline"] == {"weighting": "none"}
    assert len(model.choice()["candidates"]) == len(CONVEX)


def test_auto_does_not_depend_on_threads_and_goes_on_where_it_stopped(auto, tmp_path):
    train("pw-dismec", TRAIN, tmp_path / "whole", {**AUTO, "n_jobs": 2})

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("pw-dismec", TRAIN, tmp_path / "broken", {**AUTO, "n_jobs": 1}, progress=stop)
    assert (tmp_path / "broken" / "pieces" / "choice").is_dir()
    run = train("pw-dismec", TRAIN, tmp_path / "broken", {**AUTO, "n_jobs": 1})
    assert tree_bytes(tmp_path / "broken") == tree_bytes(tmp_path / "whole")
    assert open_run(tmp_path / "whole").model.choice() == run.model.choice() == auto.choice()
    manifest = json.loads((tmp_path / "whole" / "pieces" / "choice" / "manifest.json").read_text())
    assert manifest["metadata"] == auto.choice()


def test_partitions_choose_the_same(auto, tmp_path):
    parts = [Partition(1, 2), Partition(2, 2)]
    with pytest.raises(Unfinished):
        train("pw-dismec", TRAIN, tmp_path / "run", {**AUTO, "n_jobs": 1}, partition=parts[0])
    run = train("pw-dismec", TRAIN, tmp_path / "run", {**AUTO, "n_jobs": 1}, partition=parts[1])
    assert run.model.choice() == auto.choice()
    assert np.array_equal(run.rank(TEST.X, 5).scores, auto.rank(TEST.X, 5).scores)


class Heard(list):
    """A progress callback that keeps all reports."""

    def __call__(self, done, total):
        self.append((done, total))

    def describe(self, text):
        self.append(text)


def test_progress_says_what_is_tried_and_what_was_found(auto):
    heard = Heard()
    PWDiSMEC(**AUTO, n_jobs=1).fit(TRAIN.X, TRAIN.Y, work=Work(progress=heard))
    said = [one for one in heard if isinstance(one, str)]
    assert said[0] == "rung 1 of 3: weighting none, C 1 (1 of 25)"
    assert said[1].startswith("rung 1 of 3: weighting floored-tail, C 0.3 (2 of 25), about ")
    assert said[-1] == f"training labels with weighting {auto.weighting_}, C {auto.C_:g}"
    assert heard[-1] == (40, 40)
    assert pickle.loads(pickle.dumps(Selection(1, 2, heard))) == Selection(1, 2)


def test_labels_that_come_later_get_what_was_chosen(tmp_path):
    some = Dataset(TRAIN.X, TRAIN.Y[:, :20], label_names=TRAIN.label_names[:20], feature_names=TRAIN.feature_names)
    params = {"weighting": "auto", "block_size": 16, "n_jobs": 1}
    train("pw-dismec", some, tmp_path / "auto", params)
    run = extend(tmp_path / "auto", TRAIN, old_rows=[some], n_jobs=1)
    chosen = {"weighting": run.model.weighting_, "C": run.model.C_}
    train("pw-dismec", some, tmp_path / "named", {**params, **chosen})
    other = extend(tmp_path / "named", TRAIN, old_rows=[some], n_jobs=1)
    assert np.array_equal(run.rank(TEST.X, 40).scores, other.rank(TEST.X, 40).scores)


def test_a_choice_that_is_missing_or_strange_is_noticed(auto):
    def opened(**metadata):
        pieces = InMemory()
        for key in auto.pieces_.listed():
            piece = auto.pieces_.get(key)
            if key != "choice":
                pieces.put(piece)
            elif metadata:
                pieces.put(Piece(key, metadata=metadata))
        return PWDiSMEC.open({"weighting": "auto"}, pieces, auto.n_features_in_, auto.n_labels_)

    with pytest.raises(InputError, match="the piece choice is missing"):
        opened()
    for params in ({"weighting": "heavy"}, {}, None, {"weighting": []}, {"weighting": "tail", "tol": 1.0}):
        with pytest.raises(InputError, match="it has no valid weighting"):
            opened(params=params)
    for C in (0, -1.0, True, "1", None, float("inf"), float("nan")):
        with pytest.raises(InputError, match="it has no valid C"):
            opened(params={"weighting": "tail", "C": C})
    model = opened(params={"weighting": "tail", "C": 3})
    assert (model.weighting_, model.C_) == ("tail", 3.0)
    assert opened(params={"weighting": "tail"}).C_ == PWDiSMEC().C


def test_few_rows_choose_plain_costs():
    model = PWDiSMEC(weighting="auto", n_jobs=1).fit(TRAIN.X[:50], TRAIN.Y[:50])
    assert (model.weighting_, model.C_) == ("none", 1.0)
    assert model.choice()["candidates"] == []
