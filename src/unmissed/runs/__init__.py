"""The verbs: train, predict, evaluate, and the folder that they leave behind."""

from unmissed.runs.prediction import predict
from unmissed.runs.recipe import METHODS, Recipe
from unmissed.runs.run import Run, open_run
from unmissed.runs.training import extend, save, train

__all__ = ["METHODS", "Recipe", "Run", "extend", "open_run", "predict", "save", "train"]
