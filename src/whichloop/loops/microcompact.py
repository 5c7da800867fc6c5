"""Any loop that keeps a conversation, without its older tool results: shorter prompts, perhaps more calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import at_least, checked_options
from whichloop.protocol.chat import Message
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.model import Model, ModelAround, Request
from whichloop.protocol.outcome import AnswerT, Outcome, Query
from whichloop.protocol.program import Prompted
from whichloop.protocol.tools import Toolbox
from whichloop.protocol.wire import CONVERSATION, conversation_text

CLEARED = "[old result cleared]"


@checked_options
@dataclass(frozen=True, slots=True)
class Microcompact(WrappedLoop):
    """A loop whose requests show the last few results only.

    It acts on conversations (`bare`, `finish`). Designs that write all they know into one message have nothing to clear.
    """

    keep: int = at_least(1, 3)
    """How many results stay whole, the latest ones; those since the model's last reply stay in any case."""

    name: ClassVar[str] = "microcompact"

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        return await self.loop.run(query, tools, ModelAround(model, partial(compacted, keep=self.keep)), observer)


def compacted(request: Request, keep: int) -> Request:
    """Return a request without its older results."""
    first = request.demonstrations.stop  # they are not part of the conversation
    task = request.messages[first:]
    replies = [place for place, message in enumerate(task) if message.role == "assistant"]
    seen = max(replies, default=0)  # the model has not seen what comes after it
    old = [first + place for place in result_places(task)[:-keep] if place < seen]
    if not old:
        return request
    messages = list(request.messages)
    for place in old:
        messages[place] = replace(messages[place], content=CLEARED)
    return replace(request, messages=tuple(messages), prompted=_with_messages(request.prompted, messages[first:]))


def _with_messages(prompted: Prompted | None, messages: list[Message]) -> Prompted | None:
    """Describe a predictor's request with the messages that the model gets."""
    if prompted is None:
        return None

    def inputs() -> Mapping[str, Any]:
        fields = prompted.inputs()
        return {**fields, CONVERSATION: conversation_text(messages)} if CONVERSATION in fields else fields

    return replace(prompted, inputs=inputs)


def result_places(messages: tuple[Message, ...]) -> list[int]:
    """Return the places of messages with results: tool messages, and user messages that follow an assistant message."""
    return [
        place
        for place, message in enumerate(messages)
        if message.role == "tool" or (message.role == "user" and place > 0 and messages[place - 1].role == "assistant")
    ]


LOOP = Microcompact
