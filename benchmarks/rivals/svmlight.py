"""scikit-learn's reader of svmlight files: the same lines as XMC text, without the header."""

import os
from typing import Any

import numpy as np


def read(path: str | os.PathLike[str]) -> Any:
    """Read X and the rows' label lists."""
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(os.fspath(path), multilabel=True, dtype=np.float32, zero_based=True)
