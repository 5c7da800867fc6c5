"""The agent's predictors by short names."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import dspy

from whichloop.dspy_seam import with_prompt
from whichloop.protocol import Program

from .agent import ManualAgentLoop

_PLACES: Mapping[str, tuple[str, ...]] = {
    "reasoner": ("agent_reasoner", "reasoner"),
    "history_summarizer": ("agent_reasoner", "history_summarizer"),
    "entry_summarizer": ("entry_summarizer",),
    "validator": ("agent_reasoner", "output_validator"),
    "recovery": ("error_recovery", "recovery_planner"),
    "formatter": ("response_formatter", "formatter"),
}


def predictor_of(agent: ManualAgentLoop, name: str) -> Any:
    return reduce(getattr, _path(agent, name), agent)


def with_prompts(agent: ManualAgentLoop, program: Program) -> ManualAgentLoop:
    """Return the same agent with other prompts; what is not named is shared."""
    for name, prompt in program.items():
        agent = _put(agent, _path(agent, name), with_prompt(predictor_of(agent, name), prompt))
    return agent


def _path(agent: ManualAgentLoop, name: str) -> tuple[str, ...]:
    """Return the attributes that lead to a predictor; a chain of thought holds its predictor in `predict`."""
    path = _PLACES[name]
    return (*path, "predict") if isinstance(reduce(getattr, path, agent), dspy.ChainOfThought) else path


def _put(owner: Any, path: Sequence[str], predictor: Any) -> Any:
    """Return a copy of the owner with the predictor in its place."""
    name, *rest = path
    copied = copy.copy(owner)
    setattr(copied, name, _put(getattr(owner, name), rest, predictor) if rest else predictor)
    return copied
