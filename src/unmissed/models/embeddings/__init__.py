"""Embedding methods: LEML and SLEEC.

`leml/` factorizes the weight matrix of a linear model; `sleec/` learns local embeddings of rows and predicts by nearest
neighbors. Start with their `estimator.py`. This folder has what both share: products of sparse matrices with low-rank
factors (`products.py`, kernels in `low_rank.py`), ridge regression by conjugate gradient (`ridge.py`) and spherical
k-means (`kmeans.py`).
"""
