"""What `run` is given: a mistake that is natural in a product is told in one line that says how to mend it."""

from __future__ import annotations

import functools
import inspect
from dataclasses import fields
from typing import Any

from whichloop.protocol import Observer, Query, Reply, Toolbox, WrappedModel


def check_run(query: Any, tools: Any, model: Any, observer: Any) -> None:
    """Raise TypeError for what is no query, toolbox, model or observer, with the expression that makes one.

    A model is told by its `complete` alone: the whole protocol takes longer to check, and each trial of a comparison comes here.
    What else is wrong with one shows when it is asked: see `problem_of_model`.
    """
    if not isinstance(query, Query):
        raise TypeError(f"query: give a Query, not {named(query)}; Query(text) makes one of a text")
    if not isinstance(tools, Toolbox):
        raise TypeError(f"tools: give a Toolbox, not {named(tools)}; Toolbox([function, …]) makes one of functions")
    if not hasattr(model, "complete") or isinstance(model, type):
        if inspect.isroutine(model) or isinstance(model, functools.partial):
            raise TypeError("model: give a Model, not a function; FunctionModel(function) makes one of a function of the request")
        raise TypeError(f"model: give a Model, not {named(model)}; whichloop.open_model('provider/name') makes one of a name")
    if not isinstance(observer, Observer):
        raise TypeError(f"observer: give an Observer, not {named(observer)}; a class derived from it overrides on_event")


def refuse_checkpoint(owner: type, instead: str) -> None:
    """Raise TypeError for a class whose calls cannot wait for a person and that says so all the same. `instead`: what can."""
    for name in ("needs_approval", "checkpoint"):
        if name in vars(owner) and not inspect.isroutine(vars(owner)[name]):  # a method of that name is a subclass's own
            problem = f"{owner.__name__}.{name}: its calls are not recorded and wait for no person, so that this has no effect"
            raise TypeError(f"{problem}; run Resumable({instead}, Checkpoint(needs_approval=[…])), which does both")


def problem_of_model(model: Any, error: TypeError | AttributeError) -> str:
    """Return what is wrong with a model that a product wrote, where that is why Python raised an error; empty if it is not."""
    while isinstance(model, WrappedModel):
        model = model.model
    kind = type(model).__name__
    if isinstance(error, TypeError):
        is_not_awaited = "can't be used in 'await' expression" in str(error)
        return f"model: {kind}.complete must be async def" if is_not_awaited else ""
    if error.obj is model:
        return f"model: {kind} lacks {error.name!r}; a Model has name, capabilities, complete and stream"
    if isinstance(error.obj, str | dict | list | None) and error.name in _REPLY_FIELDS:
        return f"model: {kind}.complete must return a Reply, not {type(error.obj).__name__}; Reply(text) makes one of a text"
    return ""


_REPLY_FIELDS = frozenset(item.name for item in fields(Reply))


def named(value: Any) -> str:
    """Return what was given as an error line names it: a class by its name, anything else by that of its class."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
