import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unmissed.errors import InputError
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS


@st.composite
def listed(draw):
    """Draw distinct labels with many ties among their scores, and padding anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_samples, k = draw(st.integers(0, 6)), draw(st.integers(1, 8))
    labels = np.stack([rng.permutation(12)[:k] for _ in range(n_samples)]) if n_samples else np.empty((0, k), int)
    labels = np.where(rng.random(labels.shape) < 0.2, -1, labels)
    scores = rng.choice([-np.inf, -1.5, 0.0, 2.0], size=labels.shape)
    return labels, scores


@given(listed())
def test_sort_orders_by_descending_score_then_ascending_label_with_padding_last(case):
    labels, scores = case
    ranking = Ranking.sort(labels, scores)
    assert ranking.labels.dtype == np.int32
    assert ranking.scores.dtype == np.float32
    for row in range(len(labels)):
        pairs = [(-score, label) for label, score in zip(labels[row], scores[row], strict=True) if label >= 0]
        kept = ranking.labels[row] >= 0
        assert list(zip(-ranking.scores[row][kept], ranking.labels[row][kept], strict=True)) == sorted(pairs)
        assert not kept[len(pairs) :].any()
        assert (ranking.scores[row][~kept] == -np.inf).all()


@given(listed())
def test_sorting_twice_is_sorting_once(case):
    once = Ranking.sort(*case)
    twice = Ranking.sort(once.labels, once.scores)
    np.testing.assert_array_equal(once.labels, twice.labels)
    np.testing.assert_array_equal(once.scores, twice.scores)


def test_the_order_is_that_of_the_scores_as_given_where_float32_cannot_tell_them_apart():
    fine = 1 + np.array([[0.0, 1e-12, 3e-12, 2e-12, -1e-9]])  # all of them 1 in float32
    ranking = Ranking.sort([[0, 1, 2, 3, 4]], fine)
    assert ranking.labels.tolist() == [[2, 3, 1, 0, 4]]
    np.testing.assert_allclose(ranking.scores, 1, rtol=1e-6)
    assert (np.diff(ranking.scores) <= 0).all()
    again = Ranking.sort(ranking.labels, ranking.scores)
    np.testing.assert_array_equal(again.labels, ranking.labels)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.booleans()), min_size=1, max_size=12))
def test_near_ties_of_any_kind_keep_the_finer_order(entries):
    scores = np.array([coarse + 1e-13 * fine for coarse, fine, _ in entries])
    labels = np.where([empty for *_, empty in entries], -1, np.arange(len(entries))[::-1])
    ranking = Ranking.sort(labels[None], scores[None])
    expected = sorted((-score, label) for score, label in zip(scores, labels, strict=True) if label >= 0)
    assert [label for label in ranking.labels[0].tolist() if label >= 0] == [label for _, label in expected]
    kept = ranking.scores[0, : len(expected)]
    np.testing.assert_allclose(kept, [-score for score, _ in expected], rtol=1e-5, atol=1e-5)


def test_ties_of_float64_scores_are_ordered_by_ascending_label():
    ranking = Ranking.sort([[3, 1, 2]], np.full((1, 3), 1 / 3))
    assert ranking.labels.tolist() == [[1, 2, 3]]
    assert len(set(ranking.scores[0].tolist())) == 1


@given(st.integers(0, 2**32), st.integers(1, 7), st.booleans())
def test_a_score_matrix_sparse_or_dense_gives_its_best_labels(seed, k, integers):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, size=(6, 5)) if integers else rng.normal(size=(6, 5))
    missing = rng.random(scores.shape) < 0.3
    stored = sparse.csr_matrix((scores[~missing], np.nonzero(~missing)), shape=scores.shape)  # zeros stay stored
    dense = np.where(missing, -np.inf, scores)
    expected = np.full((6, k), -1)
    for row in range(6):
        best = sorted(np.flatnonzero(~missing[row]), key=lambda label: (-scores[row, label], label))[:k]
        expected[row, : len(best)] = best
    for matrix in (dense, dense.tolist(), stored, stored.tocsc(), sparse.coo_array(stored)):
        ranking = Ranking.from_scores(matrix, k)
        np.testing.assert_array_equal(ranking.labels, expected)
        found = np.take_along_axis(scores, np.maximum(expected, 0), 1)
        np.testing.assert_allclose(ranking.scores, np.where(expected < 0, -np.inf, found), rtol=1e-6)


def test_a_dense_score_matrix_is_ranked_in_blocks_of_rows(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(23, 5))
    expected = Ranking.from_scores(scores, 3)
    monkeypatch.setattr(SETTINGS, "sorted_scores", 20)
    np.testing.assert_array_equal(Ranking.from_scores(scores, 3).labels, expected.labels)


def test_near_ties_of_a_score_matrix_keep_their_order():
    scores = 1 + np.array([[0.0, 1e-12, 2e-12]])
    for matrix in (scores, sparse.csr_matrix(scores)):
        assert Ranking.from_scores(matrix, 3).labels.tolist() == [[2, 1, 0]]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([[0.0, 1], [np.nan, 0]]), "row 1 has a score that is not a number"),
        (sparse.csr_matrix(np.array([[0.0, 1], [np.nan, 0]])), "row 1 has a score that is not a number"),
        (np.zeros(3), r"not float64 of shape \(3,\)"),
        (np.array([["a"]]), "a matrix of numbers"),
    ],
)
def test_what_is_no_score_matrix_is_refused(scores, message):
    with pytest.raises(InputError, match=message):
        Ranking.from_scores(scores, 1)
    with pytest.raises(InputError, match="at least 1 position"):
        Ranking.from_scores(np.zeros((1, 1)), 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_tensor_of_scores_is_ranked_whatever_its_dtype(dtype):
    torch = pytest.importorskip("torch")
    scores = torch.rand((4, 6), generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype)).requires_grad_()
    found, expected = Ranking.from_scores(scores, 3), Ranking.from_scores(scores.detach().double().numpy(), 3)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_labels_as_listed_keep_their_order_and_only_contradicting_scores_are_lowered():
    ranking = Ranking.as_listed([[3, 1, 2, -1]], [[0.5, 0.5, 0.5, -np.inf]])
    assert ranking.labels.tolist() == [[3, 1, 2, -1]]
    below = np.nextafter(np.float32(0.5), np.float32(0))
    assert ranking.scores.tolist() == [[0.5, below, below, -np.inf]]
    with pytest.raises(InputError, match="row 1 of the ranking is not in order"):
        Ranking.as_listed([[3, 1], [0, 1]], [[0.5, 0.5], [0.1, 0.2]])
    with pytest.raises(InputError, match="one shape"):
        Ranking.as_listed([[3, 1]], [[0.5]])


def test_a_ranking_knows_the_names_of_its_labels_by_their_digest(tmp_path):
    names = ["a", "b", "c"]
    ranking = Ranking.sort([[0, 2]], [[1.0, 2.0]]).of_names(names)
    back = Ranking.load(ranking.save(tmp_path / "r.npz"))
    assert back.names_digest == ranking.names_digest == back.top(1).names_digest
    back.check_names(names, "here")
    back.check_names([*names, "d"], "here")  # labels that came later
    back.check_names(None, "here")
    Ranking.sort([[0]], [[1.0]]).of_names(None).check_names(["x"], "here")
    for wrong in (["a", "b"], ["a", "c", "b"], ["a", "b", "x"], ["ab", "", "c"]):
        with pytest.raises(InputError, match="one of 3 labels that are not those of here"):
            back.check_names(wrong, "here")


def test_a_ranking_knows_its_rows_by_the_digest_of_their_ids(tmp_path):
    ranking = Ranking([[0], [1]], [[1.0], [2.0]]).of_rows(["a", "b"]).of_names(["x", "y"])
    back = Ranking.load(ranking.save(tmp_path / "r.npz"))
    assert (back.rows_digest, back.names_digest) == (ranking.rows_digest, ranking.names_digest)
    back.check_rows(["a", "b"], "truth")
    back.check_rows(None, "a truth without ids")
    with pytest.raises(InputError, match="rows that are not those of truth"):
        back.check_rows(["b", "a"], "truth")
    np.savez(tmp_path / "d.npz", labels=[[0]], scores=[[1.0]], rows_digest=np.array(b"?"))
    with pytest.raises(InputError, match=r"d\.npz: its digest of row ids is damaged"):
        Ranking.load(tmp_path / "d.npz")


@pytest.mark.parametrize("digest", [np.array(b"3:xyz"), np.array([b"3:"]), np.array(7), np.array(b"")])
def test_a_damaged_digest_is_refused(tmp_path, digest):
    np.savez(tmp_path / "r.npz", labels=np.array([[0]]), scores=np.array([[1.0]]), names_digest=digest)
    with pytest.raises(InputError, match=r"r.npz: its digest of label names is damaged"):
        Ranking.load(tmp_path / "r.npz")


def test_scores_may_be_integers():
    assert Ranking.sort([[0, 1]], [[1, 2]]).labels.tolist() == [[1, 0]]


@given(listed(), st.integers(1, 9))
def test_top_keeps_the_first_positions(case, k):
    ranking = Ranking.sort(*case)
    np.testing.assert_array_equal(ranking.top(k).labels, ranking.labels[:, :k])
    assert ranking.top(k).k == min(k, ranking.k)


@given(listed())
def test_writing_and_reading_is_the_identity(tmp_path_factory, case):
    ranking = Ranking.sort(*case)
    path = tmp_path_factory.mktemp("ranking") / "r.npz"
    assert ranking.save(path) == path
    back = Ranking.load(path)
    np.testing.assert_array_equal(back.labels, ranking.labels)
    np.testing.assert_array_equal(back.scores, ranking.scores)
    assert [each.name for each in path.parent.iterdir()] == ["r.npz"]


def test_a_written_ranking_can_be_read_by_whoever_may_read_new_files(tmp_path):
    (tmp_path / "plain").touch()
    path = Ranking.sort([[0]], [[1.0]]).save(tmp_path / "r.npz")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = Ranking.sort([[0]], [[1.0]]).save(tmp_path / "r.npz")

    def break_down(*arguments, **options):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", break_down)
    with pytest.raises(OSError, match="disk full"):
        Ranking.sort([[1]], [[1.0]]).save(path)
    assert Ranking.load(path).labels.tolist() == [[0]]
    assert [each.name for each in tmp_path.iterdir()] == ["r.npz"]


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([[0, 1]], [[1.0, 2.0]], "row 0 of the ranking is not in order"),
        ([[1, 0]], [[1.0, 1.0]], "row 0 of the ranking is not in order"),
        ([[-1, 0]], [[-np.inf, -np.inf]], "row 0 of the ranking is not in order"),
        ([[3, 3]], [[2.0, 1.0]], "row 0 of the ranking lists label 3 twice"),
        ([[-1]], [[0.5]], "empty position"),
        ([[-2]], [[0.5]], "at least 0"),
        ([[2**32]], [[0.5]], "below 2"),
        ([[0]], [[np.nan]], "not a number"),
        ([[0.5]], [[0.5]], "integers, not float64"),
        ([0], [0.5], "one shape"),
        ([[0]], [[0.5, 0.25]], "one shape"),
    ],
)
def test_what_is_no_ranking_is_refused(labels, scores, message):
    with pytest.raises(InputError, match=message):
        Ranking(np.array(labels), np.array(scores))


def test_sorting_refuses_labels_that_an_integer_of_32_bits_cannot_hold():
    with pytest.raises(InputError, match="below 2"):
        Ranking.sort(np.array([[2**32]]), [[1.0]])
    with pytest.raises(InputError, match="integers"):
        Ranking.sort(np.array([[0.7]]), [[1.0]])


def test_a_ranking_without_positions_is_refused():
    with pytest.raises(InputError, match="at least 1 position"):
        Ranking.sort([[0]], [[1.0]]).top(0)


def test_files_that_hold_no_ranking_are_refused_by_name(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", rows=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    np.savez(tmp_path / "jumbled.npz", labels=np.array([[0, 1]]), scores=np.array([[1.0, 2.0]]))
    content = Ranking.sort([[0]], [[1.0]]).save(tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    for name in ("text.npz", "other.npz", "array.npy", "cut.npz"):
        with pytest.raises(InputError, match=f"{name}: not a ranking file"):
            Ranking.load(tmp_path / name)
    with pytest.raises(InputError, match=r"jumbled.npz: row 0 of the ranking is not in order"):
        Ranking.load(tmp_path / "jumbled.npz")
    with pytest.raises(InputError, match=r"none.npz: no such file"):
        Ranking.load(tmp_path / "none.npz")
