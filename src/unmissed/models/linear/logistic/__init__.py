"""LogisticOVR: one-vs-rest logistic regression with the unbiased loss, a certificate and probabilities.

Start with `estimator` (the scikit-learn class), then `solver` (the problem, its certificate and the method). `kernels`
has the passes over X for LANES labels at a time, and Newton's method for the model of one label.
"""
