"""Compiled building blocks that several model families share. They import nothing of this package but `_jit`.

Start with `simd` (row times weight matrix in vector registers), then `packed_rows` (one row, one label), `float64_sums`
(exact sums for certificates), `dense_rows`, `csr`, `transpose`, `topk`, `bitset`, `prefetch`, `shrinkage` and
`workspace`.

Terms that all kernels use:

lane : one of the LANES labels that a kernel handles at a time; element l of a vector belongs to lane l
line : the weights of one feature for all lanes, contiguous in memory; a cache line is always called a cache line
tile : the lines of all features for one group of lanes, a dense (n_features, lanes) matrix
chunk : several tiles whose labels have a similar number of weights and that are scanned together
"""
