"""Estimator: what scikit-learn asks of an estimator, kept so that ranking does not have to import scikit-learn.

Importing `sklearn.base` takes longer than everything else that a prediction does. `clone`, `Pipeline` and
`GridSearchCV` ask for `get_params`, `set_params` and tags, and find them here.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from unmissed.errors import InputError
from unmissed.propensity import as_propensity


class Estimator:
    """Parameters by name, as scikit-learn handles them; `propensity__a` names a field of the propensity model."""

    _estimator_type = "classifier"  # what scikit-learn before 1.6 looks for

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the constructor's parameters, sorted."""
        if cls.__init__ is object.__init__:
            return []
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` also the fields of parameters that have any, as `name__field`."""
        params = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(params.items()):
                if is_dataclass(value) and not isinstance(value, type):
                    params |= {f"{name}__{one.name}": getattr(value, one.name) for one in fields(value)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a propensity model as `propensity__a`; an unknown name is refused."""
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
        """Return a model of the same parameters that has learned nothing; what scikit-learn's `clone` does."""
        return type(self)(**self.get_params(deep=False))

    def _with_field(self, name: str, field: str, value: Any) -> Any:
        """Return a parameter with one of its own fields changed."""
        held = getattr(self, name)
        if name == "propensity":
            held = as_propensity(held)
        if not is_dataclass(held) or isinstance(held, type) or field not in {one.name for one in fields(held)}:
            raise InputError(f"{name} of this {type(self).__name__} has no parameter {field!r}")
        return replace(held, **{field: value})

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        told = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _equal(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(told)})"

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this is a multi-label classifier that takes sparse rows."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True, single_output=False),
            classifier_tags=ClassifierTags(multi_class=False, multi_label=True),
            input_tags=InputTags(sparse=True),
        )


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
