"""`unmissed train METHOD`: one command per method, with the estimator's parameters as options."""

import inspect
import re
import shlex
from collections.abc import Callable
from copy import copy
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from unmissed.cli.options import PROPENSITY_FORMS

if TYPE_CHECKING:
    from unmissed.models.base import Model
    from unmissed.models.parameters import Parameter

Handler = Callable[..., None]

FLAGS = {"n_jobs": "--jobs", "random_state": "--seed", "C": "--C"}
"""Options whose names differ from their parameters."""


class MethodCommands(TyperGroup):
    """The registered methods as commands, created on demand: listing them imports no estimator."""

    handler: Handler
    """The function that a command calls with the method, its parameters as a dict, and the handler's own options."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all methods."""
        from unmissed.models.method_registry import known_methods

        return list(known_methods())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a placeholder command with the method's name and summary, for the list of methods."""
        from unmissed.models.method_registry import known_methods

        method = known_methods().get(cmd_name)
        return None if method is None else _placeholder(cmd_name, method.summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        """Return the command of the method named by the first argument; raise InputError if it is unknown."""
        return args[0], make_command(args[0], type(self).handler), args[1:]


def make_command(method: str, handler: Handler) -> Any:
    """Return a command whose options are the handler's own and the parameters of a method."""
    from unmissed.models.method_registry import find_model
    from unmissed.models.parameters import parameters_of

    cls = find_model(method)
    parameters = parameters_of(cls)
    own = [one for one in inspect.signature(handler).parameters.values() if one.name not in ("method", "params")]
    own = [_hidden(one) if one.name == "paper" and not cls.paper_params else one for one in own]
    options = [_option(one) for one in parameters]
    positional = [one for one in own if one.default is inspect.Parameter.empty]
    optional = [one for one in own if one.default is not inspect.Parameter.empty]

    def call(**words: Any) -> None:
        params = {one.name: _value(one, words.pop(one.name)) for one in parameters}
        explicit = {name: value for name, value in params.items() if value is not _UNSET}
        handler(method=method, params=explicit, **words)

    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*positional, *options, *optional)]
    call.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in every}
    call.__doc__ = _help(method, cls, handler.__doc__ or "")
    single = typer.Typer(rich_markup_mode="rich", add_completion=False)
    single.command(name=method)(call)
    return typer.main.get_command(single)


_UNSET = object()


def flag_of(name: str) -> str:
    """Return the command-line option of a parameter."""
    return FLAGS.get(name, "--" + name.replace("_", "-")).partition("/")[0]


def option_words(method: str, params: dict[str, Any]) -> list[str]:
    """Return parameters of a method as command-line arguments."""
    from unmissed.models.method_registry import find_model
    from unmissed.models.parameters import parameters_of

    flags = {one.name for one in parameters_of(find_model(method)) if one.annotation is bool}
    words = []
    for name, value in params.items():
        flag = flag_of(name)
        words += [flag if value else f"--no-{flag[2:]}"] if name in flags else [flag, _word(value)]
    return words


def _option(parameter: "Parameter") -> inspect.Parameter:
    """Return a parameter as a command-line option: type, displayed default and help."""
    name = parameter.name.replace("_", "-")
    names = [FLAGS.get(parameter.name, f"--{name}")]
    annotation, default, shown, words = _scalar(parameter.annotation), parameter.default, None, []
    if parameter.is_propensity:
        annotation, default, shown = str | None, None, "jain"
        words = [*PROPENSITY_FORMS, "cells:FILE"]
    elif parameter.holds_models:
        annotation, default = str, ",".join(default)
    elif parameter.annotation is bool:
        names = [f"{names[0]}/--no-{name}"]
    elif parameter.choices:
        annotation, default, words = str, _word(default), [_word(one) for one in parameter.choices]
    option = typer.Option(
        *names,
        help=parameter.sentence,
        metavar="|".join(words) or None,
        rich_help_panel="Parameters of the method",
        autocompletion=(lambda: [re.sub("[A-Z,]+$", "", one) for one in words]) if words else None,
    )
    if shown is not None:
        option.show_default = shown
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, option],
    )


def _scalar(annotation: Any) -> Any:
    """Return the type of an option: the first of a union that a command line can give."""
    parts = get_args(annotation) or (annotation,)
    found = next((one for one in (float, int, bool) if one in parts), str)
    return found | None if NoneType in parts else found


def _value(parameter: "Parameter", word: Any) -> Any:
    """Convert an option's value into the value of the constructor's parameter."""
    if parameter.is_propensity:
        from unmissed.propensity import parse

        return _UNSET if word is None else parse(word)
    return parameter.parse(word) if isinstance(word, str) else word


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return an option that help does not show; the command refuses it."""
    annotation, option = get_args(parameter.annotation)
    option = copy(option)
    option.hidden = True
    return parameter.replace(annotation=Annotated[annotation, option])


def _help(method: str, cls: "type[Model]", common: str) -> str:
    """Return a command's help: the docstring of the estimator, then the help that all methods share."""
    own = inspect.cleandoc(cls.__doc__ or "").partition("\nParameters\n")[0].strip().replace("[", r"\[")
    if cls.paper_params:
        words = shlex.join(option_words(method, dict(cls.paper_params)))
        own = f"{own}\n\n--paper stands for {words}."
    text = inspect.cleandoc(common).replace("METHOD", method)
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in f"{own}\n\n{text}".split("\n\n"))


def _placeholder(name: str, summary: str) -> Any:
    def nothing() -> None:
        """Do nothing: `resolve_command` returns the real command."""

    nothing.__doc__ = summary[:1].upper() + summary[1:] + "."
    single = typer.Typer(add_completion=False)
    single.command(name=name)(nothing)
    return typer.main.get_command(single)
