"""Exact top-k ranking with one-vs-rest linear models.

Start with `ranker.Ranker`. It merges labels into each row's `top_labels`. A few rows are scored directly
(`exact_scores`, kernels in `tiles`). For many rows it makes a `ranker.QuantizedScan`: `layout` lays the weights out in
`chunks`, `kept_layout` keeps that on disk, `scan` computes quantized scores with error bounds (inner loop in `int8`),
and `candidates` scores the remaining candidates exactly. `rescoring` scores the candidates that another model proposes.
`dense_scores` adds the products of dense features, by BLAS with error bounds (kernels in `dense_products`). All paths
return the same scores, bit for bit.
"""
