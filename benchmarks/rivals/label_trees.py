"""Label trees of others, each in an environment of its own: PECOS, omikuji and napkinXC, with their own defaults."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

_COMMON = """
import json, os, sys, time
import numpy as np, scipy.sparse as sp
folder, threads = sys.argv[1], int(sys.argv[2])
X, Y, X_test = (sp.load_npz(f"{folder}/{name}.npz").astype(np.float32) for name in ("X", "Y", "X_test"))
def size(path):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
def done(top, training, predicting, n_rows):
    seconds, processor = training
    out = {"top": top, "seconds": seconds, "processor": processor, "rows": n_rows / predicting,
           "bytes": size(folder + "/model")}
    json.dump(out, open(folder + "/out.json", "w"))
"""
_SCRIPTS = {
    "PECOS, 1 tree": """
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
begin, processor = time.perf_counter(), time.process_time()
tree = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
model = XLinearModel.train(X, Y, C=tree, threads=threads)
training = time.perf_counter() - begin, time.process_time() - processor
model.save(folder + "/model")
model = XLinearModel.load(folder + "/model", is_predict_only=True)
model.predict(X_test[:64], only_topk=5, beam_size=10, threads=1)
seconds = []
for _ in range(3):
    begin = time.process_time()
    found = model.predict(X_test, only_topk=5, beam_size=10, threads=1)
    seconds.append(time.process_time() - begin)
top = [row.indices[np.argsort(-row.data, kind="stable")].tolist() for row in found]
done(top, training, min(seconds), X_test.shape[0])
""",
    "omikuji, 3 trees": """
import omikuji
with open(folder + "/train.txt", "w") as out:
    out.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\\n")
    for row in range(X.shape[0]):
        x, y = X[row], Y[row]
        entries = " ".join(f"{j}:{v:.7g}" for j, v in zip(x.indices, x.data))
        out.write(",".join(map(str, y.indices)) + " " + entries + "\\n")
begin, processor = time.perf_counter(), time.process_time()
model = omikuji.Model.train_on_data(folder + "/train.txt", n_threads=threads)
training = time.perf_counter() - begin, time.process_time() - processor
model.save(folder + "/model")
some = min(1000, X_test.shape[0])
rows = [list(zip(X_test[i].indices.tolist(), X_test[i].data.tolist())) for i in range(X_test.shape[0])]
begin = time.process_time()
top = [[int(label) for label, _ in model.predict(row, beam_size=10, top_k=5)] for row in rows[:some]]
predicting = time.process_time() - begin
top += [[int(label) for label, _ in model.predict(row, beam_size=10, top_k=5)] for row in rows[some:]]
done(top, training, predicting, some)
""",
    "napkinXC PLT, 1 tree": """
from napkinxc.models import PLT
labels = [Y[i].indices.tolist() for i in range(Y.shape[0])]
model = PLT(folder + "/model", threads=threads, seed=0)
begin, processor = time.perf_counter(), time.process_time()
model.fit(X, labels)
training = time.perf_counter() - begin, time.process_time() - processor
model = PLT(folder + "/model", threads=1)
model.load()
begin = time.process_time()
top = [list(map(int, row)) for row in model.predict(X_test, top_k=5)]
done(top, training, time.process_time() - begin, X_test.shape[0])
""",
}


class Rival(NamedTuple):
    """What another program reached: its five best labels, wall and processor seconds of training, and its speed."""

    top: Any
    seconds: float
    processor: float
    rows: float
    bytes: int


def run_rival(name: str, python: str, X: Any, Y: Any, X_test: Any, threads: int = 2) -> Rival:
    """Train and ask another program; clustering is part of its training, loading from text of omikuji's too."""
    with tempfile.TemporaryDirectory() as folder:
        for file, matrix in (("X", X), ("Y", Y), ("X_test", X_test)):
            sp.save_npz(f"{folder}/{file}.npz", sp.csr_matrix(matrix), compressed=False)
        script = _COMMON + _SCRIPTS[name]
        done = subprocess.run([python, "-c", script, folder, str(threads)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr.strip()[-2000:]}")
        out = json.loads(Path(folder, "out.json").read_text())
    top = np.full((len(out["top"]), 5), -1)
    for row, labels in enumerate(out["top"]):
        top[row, : len(labels)] = labels
    return Rival(top, out["seconds"], out["processor"], out["rows"], out["bytes"])
