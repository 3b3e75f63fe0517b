"""PECOS's label tree in an environment of its own: trained, then asked for five labels, one thread, a beam of 10."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

_SCRIPT = """
import json, sys, time
import numpy as np, scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
folder = sys.argv[1]
X, Y, X_test = (sp.load_npz(f"{folder}/{name}.npz").astype(np.float32) for name in ("X", "Y", "X_test"))
tree = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
begin = time.perf_counter()
model = XLinearModel.train(X, Y, C=tree)
training = time.perf_counter() - begin
model.save(folder + "/model")
model = XLinearModel.load(folder + "/model", is_predict_only=True)
model.predict(X_test[:64], only_topk=5, beam_size=10, threads=1)
seconds = []
for _ in range(3):
    begin = time.process_time()
    found = model.predict(X_test, only_topk=5, beam_size=10, threads=1)
    seconds.append(time.process_time() - begin)
first = np.array([row.indices[row.data.argmax()] if row.nnz else -1 for row in found]).tolist()
out = {"training": training, "rows": X_test.shape[0] / min(seconds), "first": first}
json.dump(out, open(folder + "/out.json", "w"))
"""


def pecos_tree(python: str, X: Any, Y: Any, X_test: Any, Y_test: Any) -> tuple[float, float, float]:
    """Return rows ranked a second, the seconds of training on all cores, and P@1."""
    with tempfile.TemporaryDirectory() as folder:
        for name, matrix in (("X", X), ("Y", Y), ("X_test", X_test)):
            sp.save_npz(f"{folder}/{name}.npz", sp.csr_matrix(matrix), compressed=False)
        subprocess.run([python, "-c", _SCRIPT, folder], check=True, stdout=subprocess.DEVNULL)
        out = json.loads(Path(folder, "out.json").read_text())
    hits = sp.csr_matrix(Y_test)[np.arange(len(out["first"])), out["first"]]
    return out["rows"], out["training"], float(np.mean(np.asarray(hits) > 0))
