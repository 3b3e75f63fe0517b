"""Studies: the paper's tables and figures, the demo, and simulations of missing labels.

`paper.py` reproduces the whole paper from `loss_sketch.py` (loss curves), `mnist.py` (a network under six losses, with
`network.py` and `idx.py`) and comparisons of methods. `demo_study.py` is `unmissed demo`. `missing_labels.py` simulates
missing labels on a real data set, with `estimates.py`. `*_report.py` run a study and render its report.
"""
