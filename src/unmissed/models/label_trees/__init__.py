"""Label trees: Parabel and Bonsai.

Start with `label_tree.LabelTree`, the base class of `parabel.Parabel` and `bonsai.Bonsai`. Training has two steps:
`label_clusters` clusters the labels (kernels in `cluster_kernels`), and `node_solver` trains the classifiers of each
node (`node_kernels`, `node_certificate`). Prediction is a beam search: `beam_search` runs the kernels of `first_levels`
and `beam_kernels`. `tree_file` stores and loads trees; `tree_drawing` describes them.
"""
