"""Estimator: scikit-learn's estimator interface without importing scikit-learn.

Importing `sklearn.base` takes longer than a whole prediction. `clone`, `Pipeline` and `GridSearchCV` need
`get_params`, `set_params` and tags, which this class defines.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from unmissed.errors import InputError
from unmissed.propensity import as_propensity


class Estimator:
    """Constructor parameters by name, as in scikit-learn; `propensity__a` is a field of the propensity model."""

    _estimator_type = "classifier"  # for scikit-learn before 1.6

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the constructor's parameters, sorted."""
        if cls.__init__ is object.__init__:
            return []
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` also the fields of dataclass parameters, as `name__field`."""
        params = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(params.items()):
                if is_dataclass(value) and not isinstance(value, type):
                    params |= {f"{name}__{one.name}": getattr(value, one.name) for one in fields(value)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, fields of a propensity model as `propensity__a`; raise for an unknown name."""
        known = self._get_param_names()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter {outer!r}; it has {', '.join(known) or 'none'}"
                )
            setattr(self, outer, self._with_field(outer, inner, value) if inner else value)
        return self

    def unfitted(self) -> Self:
        """Return an unfitted model with the same parameters, as scikit-learn's `clone` does."""
        return type(self)(**self.get_params(deep=False))

    def _with_field(self, name: str, field: str, value: Any) -> Any:
        """Return the value of a dataclass parameter with one field replaced."""
        held = getattr(self, name)
        if name == "propensity":
            held = as_propensity(held)
        if not is_dataclass(held) or isinstance(held, type) or field not in {one.name for one in fields(held)}:
            raise InputError(f"{name} of this {type(self).__name__} has no parameter {field!r}")
        return replace(held, **{field: value})

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _equal(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags of a multi-label classifier that accepts sparse X."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True, single_output=False),
            classifier_tags=ClassifierTags(multi_class=False, multi_label=True),
            input_tags=InputTags(sparse=True),
        )


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
