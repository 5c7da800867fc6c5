"""What `run` is given: a mistake that is natural in a product is told in one line that says how to mend it."""

from __future__ import annotations

from typing import Any

from loopbench.protocol import Query, Toolbox


def check_run(query: Any, tools: Any, model: Any) -> None:
    """Raise TypeError for what is no query, no toolbox or no model, with the expression that makes one.

    A model is told by its `complete` alone: the whole protocol takes longer to check, and each trial of a comparison comes here.
    """
    if not isinstance(query, Query):
        raise TypeError(f"query: give a Query, not {_named(query)}; Query(text) makes one of a text")
    if not isinstance(tools, Toolbox):
        raise TypeError(f"tools: give a Toolbox, not {_named(tools)}; Toolbox([function, …]) makes one of functions")
    if not hasattr(model, "complete") or isinstance(model, type):
        raise TypeError(f"model: give a Model, not {_named(model)}; resolve_model('provider/name') makes one of a name")


def _named(given: Any) -> str:
    """Return what was given as an error line names it: a class by its name, anything else by that of its class."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
