"""ProXML: one-vs-rest classifiers with squared hinge loss and l1 penalty.

Start with `estimator` (parameters) and `solver` (the problem of a block of labels). `l1_label` has the loop for one
label: it solves over a small working set (`working_set`) by coordinate descent (`coordinate_descent`) and Newton steps
(`newton_face`), then computes the loss, gradient and duality gap over all rows (`full_pass`).
"""
