"""Linear models: one sparse weight vector and bias per label, score = w.x + b.

Each method has its folder with estimator, solver and kernels: `dismec` (l2, squared hinge), `proxml` (l1, squared
hinge), `ppd_sparse` (elastic net, hinge), `pd_sparse` (one max-margin problem over all labels). `ranking` finds the
highest-scoring labels exactly. Start with `linear_model` (what a fitted model does), then `one_vs_rest` (training in
blocks of labels); `design` has the memory layout of X, `shard` that of the weights, `certificate` the duality gap.
"""
