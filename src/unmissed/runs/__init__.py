"""Runs: trained models in folders, and the operations on them.

Start with `training.py` (train, extend, save) and `run.py` (an opened run: rank, suggest). `run_folder.py` has the
layout and the locks of a folder, `recipe.py` the method and its parameters. `prediction.py` ranks files,
`calibrating.py` makes probabilities, `measurement.py` evaluates rankings, `updating.py` retrains with new rows,
`combining.py` makes ensembles, `tuning.py` selects parameters, `planning.py` estimates costs, `inspection.py`
summarizes a run. `compare/` trains and compares several methods.
"""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.runs.calibrating import calibrate
    from unmissed.runs.combining import combine
    from unmissed.runs.prediction import predict
    from unmissed.runs.recipe import Recipe
    from unmissed.runs.run import Run, load_model, open_run
    from unmissed.runs.training import extend, save, train
    from unmissed.runs.updating import update

_PUBLIC = {
    "Recipe": "recipe",
    "Run": "run",
    "calibrate": "calibrating",
    "combine": "combining",
    "extend": "training",
    "load_model": "run",
    "open_run": "run",
    "predict": "prediction",
    "save": "training",
    "train": "training",
    "update": "updating",
}
__all__ = [
    "Recipe",
    "Run",
    "calibrate",
    "combine",
    "extend",
    "load_model",
    "open_run",
    "predict",
    "save",
    "train",
    "update",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
