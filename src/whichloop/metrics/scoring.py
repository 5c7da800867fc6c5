"""From a task's scorer, as it is written, to the trial's scores."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from whichloop.protocol import HARNESS_STOPS
from whichloop.protocol.modules import module_in, names_in, offered_by
from whichloop.protocol.names import Spec, nearest, own_object, parse_spec

from .answers import DEFAULT_TOLERANCE, equal
from .judgement import Judgement, Scorer

SCORERS = "whichloop.metrics.scorers"


def scorer_names() -> tuple[str, ...]:
    """Return the names of the built-in scorers, sorted."""
    return names_in(SCORERS)


def scorer_named(spec: str) -> Scorer:
    """Return the scorer that a spec names: `numeric`, `numeric(tolerance=0.01)`, `package.module:name`; options are TOML values.

    A name with a colon is imported: the scorer itself, or with brackets a function that takes the options and returns the scorer.
    It is looked up every time, since a notebook may define it anew.
    Raises ValueError for an unknown scorer or option, naming the nearest and all known ones, and for an option's wrong value.
    """
    parsed = _parsed(spec)
    if ":" not in parsed.name:
        return _with_options(spec, None)
    own = _imported(parsed.name)
    return _with_options(spec, own) if spec.rstrip().endswith(")") else _of_one_argument(parsed.name, own)


@functools.lru_cache(maxsize=256)  # a run scores thousands of trials with a handful of specs
def _parsed(spec: str) -> Spec:
    try:
        return parse_spec(spec)
    except ValueError as error:
        raise ValueError(f"scorer {error}") from None


@functools.lru_cache(maxsize=256)
def _with_options(spec: str, own: Callable[..., Any] | None) -> Scorer:
    """Return a built-in scorer, or what `own` makes of the options."""
    name, options = _parsed(spec).name, _parsed(spec).options
    if own is not None:
        return _built_scorer(name, own, options)
    if name not in scorer_names():
        raise ValueError(f"unknown scorer {name!r}; {nearest(name, scorer_names())}, or package.module:name")
    return _built_scorer(
        name, offered_by(SCORERS, name, "SCORER", callable, "a function of the options that returns the scorer"), options
    )


def reads_state(spec: str) -> bool:
    """Return whether a scorer may look at the end state: a built-in one says so, and one of the user's own may."""
    return _reads_state(spec.partition("(")[0].strip())


@functools.lru_cache(maxsize=256)
def _reads_state(name: str) -> bool:
    return name not in scorer_names() or getattr(module_in(SCORERS, name), "READS_STATE", False)


def scores_of(judgement: Judgement) -> dict[str, float]:
    """Return all scores of one trial: `accuracy`, and where the end state counts too, its factors `answer` and `state`.

    A trial that the harness ended, by a limit or a crash, has not solved its task: what it answered, or did before, is no answer.
    Raises ValueError for a scorer that returns a value outside of [0, 1], and whatever the user's own scorer raises.
    """
    task = judgement.task
    scorer = scorer_named(task.scorer)
    answer = 0.0 if judgement.stop in HARNESS_STOPS else float(scorer(judgement))
    if not 0 <= answer <= 1:  # NaN too
        raise ValueError(f"gave {answer!r}, which is not in [0, 1]")
    if task.end_state is None:
        return {"accuracy": answer}
    state = float(equal(task.end_state, judgement.state, DEFAULT_TOLERANCE))
    return {"accuracy": answer * state, "answer": answer, "state": state}


def _built_scorer(name: str, factory: Callable[..., object], options: Mapping[str, object]) -> Scorer:
    parameters = inspect.signature(factory).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in options:
        if option not in parameters and not open_ended:
            raise ValueError(f"scorer {name!r}: unknown option {option!r}; {nearest(option, sorted(parameters))}")
    try:
        scorer = factory(**options)
    except TypeError as error:  # an option is missing, or has a type that the scorer does not take
        raise ValueError(f"scorer {name!r}: {error}") from error
    if not callable(scorer):
        raise ValueError(f"scorer {name!r} gives a {type(scorer).__name__}, not a function of a Judgement")
    return _of_one_argument(name, scorer)


def _of_one_argument(name: str, scorer: Callable[..., Any]) -> Scorer:
    """Return a scorer. Raises ValueError, before anything is run, if it cannot be called with one argument."""
    try:
        signature = inspect.signature(scorer)
    except (TypeError, ValueError):  # some functions in C do not tell
        return scorer
    try:
        signature.bind(None)
    except TypeError:
        raise ValueError(
            f"scorer {name!r} takes {signature}; a scorer takes one argument, a Judgement, and gives a number"
        ) from None
    return scorer


def _imported(name: str) -> Callable[..., Any]:
    own: Callable[..., object] = own_object("scorer", name)
    if not callable(own):
        raise ValueError(f"scorer {name!r} is a {type(own).__name__}, not a function of a Judgement")
    return own
