"""Slice: one-vs-rest on sampled negatives near each label, certified on the sample and measured on all rows.

`estimator.py` has the model, `sampled_solver.py` the solver, which uses the coordinate ascent and the exact passes of
DiSMEC, `near_rows.py` the search for negatives.
"""
