"""Compare: finished once, gone on with, stopped at limits, and comparison the paper."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.runs.corpora import small_corpus, write_texts
from unmissed.data import load, write_store, write_xmc
from unmissed.data.catalog import find
from unmissed.errors import InputError
from unmissed.execution import Limits, Outcome, watch
from unmissed.metrics import Conventions, evaluate
from unmissed.metrics import compare as paired
from unmissed.propensity import Jain
from unmissed.ranking import Ranking
from unmissed.runs import open_run
from unmissed.runs.compare import trials
from unmissed.runs.compare.comparison import Comparison, compare, read_results
from unmissed.runs.compare.method_specs import read_method_specs
from unmissed.runs.compare.paper_comparison import check_claims, compare_with_published
from unmissed.runs.measurement import Measuring, evaluate_ranking

FEW = Comparison(read_method_specs(["dismec", "pw-dismec:weighting=tail", "popularity"]), n_resamples=50, n_jobs=1)


@pytest.fixture(autouse=True, scope="module")
def here():
    """Run trials in this process; tests/execution covers separate processes."""

    def watch_here(trial, limits, hear):
        try:
            value = trial(hear)
        except InputError as error:
            return Outcome("failed", None, str(error), 0.1, 2**21)
        return Outcome("finished", {**value, "peak_bytes": 2**21}, "", 0.1, 2**21)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "watch", watch_here)
        yield watch_here


@pytest.fixture(scope="module")
def done(tmp_path_factory, here):
    """Compare three methods once; return the folder, the paths of the data and the results."""
    folder = tmp_path_factory.mktemp("compare")
    train, test = small_corpus(n_labels=20, n_train=120)
    for name, dataset in (("train", train), ("test", test)):
        write_xmc(dataset, folder / f"{name}.txt")
    paths = (folder / "train.txt", folder / "test.txt")
    return folder / "out", paths, compare(*paths, folder / "out", FEW)


def test_figures_and_paired_differences_are_those_of_the_rankings_kept(done):
    out, paths, results = done
    train, test = load(paths[0]), load(paths[1])
    inverse = 1 / Jain().estimate(train.label_counts, train.n_samples)
    found = [
        evaluate(Ranking.load(out / "methods" / one.folder / "ranking.npz"), test.Y, inverse, (1, 3, 5))
        for one in FEW.specs
    ]
    for one, own in zip(results["methods"], found, strict=True):
        assert one["figures"]["PSP@5"]["value"] == own["PSP@5"]
    expected = paired(found[1], found[0], 50)["PSP@3"]
    assert results["methods"][1]["against_baseline"]["PSP@3"] == expected._asdict()
    best = results["best"]["P@1"]
    by_key = {one["key"]: one["figures"]["P@1"]["value"] for one in results["methods"]}
    assert by_key[best["key"]] == max(by_key.values())
    assert "popularity" not in [best["key"], *best["near"]]


def test_results_say_what_was_spent_and_on_what(done):
    out, paths, results = done
    assert read_results(out) == json.loads(json.dumps(results))
    assert results["data"]["digests"]["train"] == load(paths[0]).digest
    counts = load(paths[0]).label_counts
    cheap = 1 / Jain().estimate(counts, 120) < 2
    assert results["data"]["low_cost_fraction"] == pytest.approx(counts[cheap].sum() / counts.sum())
    for one in results["methods"]:
        assert one["state"] == "finished"
        assert one["seconds"]["train"] > 0
        assert one["seconds"]["processor"] > 0
        assert one["seconds"]["predict"] > 0
        assert one["peak_bytes"] > 2**20
        assert one["deciles"]
    run = out / "methods" / "dismec" / "run"
    assert open_run(run).recipe.method == "dismec"
    on_disk = sum(file.stat().st_size for file in (run / "pieces").rglob("*") if file.is_file())
    assert results["methods"][0]["disk_bytes"] == on_disk
    assert {"plain": results["methods"][0]["figures"]["P@1"]}["plain"]["low"] is not None
    assert set(results["methods"][0]["reranked"]) == {f"{name}@{k}" for name in ("PSP", "PSnDCG") for k in (1, 3, 5)}


def test_finished_methods_are_not_trained_again_and_new_ones_join(done, here, monkeypatch):
    out, paths, results = done
    trained = []
    monkeypatch.setattr(trials, "watch", lambda trial, *_: trained.append(trial.spec.key) or here(trial, *_))
    more = replace(FEW, specs=[*FEW.specs, *read_method_specs(["pw-dismec:weighting=surrogate"])])
    again = compare(*paths, out, more)
    assert trained == ["pw-dismec:weighting=surrogate"]
    assert again["methods"][0]["seconds"] == results["methods"][0]["seconds"]
    assert again["methods"][3]["figures"]


@pytest.fixture
def few(done, tmp_path):
    """Return a copy of the folder of three methods, the data, and a comparison of one of them."""
    out, paths, _ = done
    shutil.copytree(out, tmp_path / "out")
    for one in (tmp_path / "out" / "methods").iterdir():
        if one.name not in {each.folder for each in FEW.specs}:
            shutil.rmtree(one)
    return tmp_path / "out", paths, replace(FEW, specs=read_method_specs(["popularity"]))


def test_methods_of_earlier_comparisons_stay_in_the_results(few, done, monkeypatch):
    out, paths, one = few
    monkeypatch.setattr(trials, "watch", None)  # nothing is trained
    found = compare(*paths, out, one)
    keys = ["dismec", "pw-dismec:weighting=tail"]
    assert [each["key"] for each in found["methods"]] == ["popularity", *keys]
    assert (found["kept"], found["left_out"], found["baseline"]) == (keys, {}, "dismec")
    before = {each["key"]: each["figures"] for each in done[2]["methods"]}
    assert all(each["figures"] == before[each["key"]] for each in found["methods"])
    assert read_results(out)["methods"] == found["methods"]
    single = compare(*paths, out, replace(one, only=True))
    assert ([each["key"] for each in single["methods"]], single["kept"]) == (["popularity"], [])
    (out / "results.json").unlink()  # as a stopped comparison leaves it
    assert compare(*paths, out, one)["kept"] == keys


def test_records_of_older_versions_are_known_by_the_results(few):
    out, paths, one = few
    for path in out.glob("methods/*/record.json"):
        record = json.loads(path.read_text())
        record.pop("key", None)
        path.write_text(json.dumps(record))
    assert compare(*paths, out, one)["kept"] == ["dismec", "pw-dismec:weighting=tail"]


def test_earlier_methods_of_other_settings_are_left_out_and_named(few):
    out, paths, one = few
    (out / "methods" / "dismec" / "ranking.npz").unlink()
    found = compare(*paths, out, replace(one, propensity=Jain(0.6, 2.6)))
    assert [each["key"] for each in found["methods"]] == ["popularity"]
    assert found["left_out"]["pw-dismec:weighting=tail"] == "was trained with another recipe"
    assert found["left_out"]["dismec"].endswith("ranking.npz is gone")


def test_scores_of_an_earlier_comparison_stay_while_their_file_does(few, tmp_path):
    out, paths, one = few
    np.save(tmp_path / "perfect.npy", load(paths[1]).Y.toarray())
    compare(*paths, out, replace(one, scores={"oracle": tmp_path / "perfect.npy"}))
    found = compare(*paths, out, one)
    assert found["methods"][-1]["key"] == "oracle"
    assert found["kept"][-1] == "oracle"
    (tmp_path / "perfect.npy").unlink()
    assert "perfect.npy is gone" in compare(*paths, out, one)["left_out"]["oracle"]


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_compare_and_evaluate_give_the_same_figures_where_labels_are_unseen(tmp_path, policy):
    write_texts(tmp_path / "train.jsonl")
    write_texts(tmp_path / "test.jsonl", n=20, seed=1, extra="new")
    paths = (tmp_path / "train.jsonl", tmp_path / "test.jsonl")
    one = replace(FEW, specs=read_method_specs(["popularity"]), unseen_labels=policy)
    found = compare(*paths, tmp_path / "out", one)
    how = Measuring(propensity=Jain(), conventions=Conventions(unseen_labels=policy), n_resamples=50)
    ranking = tmp_path / "out" / "methods" / "popularity" / "ranking.npz"
    other = evaluate_ranking(ranking, paths[1], paths[0], how)
    assert found["methods"][0]["figures"] == other["figures"]
    assert found["settings"]["conventions"] == other["conventions"]
    assert found["settings"]["conventions"]["unseen_labels"] == policy
    assert other["unseen"]["assignments"] == found["data"]["unknown_assignments"] > 0


def test_other_data_and_other_parameters_are_refused(done, tmp_path):
    out, paths, _ = done
    train, _ = small_corpus(n_labels=20, n_train=121)
    write_xmc(train, tmp_path / "train.txt")
    with pytest.raises(InputError, match="holds other data"):
        compare(tmp_path / "train.txt", paths[1], out, FEW)
    with pytest.raises(InputError, match="another recipe"):
        compare(*paths, out, replace(FEW, propensity=Jain(0.6, 2.6)))


def test_a_method_that_reaches_a_limit_is_named_and_goes_on_under_a_wider_one(done, tmp_path, monkeypatch):
    _, paths, _ = done
    monkeypatch.setattr(trials, "watch", watch)
    slow = replace(FEW, specs=read_method_specs(["popularity"]), limits=Limits(seconds=1e-6))
    results = compare(*paths, tmp_path / "out", slow)
    assert (results["methods"][0]["state"], results["baseline"]) == ("time limit", None)
    assert results["methods"][0]["reason"] == "stopped after 1e-06 seconds"
    results = compare(*paths, tmp_path / "out", replace(slow, limits=Limits(seconds=600)))
    assert (results["methods"][0]["state"], results["methods"][0]["attempts"]) == ("finished", 2)
    assert results["methods"][0]["peak_bytes"] > 2**22


def test_a_method_stopped_by_a_limit_stays_stopped_under_the_same_limit(done, tmp_path, monkeypatch):
    _, paths, _ = done
    stopped = Outcome("memory limit", None, "stopped at 1 GiB", 5.0, 2**30)
    monkeypatch.setattr(trials, "watch", lambda *_: stopped)
    held = replace(FEW, specs=read_method_specs(["popularity"]), limits=Limits(memory=2**30))
    compare(*paths, tmp_path / "out", held)
    monkeypatch.setattr(trials, "watch", None)  # nothing calls it
    (one,) = compare(*paths, tmp_path / "out", held)["methods"]
    assert (one["state"], one["reason"], one["peak_bytes"]) == ("memory limit", "stopped at 1 GiB", 2**30)


def test_scores_of_another_system_join_the_table(done, tmp_path):
    out, paths, _ = done
    test = load(paths[1])
    np.save(tmp_path / "perfect.npy", test.Y.toarray())
    joined = compare(*paths, out, replace(FEW, scores={"oracle": tmp_path / "perfect.npy"}))
    oracle = joined["methods"][-1]
    assert oracle["figures"]["PSP@5"]["value"] == pytest.approx(1)
    assert joined["best"]["PSP@5"] == {"key": "oracle", "near": []}
    assert joined["methods"][0]["against_best"]["PSP@5"]["high"] < 0
    with pytest.raises(InputError, match="a method has this name"):
        compare(*paths, out, replace(FEW, scores={"dismec": tmp_path / "perfect.npy"}))


def test_a_ranking_with_probabilities_gets_their_errors(done, tmp_path):
    out, paths, _ = done
    ranking = Ranking.from_scores(load(paths[1]).Y.toarray(), 5)
    sure = replace(ranking, probabilities=np.where(ranking.labels >= 0, ranking.scores, 0).astype(np.float32))
    sure.save(tmp_path / "sure.npz")
    methods = compare(*paths, out, replace(FEW, scores={"sure": tmp_path / "sure.npz"}))["methods"]
    assert methods[0]["probabilities"] is None
    (deepest,) = [one for one in methods[-1]["probabilities"] if one["k"] == 5 and one["decile"] is None]
    assert (deepest["ece"]["value"], deepest["noise_floor"]) == (0, 0)


def test_a_method_that_fails_is_named_with_its_reason(tmp_path):
    write_texts(tmp_path / "train.jsonl")
    write_texts(tmp_path / "test.jsonl", n=20, seed=1, extra="new")
    odd = replace(FEW, specs=read_method_specs(["pw-dismec:weighting=surrogate,C=1.7e308", "popularity"]), name="texts")
    results = compare(tmp_path / "train.jsonl", tmp_path / "test.jsonl", tmp_path / "out", odd)
    assert results["methods"][0]["state"] == "failed"
    assert "C" in results["methods"][0]["reason"]
    assert results["data"]["unknown_assignments"] > 0
    assert results["data"]["name"] == "texts"
    assert results["baseline"] == "popularity"


def test_stores_are_taken_too(done, tmp_path):
    _, paths, results = done
    for name, path in zip(("train", "test"), paths, strict=True):
        write_store(load(path), tmp_path / name)
    again = compare(tmp_path / "train", tmp_path / "test", tmp_path / "out", replace(FEW, specs=FEW.specs[2:]))
    assert again["methods"][0]["figures"] == results["methods"][2]["figures"]


def method(key, family, value, gain):
    figures = {f"{name}@{k}": {"value": value} for name in ("P", "PSP") for k in (1, 3, 5)}
    gains = {name: {"value": gain, "low": gain - 0.01, "high": gain + 0.01} for name in figures}
    return {
        "key": key,
        "title": key,
        "family": family,
        "figures": figures,
        "reranked": figures,
        "against_baseline": gains,
    }


def test_published_figures_are_compared_with_ours():
    from unmissed.data.catalog import Recognized

    results = {"methods": [method("pw-dismec:weighting=tail", "", 0.5, 0.02), method("ppd-sparse", "", 0.4, 0)]}
    comparison = compare_with_published(results, Recognized(find("EURLex-4K"), "name"))
    first = comparison["figures"][0]
    assert (first["metric"], first["column"], first["value"]) == ("PSP@1", "PW-DiSMEC", 44.9)
    assert (first["ours"], first["difference"]) == (pytest.approx(50), pytest.approx(5.1))
    assert {one["key"] for one in comparison["figures"] if one["column"] == "(P)PD-Sparse"} == {"ppd-sparse"}
    assert compare_with_published(results, None) is None


@pytest.mark.parametrize(("gain", "holds"), [(0.02, True), (-0.02, False), (0.0, None)])
def test_a_claim_holds_fails_or_stays_open_by_its_intervals(gain, holds):
    methods = [method("dismec", "", 0.4, 0), method("pw-dismec:weighting=tail", "", 0.5, gain)]
    methods.append(method("leml", "embedding based", 0.3, 0))
    apart = {name: {"value": gain, "low": gain - 0.01, "high": gain + 0.01} for name in ("PSP@1", "PSP@3", "PSP@5")}
    claims = check_claims({"methods": methods, "baseline": "dismec"}, lambda one, other: apart)
    assert [claim["holds"] for claim in claims if "PSP" in claim["claim"]] == [holds, holds]
    assert check_claims({"methods": methods[:1], "baseline": "dismec"}, lambda one, other: apart) == []


def test_claims_on_trees_and_sparse_methods_are_checked_against_the_margins_of_the_paper():
    keys = ("dismec", "pfastxml", "parabel", "pd-sparse", "ppd-sparse", "proxml")
    methods = [method(key, "", 0.4, 0) for key in keys] + [method("pw-dismec:weighting=tail", "", 0.5, 0.1)]
    gains = {"pfastxml": 0.105, "parabel": 0.078, "pd-sparse": 0.02, "ppd-sparse": -0.02, "proxml": 0.005}

    def difference(own, other):
        assert own == "pw-dismec:weighting=tail"
        gain = gains[other]
        return {name: {"value": gain, "low": gain - 0.01, "high": gain + 0.01} for name in ("PSP@1", "PSP@3", "PSP@5")}

    found = check_claims({"methods": methods, "baseline": "dismec"}, difference)
    assert [claim["holds"] for claim in found[2:]] == [True, None, True, None, True, False, None]
    assert "10 points" in found[3]["claim"]
    assert "20 % of its figures" in found[5]["claim"], "0.078 +- 0.01 reaches 0.2 x 0.4"
    gains["parabel"] = 0.091
    found = check_claims({"methods": methods, "baseline": "dismec"}, difference)
    assert found[5]["holds"] is True
