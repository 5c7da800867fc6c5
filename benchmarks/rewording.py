"""Loops that say the same in other words, or keep errors from the model: `rewording:Reworded(loop=bare, how=thanks)`."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from whichloop.protocol import Chunk, Model, Observation, Observer, Outcome, Query, Reply, Request, Toolbox, ToolCall, WrappedModel
from whichloop.protocol.events import SILENT
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.outcome import AnswerT
from whichloop.protocol.tools import ToolboxAround

CLOSING = 'Give a number. If no number can be determined, the right answer is "not determined".'
HOWS: Mapping[str, Callable[[str], str]] = {
    "closing line": lambda text: text.replace(CLOSING, 'Say the figure alone, or "not determined" where there is none.'),
    "closing line first": lambda text: f"{CLOSING} {text.replace(CLOSING, '')}" if CLOSING in text else text,
    "question twice": lambda text: f"{text}\n\nOnce more: {text}" if CLOSING in text and len(text) < 2_000 else text,
    "greeting": lambda text: f"Good morning. {text}",
    "thanks": lambda text: f"{text}\nThank you.",
    "line breaks": lambda text: text.replace("\n", "\n\n"),
    "problem for error": lambda text: re.sub("error", "problem", re.sub("Error", "Problem", text)),
    "did not work for failed": lambda text: text.replace("failed", "did not work"),
    "function for tool": lambda text: re.sub(r"\btools?\b", "function", text),
    "sentence before errors": lambda text: f"Your last move did not work out. {text}" if "rror" in text[:60] else text,
    "please after errors": lambda text: f"{text} Please try again." if "rror" in text[:60] else text,
    "scope for each step": str,
}
"""Innocent rewordings, which keep all that was said."""
Hidden = Literal["words", "all"]


@dataclass(frozen=True, slots=True)
class Reworded(WrappedLoop):
    """A loop in other words."""

    how: str = "thanks"
    """One of `HOWS`."""

    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        outcome: Outcome[AnswerT] = await self.loop.run(query, tools, _Changed(model, self.how), observer)
        return outcome


@dataclass(frozen=True, slots=True)
class Hiding(WrappedLoop):
    """A loop that keeps from the model what its tools' errors say, or that there was one."""

    what: Hidden = "words"

    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        outcome: Outcome[AnswerT] = await self.loop.run(query, _Silent(tools, self.what), model, observer)
        return outcome


class _Changed(WrappedModel):
    def __init__(self, model: Model, how: str) -> None:
        super().__init__(model)
        self._change = HOWS[how]
        self._numbers = itertools.count() if how == "scope for each step" else None

    def _changed(self, request: Request) -> Request:
        messages = tuple(
            message if message.role == "assistant" else replace(message, content=self._change(message.content))
            for message in request.messages
        )
        scope = request.scope if self._numbers is None else f"step {next(self._numbers)}"
        return replace(request, messages=messages, scope=scope)

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._changed(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._changed(request))


class _Silent(ToolboxAround):
    def __init__(self, within: Toolbox, what: Hidden) -> None:
        super().__init__(within)
        self._what = what

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        seen = await self.within.call(call, validate=validate)
        if seen.ok:
            return seen
        if self._what == "words":
            return replace(seen, data="That did not work.", error_type="Error")
        return replace(seen, status="success", data="", value="", error_type=None)
