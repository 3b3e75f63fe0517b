"""Instance trees: FastXML, PfastXML and PfastreXML.

Each inner node splits its training rows by a sparse linear separator; each leaf keeps the most frequent labels of its
rows. `forest.py` has the common estimator (`InstanceForest`); start there. `growth.py` grows one tree with the compiled
code of `kernels.py` and `l1_logistic.py`. `voting.py` has the kernels of prediction.
"""
