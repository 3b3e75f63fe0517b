"""Runs that are trained with one propensity per observed positive: what the recipe holds, and what is refused."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, small_corpus
from unmissed.data import write_store
from unmissed.errors import InputError
from unmissed.execution import Processes
from unmissed.models import DiSMEC, LogisticOVR, PWDiSMEC
from unmissed.models.training_data import TrainingData
from unmissed.propensity import CellPropensities, as_propensity, describe, from_description, parse
from unmissed.runs import calibrate, extend, open_run, save, train

TRAIN, TEST = small_corpus()
Y = TRAIN.Y
P = sp.csr_matrix((np.random.default_rng(5).uniform(0.1, 1, Y.nnz), Y.indices, Y.indptr), Y.shape)


@pytest.fixture
def file(tmp_path):
    sp.save_npz(tmp_path / "p.npz", P)
    return tmp_path / "p.npz"


def scores(model):
    return model.rank(TEST.X, 5).scores


def test_a_run_has_the_digest_and_not_the_matrix_and_is_not_resumed_with_another(file, tmp_path, capsys):
    write_store(TRAIN, tmp_path / "store")
    words = ["train", "pw-dismec", tmp_path / "store", "--run", tmp_path / "run", "--jobs", 1, "--propensity"]
    assert "40 labels trained" in said(capsys, *words, f"cells:{file}")
    expected = PWDiSMEC(**PARAMS | {"block_size": 256}).fit(TRAIN.X, Y, cell_propensity=P)
    assert np.array_equal(scores(open_run(tmp_path / "run")), scores(expected))
    assert not np.array_equal(scores(expected), scores(PWDiSMEC(**PARAMS).fit(TRAIN.X, Y)))
    held = json.loads((tmp_path / "run" / "manifest.json").read_text())["recipe"]["params"]["propensity"]
    assert held == {"model": "cells", "values": None, "source": str(file), "digest": CellPropensities(P).digest}
    sp.save_npz(file, 0.5 * P)
    assert "was trained by another recipe: propensity is" in refused(capsys, *words, f"cells:{file}")
    sp.save_npz(file, P[::-1])
    words[4] = tmp_path / "new"
    assert "expected the pattern of Y" in refused(capsys, *words, f"cells:{file}")


def test_workers_get_the_costs_of_cells(file, tmp_path):
    write_store(TRAIN, tmp_path / "store")
    model = PWDiSMEC(**PARAMS | {"block_size": 8}, propensity=parse(f"cells:{file}"))
    rows = pickle.loads(pickle.dumps(model.check_rows(tmp_path / "store").weighted(np.arange(1, 301))))
    assert isinstance(rows, TrainingData)
    assert (rows.cell_propensity != P).nnz == 0
    assert rows.weights.tolist() == list(range(1, 301))
    assert len(pickle.dumps(model)) < 2000, "the path, not the matrix"
    run = train(model, TRAIN, tmp_path / "run", executor=Processes(1))
    assert np.array_equal(scores(run), scores(PWDiSMEC(**PARAMS).fit(TRAIN.X, Y, cell_propensity=P)))


def test_a_run_is_calibrated_with_the_file_it_was_trained_with(file, tmp_path):
    train(PWDiSMEC(**PARAMS, propensity=parse(f"cells:{file}")), TRAIN, tmp_path / "run")
    assert calibrate(tmp_path / "run", old_rows=[TRAIN]).calibration is not None
    sp.save_npz(file, 0.5 * P)
    with pytest.raises(InputError, match="holds other propensities than those of training"):
        open_run(tmp_path / "run").model.check_rows(TRAIN)


def test_what_needs_one_propensity_per_label_refuses_in_one_line(file, tmp_path, capsys):
    run = train(PWDiSMEC(**PARAMS, propensity=parse(f"cells:{file}")), TRAIN, tmp_path / "run")
    with pytest.raises(InputError, match="give no propensity per label; name another"):
        run.propensities()
    assert run.propensities("jain").shape == (40,)
    more = TRAIN.Y.copy()
    with pytest.raises(InputError):
        extend(tmp_path / "run", type(TRAIN)(TRAIN.X, sp.hstack([more, more[:, :1]]).tocsr()), without_old_rows=True)
    for model in (LogisticOVR(propensity=P), LogisticOVR(propensity=CellPropensities(P))):
        with pytest.raises(InputError, match="LogisticOVR takes no propensities per cell"):
            model.fit(TRAIN.X, Y)
    write_store(TRAIN, tmp_path / "store")
    words = ["train", "proxml", tmp_path / "store", "--run", tmp_path / "other", "--propensity", f"cells:{file}"]
    assert "takes no propensities per cell" in refused(capsys, *words)
    assert not (tmp_path / "other" / "manifest.json").exists()


def test_a_model_that_was_given_cells_in_fit_is_saved_with_their_digest(tmp_path):
    model = PWDiSMEC(**PARAMS).fit(TRAIN.X, Y, cell_propensity=P, sample_weight=np.linspace(0.5, 2, 300))
    run = save(model, tmp_path / "run")
    assert run.recipe.propensity == CellPropensities(P)
    assert np.array_equal(scores(run), scores(model))
    assert run.label_counts.tolist() == np.rint(Y.T @ np.linspace(0.5, 2, 300)).tolist()
    with pytest.raises(InputError, match="are not stored with a run; give them again"):
        run.model.check_rows(TRAIN)
    again = DiSMEC(**PARAMS).fit(TRAIN.X, Y, sample_weight=np.full(300, 2))
    assert save(again, tmp_path / "two").parts[0].n_samples == 600


def test_a_matrix_is_a_propensity_that_is_described_by_its_digest():
    held = as_propensity(P)
    assert held == CellPropensities(P.tocsc()) != CellPropensities(0.5 * P)
    assert from_description(describe(held)) == held
    assert hash(from_description(describe(held))) == hash(held)
    with pytest.raises(InputError, match="neither values nor a digest"):
        from_description({"model": "cells", "values": None})
    with pytest.raises(InputError, match="must be a sparse matrix"):
        CellPropensities(P.toarray())
    model = PWDiSMEC(**PARAMS)
    assert np.array_equal(
        scores(model.fit(TRAIN.X, Y, cell_propensity=P)), scores(PWDiSMEC(**PARAMS, propensity=P).fit(TRAIN.X, Y))
    )


def test_auto_compares_weightings_with_the_cells_of_the_rows():
    model = PWDiSMEC(n_jobs=1, weighting="auto").fit(TRAIN.X, Y, cell_propensity=P)
    assert model.choice_ is not None
