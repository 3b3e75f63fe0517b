"""PECOS's label tree in an environment of its own: trained, then queried for five labels, one thread, a beam of 10."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

BEAM = 10

_SCRIPT = """
import json, sys, time
import numpy as np, scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
folder, beam = sys.argv[1], int(sys.argv[2])
X, Y, X_test = (sp.load_npz(f"{folder}/{name}.npz").astype(np.float32) for name in ("X", "Y", "X_test"))
begin = time.perf_counter()
tree = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
clustered = time.perf_counter()
model = XLinearModel.train(X, Y, C=tree)
trained = time.perf_counter()
model.save(folder + "/model")
model = XLinearModel.load(folder + "/model", is_predict_only=True)
def rank(rows):
    begin = time.process_time()
    found = model.predict(rows, only_topk=5, beam_size=beam, threads=1)
    return time.process_time() - begin, found
rank(X_test[:64])
seconds, found = rank(X_test)
single_row = [rank(X_test[row])[0] for row in range(min(200, X_test.shape[0]))]
first = np.array([row.indices[row.data.argmax()] if row.nnz else -1 for row in found]).tolist()
out = {"training": trained - begin, "clustering": clustered - begin, "first": first,
       "rows": X_test.shape[0] / seconds, "single_row": 1e3 * float(np.median(single_row))}
json.dump(out, open(folder + "/out.json", "w"))
"""


@dataclass(frozen=True)
class Tree:
    """One turn: seconds of training on all cores, of clustering in it, rows a second, ms for a document, P@1."""

    training: float
    clustering: float
    rows: float
    single_row: float
    precision: float


@contextmanager
def pecos_tree(python: str, X: Any, Y: Any, X_test: Any, Y_test: Any) -> Iterator[Callable[[], Tree]]:
    """Give a function that trains and asks a tree each time it is called; the matrices are written once."""
    with tempfile.TemporaryDirectory() as folder:
        for name, matrix in (("X", X), ("Y", Y), ("X_test", X_test)):
            sp.save_npz(f"{folder}/{name}.npz", sp.csr_matrix(matrix), compressed=False)

        def turn() -> Tree:
            command = [python, "-c", _SCRIPT, folder, str(BEAM)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            out = json.loads(Path(folder, "out.json").read_text())
            first = out.pop("first")
            hits = sp.csr_matrix(Y_test)[np.arange(len(first)), first]
            return Tree(**out, precision=float(np.mean(np.asarray(hits) > 0)))

        yield turn
