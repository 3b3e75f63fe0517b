"""load, load_labels and read_texts: every form, matched to the training set."""

import gzip
import json
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from unmissed.data import Dataset, TextFeatures, load, load_labels, read_texts, write_store, write_xmc
from unmissed.data.readers.npz import NumpyFiles
from unmissed.errors import InputError

TRAIN = [
    {"id": 1, "text": "cats purr", "labels": ["b", "a"]},
    {"text": "dogs bark", "labels": ["c", "b", "b"]},
    {"text": "birds", "labels": [10]},
    {"text": "nothing here", "labels": [], "more": {"x": [1]}},
]
TEST = [{"text": "cats bark loudly", "labels": ["c", "unknown", "other"]}, {"text": "birds", "labels": ["a"]}]


def write_lines(path, documents):
    text = "".join(json.dumps(document) + "\n" for document in documents)
    data = text.encode()
    path.write_bytes(
        gzip.compress(data) if path.suffix == ".gz" else lzma.compress(data) if path.suffix == ".xz" else data
    )
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_json_lines_become_features_and_sorted_labels(tmp_path, suffix):
    dataset = load(write_lines(tmp_path / f"a.jsonl{suffix}", TRAIN))
    binarizer = MultiLabelBinarizer()
    expected = binarizer.fit_transform([[str(label) for label in document["labels"]] for document in TRAIN])
    assert dataset.label_names == binarizer.classes_.tolist() == ["10", "a", "b", "c"]
    assert dataset.Y.toarray().tolist() == expected.tolist()
    assert dataset.feature_names == ["bark", "birds", "cats", "dogs", "here", "nothing", "purr"]
    assert dataset.text is not None
    expected_X = TextFeatures().fit_transform([document["text"] for document in TRAIN])
    assert (expected_X != dataset.X).nnz == 0


def test_a_test_set_gets_the_features_and_labels_of_its_training_set(tmp_path):
    train = load(write_lines(tmp_path / "train.jsonl", TRAIN))
    test = load(write_lines(tmp_path / "test.jsonl", TEST), like=train)
    assert test.X.shape == (2, 7)
    assert test.feature_names == train.feature_names
    assert test.label_names == train.label_names
    assert test.Y.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    assert test.n_unknown_labels == 2
    Y, names, n_unknown = load_labels(tmp_path / "test.jsonl", like_names=train.label_names)
    assert (Y != test.Y).nnz == 0
    assert names == train.label_names
    assert n_unknown == 2
    kept, all_names, n_unknown = load_labels(tmp_path / "test.jsonl", like_names=train.label_names, keep_unknown=True)
    assert all_names[: len(names)] == names
    assert all_names[len(names) :] == sorted(all_names[len(names) :])
    assert (kept[:, : len(names)] != Y).nnz == 0
    assert kept[:, len(names) :].nnz == 2
    assert n_unknown == 0


def test_a_stored_training_set_serves_as_well_as_a_fresh_one(tmp_path):
    train = load(write_lines(tmp_path / "train.jsonl", TRAIN), text=TextFeatures(ngrams=(1, 2)))
    write_store(train, tmp_path / "store")
    path = write_lines(tmp_path / "test.jsonl", TEST)
    assert load(path, like=load(tmp_path / "store")).digest == load(path, like=train).digest


def test_the_given_text_options_are_left_unfitted(tmp_path):
    options = TextFeatures(min_df=1)
    load(write_lines(tmp_path / "a.jsonl", TRAIN), text=options)
    assert not hasattr(options, "terms_")


def test_fitted_text_features_are_used_as_they_are(tmp_path):
    fitted = TextFeatures().fit(["cats bark"])
    dataset = load(write_lines(tmp_path / "a.jsonl", TRAIN), text=fitted)
    assert dataset.feature_names == ["bark", "cats"]


def test_texts_are_read_without_labels(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"text": "one"}, {"text": ""}])
    assert read_texts(path) == ["one", ""]
    (tmp_path / "a.txt").write_text("1 1 1\n0 0:1\n")
    with pytest.raises(InputError, match="holds no texts"):
        read_texts(tmp_path / "a.txt")


def test_label_names_in_a_tsv_file_become_titles(tmp_path):
    (tmp_path / "label_names.tsv").write_text("a\tÄpfel\r\nb\tBirnen\tsüß\n\nzzz\tunused\n", encoding="utf-8")
    train = load(write_lines(tmp_path / "train.jsonl", TRAIN))
    assert train.label_titles == ["10", "Äpfel", "Birnen\tsüß", "c"]
    write_store(train, tmp_path / "store")
    assert load(tmp_path / "store").label_titles == train.label_titles
    (tmp_path / "label_names.tsv").write_text("a\tb\nc d\n")
    with pytest.raises(InputError, match=r"label_names.tsv:2: expected an identifier, a tab"):
        load(tmp_path / "train.jsonl")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"{", r":2:\d+: expected a JSON object"),
        (b'{"text": "a" "labels": []}', r":2:14: expected a JSON object: Expecting ',' delimiter"),
        (b"[1]", ":2:1: .* found a list"),
        (b'"text"', ":2:1: .* found a string"),
        (b"3", ":2:1: .* found a number"),
        (b'{"labels": []}', ":2: expected 'text' to be a string, found nothing"),
        (b'{"text": null, "labels": []}', ":2: expected 'text' to be a string, found null"),
        (b'{"text": "a"}', ":2: expected 'labels' to be a list of identifiers, found nothing"),
        (b'{"body": "a", "labels": []}', ":2: expected 'text' to be a string, found nothing; there are 'body' .--text"),
        (b'{"text": "a", "labels": "b"}', ":2: .* found a string"),
        (b'{"text": "a", "labels": [1.5]}', ":2: .* found a number"),
        (b'{"text": "a", "labels": [true]}', ":2: .* found true or false"),
        (b'{"text": "a", "labels": ["\\ud800"]}', ":2: .* surrogate"),
        (b'{"text": "\xe9", "labels": []}', ":2:11: expected UTF-8 text, found byte 0xE9"),
        (b"[" * 100_000, ":2: expected a JSON object"),
        (b'{"text": "a", "labels": [' + b"9" * 5000 + b"]}", ":2: expected a JSON object"),
    ],
)
def test_malformed_json_lines_are_refused_with_their_line(tmp_path, line, what):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "fine words", "labels": ["x"]}\n' + line + b"\n")
    with pytest.raises(InputError, match=rf"a\.jsonl{what}"):
        load(path)


def test_a_file_of_blank_lines_holds_no_documents(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match="no documents"):
        load(tmp_path / "a.jsonl")


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["text", "labels"]), inner)),
    max_leaves=4,
)
documents = st.fixed_dictionaries(
    {"text": st.one_of(st.text(), values), "labels": st.one_of(st.lists(st.text()), values)}
)


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(
        st.binary(max_size=80),
        st.lists(documents.map(lambda document: json.dumps(document).encode()), max_size=4).map(b"\n".join),
    )
)
def test_whatever_the_json_lines_they_load_and_store_or_are_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("json")
    (folder / "a.jsonl").write_bytes(content)
    try:
        dataset = load(folder / "a.jsonl")
    except InputError:
        return
    write_store(dataset, folder / "store")
    assert load(folder / "store").digest == dataset.digest


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    X = sparse.random(20, 9, 0.4, "csr", random_state=rng, dtype=np.float32)
    Y = (sparse.random(20, 5, 0.4, "csr", random_state=rng) > 0).astype(np.float32)
    return X, Y


def test_a_pair_of_npz_files_is_read_and_written(tmp_path, matrices):
    X, Y = matrices
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csc_array(X))
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.coo_matrix(Y.astype(bool)))
    dataset = load(f"{tmp_path}/X.trn.npz,{tmp_path}/Y.trn.npz")
    assert dataset.digest == Dataset(X, Y).digest
    named = Dataset(X, Y, label_names=list("abcde"), feature_names=list("abcdefghi"))
    pair = f"{tmp_path}/X.npz,{tmp_path}/Y.npz"
    NumpyFiles().write(named, pair)
    assert load(pair).digest == named.digest


def test_bad_npz_files_are_refused(tmp_path, matrices):
    X, Y = matrices
    good = tmp_path / "X.npz"
    sparse.save_npz(good, X)
    other = tmp_path / "Y.npz"
    with pytest.raises(InputError, match=r"Y\.npz: no such file"):
        load(f"{good},{other}")
    with pytest.raises(InputError, match="give both files as"):
        load(good)
    for content in (b"", b"PK\x03\x04", b"junk" * 50, good.read_bytes()[:200]):
        other.write_bytes(content)
        with pytest.raises(InputError, match=r"Y\.npz: not a sparse matrix"):
            load(f"{good},{other}")
    np.savez(other, a=np.arange(3))
    with pytest.raises(InputError, match=r"Y\.npz: not a sparse matrix"):
        load(f"{good},{other}")
    sparse.save_npz(other, Y[:7])
    with pytest.raises(InputError, match="X has 20 rows and Y has 7"):
        load(f"{good},{other}")
    sparse.save_npz(other, X)
    with pytest.raises(InputError, match="expected 1 for a label"):
        load(f"{good},{other}")


def test_every_form_of_one_data_set_has_one_digest(tmp_path, matrices):
    dataset = Dataset(*matrices)
    write_store(dataset, tmp_path / "store")
    write_xmc(dataset, tmp_path / "a.txt.gz")
    pair = f"{tmp_path}/X.npz,{tmp_path}/Y.npz"
    NumpyFiles().write(dataset, pair)
    forms = [tmp_path / "store", tmp_path / "a.txt.gz", pair]
    assert {load(form).digest for form in forms} == {dataset.digest}
    for form in forms:
        Y, names, n_unknown = load_labels(form, n_labels=5)
        assert (Y != dataset.Y).nnz == 0
        assert names is None
        assert n_unknown == 0
        with pytest.raises(InputError, match="has 5 labels; the training set has 6"):
            load_labels(form, n_labels=6)


def test_labels_are_matched_by_name_whatever_their_order(tmp_path, matrices):
    X, Y = matrices
    train = Dataset(X, Y[:, :3], label_names=["x", "y", "z"])
    write_store(Dataset(X, Y, label_names=["z", "new", "x", "newer", "y"]), tmp_path / "test")
    test = load(tmp_path / "test", like=train)
    assert test.label_names == ["x", "y", "z"]
    assert test.Y.toarray().tolist() == Y[:, [2, 4, 0]].toarray().tolist()
    assert test.n_unknown_labels == Y[:, [1, 3]].nnz
    assert test.Y.has_canonical_format
    test.Y.check_format(full_check=True)
    Y_only, _, n_unknown = load_labels(tmp_path / "test", like_names=["x", "y", "z"])
    assert (Y_only != test.Y).nnz == 0
    assert n_unknown == test.n_unknown_labels
    kept, all_names, n_unknown = load_labels(tmp_path / "test", like_names=["x", "y", "z"], keep_unknown=True)
    assert (all_names[:3], n_unknown) == (["x", "y", "z"], 0)
    assert (kept[:, :3] != Y_only).nnz == 0
    assert kept.nnz == Y_only.nnz + test.n_unknown_labels


def test_names_that_are_not_unique_cannot_be_matched(tmp_path, matrices):
    X, Y = matrices
    write_store(Dataset(X, Y, label_names=["a", "a", "b", "c", "d"]), tmp_path / "test")
    with pytest.raises(InputError, match="two of its labels have the same name"):
        load_labels(tmp_path / "test", like_names=["a", "b"])
    with pytest.raises(InputError, match="not unique"):
        load_labels(tmp_path / "test", like_names=["a", "a"])


def test_a_test_set_that_does_not_fit_is_refused(tmp_path, matrices):
    X, Y = matrices
    write_xmc(Dataset(X, Y), tmp_path / "a.txt")
    with pytest.raises(InputError, match="has 9 features; the training set has 8"):
        load(tmp_path / "a.txt", like=Dataset(X[:, :8], Y))
    with pytest.raises(InputError, match="has 5 labels; the training set has 4"):
        load(tmp_path / "a.txt", like=Dataset(X, Y[:, :4]))
    write_store(Dataset(X, Y, feature_names=list("abcdefghi")), tmp_path / "store")
    with pytest.raises(InputError, match="other names"):
        load(tmp_path / "store", like=Dataset(X, Y, feature_names=list("ihgfedcba")))
    with pytest.raises(InputError, match="were not made from text"):
        load(write_lines(tmp_path / "a.jsonl", TRAIN), like=Dataset(X, Y))


def test_a_headerless_test_file_takes_its_sizes_from_the_training_set(tmp_path, matrices):
    (tmp_path / "a.txt").write_text("0 0:1\n")
    dataset = load(tmp_path / "a.txt", like=Dataset(*matrices), header=False)
    assert dataset.X.shape == (1, 9)
    assert dataset.Y.shape == (1, 5)


def test_what_cannot_be_a_data_set_is_refused_with_advice(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        load(tmp_path / "none")
    (tmp_path / "train.txt.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"not a store.*did you mean one of its files: train\.txt\.gz"):
        load(tmp_path)
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(InputError, match="cannot tell the format by the name; expected a store folder"):
        load(tmp_path / "a.docx")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(b"x")
    with pytest.raises(InputError, match="idx file"):
        load(tmp_path / "t10k-labels-idx1-ubyte.gz")
    with pytest.raises(InputError, match="idx files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"text": "a", "labels": ["x"], "text": "b"}', "the key 'text' stands twice"),
        ('{"text": "a", "labels": [' + "1" * 5000 + "]}", "digits"),
        ('{"text": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_could_be_read_in_two_ways_is_refused_with_its_line(tmp_path, line, what):
    (tmp_path / "a.jsonl").write_text('{"text": "a b", "labels": ["x"]}\n' + line + "\n")
    with pytest.raises(InputError, match=rf"a\.jsonl:2: expected a JSON object: .*{what}"):
        load(tmp_path / "a.jsonl")
