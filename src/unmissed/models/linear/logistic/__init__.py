"""LogisticOVR: one-vs-rest logistic regression with the unbiased loss, a certificate and probabilities."""
