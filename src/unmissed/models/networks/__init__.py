"""Neural networks over sparse, dense or mixed features, with losses for missing labels.

`estimator.py` has the model `NeuralXMC`, `layers.py` its weights and their use in ranking, which needs no PyTorch;
`epochs.py` trains and is the only module that imports PyTorch.
"""
