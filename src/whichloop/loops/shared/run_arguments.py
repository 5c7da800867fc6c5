"""What `run` is given: a value of another type is told in one line, before anything is asked."""

from __future__ import annotations

import inspect
from typing import Any

from whichloop.protocol import Observer, Query, Toolbox


def check_run(query: Any, tools: Any, model: Any, observer: Any) -> None:
    """Raise TypeError for what is no query, toolbox, model or observer.

    A model is told by its `complete` alone: the whole protocol takes longer to check, and each trial of a comparison comes here.
    """
    for name, given, kind in (("query", query, Query), ("tools", tools, Toolbox), ("observer", observer, Observer)):
        if not isinstance(given, kind):
            raise TypeError(f"{name}: {kind.__name__} is needed, not {named(given)}")
    if not hasattr(model, "complete") or isinstance(model, type):
        raise TypeError(f"model: Model is needed, not {named(model)}")


def refuse_checkpoint(owner: type, instead: str) -> None:
    """Raise TypeError for a class whose calls cannot wait for a person and that says so all the same. `instead`: what can."""
    for name in ("needs_approval", "checkpoint"):
        if name in vars(owner) and not inspect.isroutine(vars(owner)[name]):  # a method of that name is a subclass's own
            problem = f"{owner.__name__}.{name}: its calls are not recorded and wait for no person, so that this has no effect"
            raise TypeError(f"{problem}; run Resumable({instead}, Checkpoint(needs_approval=[…])), which does both")


def named(value: Any) -> str:
    """Return what was given as an error line names it: a class by its name, anything else by that of its class."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
