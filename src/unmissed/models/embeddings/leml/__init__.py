"""LEML: low-rank empirical risk minimization for multi-label learning (Yu et al., 2014).

`estimator.py` has the model; start there. `solver.py` alternates between the two factors. Its half steps are ridge
regressions (`../ridge.py`) for squared loss, or Newton-CG (`newton_factor.py`) on the losses of `entries.py`, whose
kernels are in `entry_losses.py`.
"""
