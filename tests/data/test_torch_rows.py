"""Rows as a PyTorch data set: batches have the rows' features and labels, also from a memory-mapped store."""

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from unmissed.data import Dataset, open_store, write_store  # noqa: E402
from unmissed.data.torch_rows import RowDataset, collate_rows  # noqa: E402


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_batches_have_the_features_and_labels_of_a_store(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random(9, 6, 0.4, format="csr", dtype=np.float32, random_state=rng)
    dense = rng.normal(size=(9, 2)).astype(np.float32)
    Y = sp.csr_matrix((rng.random((9, 5)) < 0.3).astype(np.float32))
    parts = {"X": None if kind == "dense" else X, "dense": None if kind == "sparse" else dense}
    write_store(Dataset(Y=Y, **parts), tmp_path / "store")
    rows = RowDataset(open_store(tmp_path / "store"))
    table = torch.randn(6, 3)
    seen = 0
    for batch in DataLoader(rows, batch_size=4, collate_fn=collate_rows):
        part = slice(seen, seen + len(batch.target))
        if kind != "dense":
            found = torch.nn.functional.embedding_bag(
                batch.features, table, batch.offsets, mode="sum", per_sample_weights=batch.values
            )
            torch.testing.assert_close(found, torch.tensor(X[part].toarray()) @ table)
        assert np.array_equal(batch.dense, dense[part] if kind != "sparse" else np.empty((len(batch.target), 0)))
        present = [[label for label in row if label >= 0] for row in batch.target.tolist()]
        assert present == [Y[row].indices.tolist() for row in range(part.start, part.stop)]
        seen = part.stop
    assert seen == len(rows) == 9
    with pytest.raises(IndexError, match="row 9; there are 9 rows"):
        rows[9]
