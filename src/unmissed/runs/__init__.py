"""The verbs: train, predict, evaluate, and the folder that they leave behind."""

from unmissed.runs.prediction import predict
from unmissed.runs.recipe import Recipe
from unmissed.runs.run import Run, load_model, open_run
from unmissed.runs.training import extend, save, train
from unmissed.runs.updating import update

__all__ = ["Recipe", "Run", "extend", "load_model", "open_run", "predict", "save", "train", "update"]
