"""Bootstrap kernel: draw rows with replacement and sum their terms."""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel


@kernel()
def resample_sums(terms: npt.NDArray[Any], seeds: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
    """Fill `sums[r]` with the sum of n rows of `terms` (n, m), drawn with replacement by the r-th seed.

    The draws are counted per row first, so that `terms` is read sequentially. The generator is splitmix64. Its output
    depends on the seed alone, not on the version of numpy or on the number of seeds per call.
    """
    n_rows, n_terms = terms.shape
    counts = np.zeros(n_rows, dtype=np.int32)
    steps = np.uint64(0x9E3779B97F4A7C15) * np.arange(1, n_rows + 1).astype(np.uint64)
    first, second = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    for replicate in range(seeds.size):
        mixed = steps + seeds[replicate]  # array arithmetic: interpreted, scalars would warn of the overflow
        mixed = (mixed ^ (mixed >> np.uint64(30))) * first
        mixed = (mixed ^ (mixed >> np.uint64(27))) * second
        mixed = mixed ^ (mixed >> np.uint64(31))
        counts[:] = 0
        for draw in range(n_rows):
            counts[int(np.float64(mixed[draw] >> np.uint64(11)) * 2.0**-53 * n_rows)] += 1
        total = sums[replicate]
        total[:] = 0.0
        for row in range(n_rows):
            count = counts[row]
            if count > 0:
                for term in range(n_terms):
                    total[term] += count * terms[row, term]
