import json
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.propensity import (
    Constant,
    FlattenedJain,
    FromTable,
    Jain,
    as_propensity,
    default_propensity,
    describe,
    estimate_parts,
    estimate_range,
    from_description,
    parse,
)

jains = st.builds(Jain, a=st.floats(0, 3), b=st.floats(0.05, 10))
sizes = st.integers(3, 10**7)


@st.composite
def counted(draw):
    n_samples = draw(sizes)
    counts = draw(st.lists(st.integers(0, n_samples), max_size=20))
    return np.array(counts, dtype=np.int64), n_samples


@given(jains, counted())
def test_jain_propensities_are_probabilities_above_zero(model, case):
    counts, n_samples = case
    p = model.estimate(counts, n_samples)
    assert p.dtype == np.float64
    assert p.shape == counts.shape
    assert ((p > 0) & (p <= 1)).all()


@given(jains, counted())
def test_more_positives_never_lower_the_propensity(model, case):
    counts, n_samples = case
    p = model.estimate(np.sort(counts), n_samples)
    assert (np.diff(p) >= -1e-14).all()


@pytest.mark.parametrize(
    ("count", "n_samples", "a", "b"), [(0, 3, 0.55, 1.5), (1, 15_539, 0.55, 1.5), (37, 490_449, 0.6, 2.6)]
)
def test_jain_matches_its_formula(count, n_samples, a, b):
    K = (log(n_samples) - 1) * (b + 1) ** a
    inverse = 1 + K * (count + b) ** -a
    assert Jain(a, b).estimate([count], n_samples)[0] == pytest.approx(1 / inverse, rel=1e-14)


def test_a_label_with_one_positive_has_the_propensity_one_over_ln_n():
    assert Jain().estimate([1], 1000)[0] == pytest.approx(1 / log(1000), rel=1e-14)


def test_labels_without_positives_have_the_smallest_propensity_and_not_zero():
    p = Jain().estimate([0, 1, 2], 100)
    assert 0 < p[0] < p[1] < p[2]


def test_flattened_odds_lie_between_those_of_a_constant_and_those_of_jain():
    counts = np.array([1, 5, 60, 900])
    jain = Jain().estimate(counts, 1000)
    np.testing.assert_allclose(FlattenedJain(0.0).estimate(counts, 1000), 0.6)
    np.testing.assert_allclose(FlattenedJain(1.0).estimate(counts, 1000), jain)
    odds = [1 / p - 1 for p in (np.full(4, 0.6), FlattenedJain().estimate(counts, 1000), jain)]
    np.testing.assert_allclose(np.log(odds[1]), 0.875 * np.log(odds[0]) + 0.125 * np.log(odds[2]))


@pytest.mark.parametrize("n_samples", [0, 1, 2])
def test_too_few_rows_for_the_formula_are_rejected_with_the_reason(n_samples):
    with pytest.raises(InputError, match=r"too few for the jain propensity model, which needs 3"):
        Jain().estimate([0], n_samples)


@pytest.mark.parametrize(("a", "b"), [(-0.1, 1), (0.5, 0), (0.5, -1), (float("nan"), 1), (0.5, float("inf"))])
def test_parameters_out_of_range_are_rejected(a, b):
    with pytest.raises(InputError, match=r"jain propensity: [ab] must be"):
        Jain(a, b)


def test_a_propensity_that_underflows_to_zero_is_rejected():
    with pytest.raises(InputError, match="propensity of 0"):
        Jain(1000.0, 1e-3).estimate([0], 100)
    with pytest.raises(InputError, match="propensity of 0"):
        Jain(1000.0, 1e-3).estimate([0, 100], 100)  # the other label's is 1


@pytest.mark.parametrize("counts", [[-1], [11], [float("nan")]])
def test_counts_out_of_range_are_rejected(counts):
    for model in (Jain(), Constant(0.5), FromTable([0.5])):
        with pytest.raises(InputError, match="label 0 has the count"):
            model.estimate(counts, 10)


def test_counts_of_another_shape_are_rejected():
    for model in (Jain(), Constant(0.5)):
        with pytest.raises(InputError, match=r"one number per label, not an array of shape \(1, 2\)"):
            model.estimate([[1, 2]], 10)


@pytest.mark.parametrize("p", [0, -0.5, 1.5, float("nan")])
def test_constant_rejects_values_outside_its_interval(p):
    with pytest.raises(InputError, match="constant propensity"):
        Constant(p)


def test_constant_gives_every_label_the_same():
    assert Constant(0.25).estimate([0, 3, 9], 10).tolist() == [0.25] * 3


def test_a_table_comes_from_values_from_text_and_from_npy(tmp_path):
    values = [0.5, 1.0, 0.125]
    (tmp_path / "p.txt").write_text("0.5\n1\n1.25e-1\n")
    np.save(tmp_path / "p.npy", np.array(values))
    models = [FromTable(values), FromTable(tmp_path / "p.txt"), FromTable(str(tmp_path / "p.npy"))]
    for model in models:
        assert model.estimate([1, 2, 3], 10).tolist() == values
    assert len(set(models)) == 1
    assert [model.source for model in models] == ["", str(tmp_path / "p.txt"), str(tmp_path / "p.npy")]
    assert FromTable([0.5]) != FromTable([0.25])


def test_a_table_cannot_be_changed_through_its_estimate():
    model = FromTable([0.5])
    model.estimate([1], 3)[0] = 1.0
    assert model.estimate([1], 3).tolist() == [0.5]
    with pytest.raises(ValueError, match="read-only"):
        model.values[0] = 1.0


def test_a_table_of_another_length_is_rejected():
    with pytest.raises(InputError, match="has 1 labels, the data has 2"):
        FromTable([0.5]).estimate([1, 1], 10)


def test_the_error_for_a_table_of_inverse_propensities_suggests_the_inverse():
    with pytest.raises(InputError, match=r"label 1 .* 3;.*inverse"):
        FromTable([1.0, 3.0])


def test_a_bad_table_file_is_rejected_with_its_line(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("0.5\nhalf\n")
    with pytest.raises(InputError, match=r"line 2.*'half'"):
        FromTable(path)
    with pytest.raises(InputError, match="no such file"):
        FromTable(tmp_path / "none.txt")
    (tmp_path / "p.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="not a table"):
        FromTable(tmp_path / "p.npy")


@pytest.mark.parametrize(
    ("given", "model"),
    [
        (None, Jain()),
        (Jain(0.6, 2.6), Jain(0.6, 2.6)),
        ("jain", Jain()),
        ("jain:0.5,0.4", Jain(0.5, 0.4)),
        ("constant:0.5", Constant(0.5)),
        (0.5, Constant(0.5)),
        (1, Constant(1.0)),
        (np.float32(0.5), Constant(0.5)),
        (np.array(0.5), Constant(0.5)),
        ([0.5, 1.0], FromTable([0.5, 1.0])),
        (np.array([0.5, 1.0], np.float32), FromTable([0.5, 1.0])),
    ],
)
def test_strings_numbers_and_arrays_specify_a_model(given, model):
    assert as_propensity(given) == model


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("jane", "unknown propensity 'jane'; expected jain, "),
        (Jain, r"is the class Jain; give an object, such as Jain\(\)"),
        (1.5, r"the propensity is 1.5; it must lie in \(0, 1\]"),
        ([0.5, 0.0], "label 1 has the propensity 0"),
        ([[0.5]], "one propensity per label was expected"),
        ([[0.5], [0.5, 1.0]], "propensity is .*; expected a model such as"),
        ({"a": 1}, "propensity is {'a': 1}; expected a model such as"),
        (["a"], r"propensity is \['a'\]; expected a model such as"),
    ],
)
def test_invalid_specifications_are_rejected_in_one_line(given, what):
    with pytest.raises(InputError, match=what) as found:
        as_propensity(given)
    assert "\n" not in str(found.value)


def test_the_default_model_is_jain_with_its_usual_constants():
    assert default_propensity() == Jain() == Jain(0.55, 1.5) == parse("jain")


def test_labels_counted_in_parts_get_the_propensities_of_their_own_part():
    counts = [3, 0, 7, 2]
    p = estimate_parts(Jain(), counts, [(3, 100), (1, 10)])
    np.testing.assert_array_equal(p, [*Jain().estimate(counts[:3], 100), *Jain().estimate(counts[3:], 10)])
    assert estimate_parts(Constant(0.5), counts, [(1, 10), (2, 10), (1, 10)]).tolist() == [0.5] * 4
    assert estimate_parts(Jain(), [], []).tolist() == []


def test_a_table_serves_all_parts_at_once_and_any_range_of_its_labels():
    table = FromTable([0.1, 0.2, 0.3, 0.4])
    assert estimate_parts(table, [3, 0, 7, 2], [(3, 100), (1, 10)]).tolist() == [0.1, 0.2, 0.3, 0.4]
    assert estimate_range(table, [7], 10, 2).tolist() == [0.3]
    assert estimate_range(Jain(), [7], 10, 2).tolist() == Jain().estimate([7], 10).tolist()
    with pytest.raises(InputError, match="has 4 labels, but labels 3 to 4 are needed"):
        estimate_range(table, [7, 1], 10, 3)


@pytest.mark.parametrize("size", [3, 5])
def test_a_table_of_another_length_than_all_parts_is_rejected(size):
    with pytest.raises(InputError, match=f"has {size} labels, the data has 4"):
        estimate_parts(FromTable(np.full(size, 0.5)), [1, 1, 1, 1], [(2, 10), (2, 10)])


def test_parts_that_do_not_fit_the_counts_are_rejected():
    with pytest.raises(InputError, match=r"shape \(3,\); the parts have 4 labels together"):
        estimate_parts(Jain(), [1, 1, 1], [(2, 10), (2, 10)])
    with pytest.raises(InputError, match="label 1 has the count 11"):
        estimate_parts(Jain(), [20, 11, 1], [(1, 20), (2, 10)])


def test_strings_specify_models(tmp_path):
    (tmp_path / "p.txt").write_text("1\n")
    assert parse("jain") == Jain()
    assert parse("jain:0.6,2.6") == Jain(0.6, 2.6)
    assert parse("flattened-jain") == FlattenedJain()
    assert parse("flattened-jain:0.3") == FlattenedJain(0.3)
    assert parse("constant:0.5") == Constant(0.5)
    assert parse(f"table:{tmp_path / 'p.txt'}") == FromTable([1.0])


@pytest.mark.parametrize(
    "spec", ["", "jane", "jain:1", "flattened-jain:2", "jain:1,2,3", "jain:a,b", "constant", "constant:", "table:"]
)
def test_unknown_strings_are_rejected(spec):
    with pytest.raises(InputError, match="propensity"):
        parse(spec)


@pytest.mark.parametrize("model", [Jain(0.6, 2.6), FlattenedJain(0.3), Constant(0.5), FromTable([0.1, 1 / 3])])
def test_a_description_round_trips_through_json(model):
    assert from_description(json.loads(json.dumps(describe(model)))) == model


def test_an_unknown_model_cannot_be_described():
    with pytest.raises(InputError, match="int is not a propensity model that can be described"):
        describe(3)


@pytest.mark.parametrize("description", [{}, {"model": "jane"}, {"model": "jain", "c": 1}])
def test_an_unknown_description_is_rejected(description):
    with pytest.raises(InputError, match="propensity model"):
        from_description(description)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x02\x00{}", b"0.5\n"])
def test_a_damaged_table_of_numbers_is_rejected_by_its_name(tmp_path, content):
    (tmp_path / "p.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"p\.npy: not a table of propensities"):
        FromTable(tmp_path / "p.npy")


def test_empty_tables_and_tables_of_strings_are_rejected(tmp_path):
    np.save(tmp_path / "p.npy", np.zeros(0))
    (tmp_path / "p.txt").write_text("")
    for name in ("p.npy", "p.txt"):
        with pytest.raises(InputError, match=rf"{name}: one propensity per label"):
            FromTable(tmp_path / name)
    np.save(tmp_path / "p.npy", np.array(["0.5"]))
    with pytest.raises(InputError, match="it holds <U3"):
        FromTable(tmp_path / "p.npy")


@pytest.mark.parametrize(
    "description",
    [
        {"model": "table", "values": "/etc/passwd"},
        {"model": "table", "values": [[0.5], [0.5, 0.5]]},
        {"model": "table", "values": [10**400]},
        {"model": "table", "values": ["a"]},
        {"model": "table", "values": None},
        {"model": "jain", "a": 10**400},
        {"model": "jain", "a": "1"},
        {"model": ["jain"]},
        {"model": {}},
        "jain",
        None,
        7,
    ],
)
def test_a_description_from_outside_opens_no_file_and_fails_in_one_line(description):
    with pytest.raises(InputError, match="propensit"):
        from_description(description)
