"""The design's prompts as predictors, and what each of their requests begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from whichloop.protocol import Message, OwnPrompt, Program, Prompt, Request, in_own_format, own_prompt, prompted
from whichloop.protocol.program import merged

from .prompts import CONTEXTS_PROMPT, REASON_PROMPT, SUMMARIZE_PROMPT, merged_prompts
from .state import Phase

SELECT_TOOLS = "select"
PREDICTORS: Mapping[str, tuple[str, str]] = {
    "understand": (Phase.UNDERSTAND, "understanding"),
    "plan": (Phase.PLAN, "tasks"),
    SELECT_TOOLS: (Phase.EXECUTE, "calls"),
    "reason": (REASON_PROMPT, "conclusion"),
    "reflect": (Phase.REFLECT, "judgement"),
    "contexts": (CONTEXTS_PROMPT, "choice"),
    "answer": (Phase.ANSWER, "final_answer"),
    "summarize": (SUMMARIZE_PROMPT, "summary"),
}
"""Predictor → its text among PROMPTS, and its output field, which is never `answer`: labelled examples have that field."""


@dataclass(frozen=True)
class Predictor:
    """One kind of request."""

    name: str
    prompt: Prompt

    @cached_property
    def shown(self) -> OwnPrompt:
        """The prompt in our own format, read on first use: few runs ask all predictors, and demonstrations may be many."""
        return in_own_format(self.prompt)

    def request(self, text: str, form: str = "", **rest: Any) -> Request:
        """Return a request. `text`: the user message. `form`: what follows the instructions. `rest`: fields of the request."""
        system = Message("system", f"{self.shown.text}\n\n{form}" if form else self.shown.text)
        question = Message("user", text)
        return Request(
            (system, *self.shown.turns, question),
            examples=len(self.shown.turns),
            prompted=prompted(self.name, self.prompt, (question,)),
            **rest,
        )


def program_of(prompts: Mapping[str, str] | None, changed: Program | None) -> Program:
    """Return all predictors. `prompts`: texts that replace some of PROMPTS. `changed`: states that replace both.

    Raises ValueError for an unknown name.
    """
    texts = merged_prompts(prompts)
    own = {name: own_prompt(texts[text], output) for name, (text, output) in PREDICTORS.items()}
    return merged(own, changed or {})


def predictors_of(prompts: Mapping[str, str] | None, changed: Program | None) -> Mapping[str, Predictor]:
    """Return all predictors by name, ready to ask."""
    return _OWN if prompts is None and changed is None else _opened(program_of(prompts, changed))


def _opened(program: Program) -> Mapping[str, Predictor]:
    return {name: Predictor(name, prompt) for name, prompt in program.items()}


_OWN = _opened(program_of(None, None))
