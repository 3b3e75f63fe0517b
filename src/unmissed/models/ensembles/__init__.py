"""Ensembles: weighted means of the calibrated scores of several models.

Start with `estimator.py`, the estimator. `calibration.py` turns the scores of a member into probabilities, `fusion.py`
adds them up over the union of the members' lists, and `member_weights.py` chooses the weights on held-out rows.
"""
