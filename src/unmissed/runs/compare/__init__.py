"""Comparison of several methods on one data set.

Start with `comparison.py` (compare). `method_specs.py` parses methods with parameters, `trials.py` trains and ranks
with one method in its own process, `earlier.py` adds methods of earlier comparisons in the same folder,
`paper_comparison.py` compares with the figures and claims of the paper.
"""
