"""PPD-Sparse: one-vs-rest classifiers with hinge or squared hinge loss and an elastic-net penalty.

Start with `estimator` (parameters) and `solver` (the problem of a block of labels). `hinge_label` has the loop for one
label: dual coordinate ascent over a working set of rows (`hinge_ascent`), then the duality gap over all rows
(`hinge_certificate`).
"""
