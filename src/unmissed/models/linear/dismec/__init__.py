"""DiSMEC and PW-DiSMEC: one squared-hinge SVM per label, solved to a certified duality gap.

Start with `estimator` (the scikit-learn classes), then `solver` (outline of the algorithm) and `dual_ascent` (its
steps). `lane_ascent` sweeps over X for LANES labels at a time, `label_ascent` solves one label over its working set,
`newton` is the fallback. `passes`, `near_margin` and `rare_features` find violated rows in quantized arithmetic.
"""
