"""PD-Sparse: one max-margin problem over all labels with an elastic-net penalty.

Start with `estimator` (parameters, early stopping, saved states) and `solver` (epochs of dual coordinate ascent, the
duality gap). `kernels` has the compiled updates of one row and the hash table of the dual's primal image.
"""
