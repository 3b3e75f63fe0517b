"""scikit-learn's own checks: all pass but those listed here, each with its reason."""

import warnings

import pytest
import sklearn

from unmissed.models.method_registry import METHODS, find_model

estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")

ONE_OUTPUT = "labels are a matrix of 0 and 1; the check brings one class per row"
SPARSE = "predict gives a sparse matrix: rows times labels is never made dense"
WORDS = "refused in our own words"
NO_SCORES = "the model ranks and gives no score per row and label; the check calls predict without asking"

EXPECTED = {
    "check_n_features_in_after_fitting": WORDS,
    "check_estimators_dtypes": ONE_OUTPUT,
    "check_complex_data": WORDS,
    "check_dtype_object": "arrays of Python objects are refused, whatever is in them",
    "check_estimators_empty_data_messages": "no rows and no features are a matrix like any other",
    "check_classifier_data_not_an_array": ONE_OUTPUT,
    "check_classifiers_one_label": ONE_OUTPUT,
    "check_classifiers_classes": ONE_OUTPUT,
    "check_classifier_multioutput": SPARSE,
    "check_classifiers_train": SPARSE,
    "check_classifiers_regression_target": WORDS,
    "check_classifiers_multilabel_representation_invariance": SPARSE,
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifier_not_supporting_multiclass": WORDS,
    "check_fit2d_1feature": ONE_OUTPUT,
    "check_fit2d_predict1d": WORDS,
    "check_sample_weights_pandas_series": ONE_OUTPUT,
    "check_sample_weights_not_an_array": ONE_OUTPUT,
    "check_sample_weights_not_overwritten": ONE_OUTPUT,
    "check_sample_weights_shape": ONE_OUTPUT,
    "check_classifiers_one_label_sample_weights": ONE_OUTPUT,
}
WEIGHTED = ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"]
SKIPPED_WITHOUT_SCORES = {"check_classifiers_multilabel_output_format_predict", "check_fit2d_predict1d"}
WITH_SCORES = EXPECTED | dict.fromkeys(WEIGHTED, "the check shuffles rows, and the optimum is met within tol")
WITHOUT_SCORES = {
    **{name: reason for name, reason in EXPECTED.items() if name not in SKIPPED_WITHOUT_SCORES},
    **{name: NO_SCORES for name, reason in EXPECTED.items() if reason is SPARSE and name not in SKIPPED_WITHOUT_SCORES},
}
PROBABILITIES = dict.fromkeys(
    ["check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_decision_proba_consistency"],
    "predict_proba has one column per label; the check brings one class per row",
)


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9), reason="the list is that of scikit-learn 1.9"
)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_scikit_learns_checks_pass_but_for_those_listed_with_a_reason(method):
    cls = find_model(method)
    small = {"n_jobs": 1, "n_trees": 1, "max_alternations": 2}
    model = cls(**{name: value for name, value in small.items() if name in cls._get_param_names()})
    if not hasattr(model, "decision_function"):
        expected = WITHOUT_SCORES
    else:  # PD-Sparse keeps no weight on data as small as the check's
        expected = EXPECTED if method == "pd-sparse" else WITH_SCORES
    if hasattr(model, "predict_proba"):
        expected = expected | PROBABILITIES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(model, on_fail=None, on_skip=None)
    failed = {one["check_name"]: repr(one["exception"]) for one in results if one["status"] == "failed"}
    assert {name: said for name, said in failed.items() if name not in expected} == {}
    assert expected.keys() - failed.keys() == set(), "passes now; take it from the list"
