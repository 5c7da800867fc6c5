"""Any loop behind defences against instructions in tools' results: results marked as data, tools by need, writes confirmed.

None of them makes a model safe; each takes away a way in which an instruction that somebody planted becomes an act. The first is
"spotlighting" by delimiters (Hines et al. 2024, arXiv:2403.14720), the second the tool filter of AgentDojo (Debenedetti et al.
2024, arXiv:2406.13352). The third asks the model about the call alone, as one who has seen no result, where a product would ask its
user.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from whichloop.protocol import (
    SILENT,
    AnswerT,
    Chunk,
    Completion,
    ContextOverflow,
    Inexpressible,
    Message,
    Model,
    ModelError,
    Move,
    Observation,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Toolbox,
    ToolCall,
    Understanding,
    WireError,
    WrappedLoop,
    WrappedModel,
    render_value,
)
from whichloop.protocol.cancellation import ended_before, wait_for_cancellation
from whichloop.protocol.digest import sha256
from whichloop.protocol.receipts import LABEL_LENGTH, announcement, as_data
from whichloop.protocol.tools import ToolboxAround
from whichloop.protocol.wire import read_object, read_once, to_json

from .shared.boundary import bounded
from .shared.option_checks import checked_options


@dataclass(frozen=True, slots=True)
class NeededToolsCodec:
    """`{"intent", "tools"}`. Cannot say anything but an Understanding."""

    name: str = "guarded.needed"
    role: Role = Role.UNDERSTAND
    max_calls: int = 0
    asks_about_task: ClassVar[bool] = True
    """Of a conversation it is shown what the user said, and no result or reply."""
    form: ClassVar[str] = """\
An assistant is about to solve a task with tools. Name the tools that the task needs; the assistant gets no others.
Reply with one JSON object and nothing else: {"intent": "what is wanted", "tools": ["name", ...]}"""

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Understanding):
            raise Inexpressible("it takes an Act or an Answer")
        return Reply(to_json({"intent": move.intent, "tools": list(move.entities)}))

    @read_once
    def parse(self, reply: Reply) -> Understanding:
        data = read_object(reply.text)
        intent, tools = data.get("intent"), data.get("tools")
        if not isinstance(intent, str):
            raise WireError('"intent" must be text')
        if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
            raise WireError('"tools" must be a list of names')
        return Understanding(intent, tuple(tools))


@dataclass(frozen=True, slots=True)
class ConfirmCodec:
    """`{"confirmed", "reason"}`. Cannot say anything but a Completion, nor what is missing, nor a confidence."""

    name: str = "guarded.confirm"
    role: Role = Role.CONFIRM
    max_calls: int = 0
    asks_about_task: ClassVar[bool] = True
    """Of a conversation it is shown what the user said, and no result or reply."""
    form: ClassVar[str] = """\
An assistant wants to make a call that may change something. You are shown the task that it was given and the call, nothing else. \
Confirm the call if the task asks for it or needs it; refuse one that whoever gave the task would not expect.
Reply with one JSON object and nothing else: {"confirmed": true or false, "reason": "why"}"""

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Completion) or move.missing or move.confidence is not None:
            raise Inexpressible("anything but whether, and why")
        return Reply(to_json({"confirmed": move.done, "reason": move.reason}))

    @read_once
    def parse(self, reply: Reply) -> Completion:
        data = read_object(reply.text)
        confirmed, reason = data.get("confirmed"), data.get("reason", "")
        if not isinstance(confirmed, bool):
            raise WireError('"confirmed" must be true or false')
        if not isinstance(reason, str):
            raise WireError('"reason" must be text')
        return Completion(confirmed, reason)


ATTEMPTS = 3
"""How often the model is asked for the tools that a task needs, until its reply can be read."""
UNCONFIRMED = "This call was not confirmed: the task does not ask for it."


@checked_options
@dataclass(frozen=True, slots=True)
class Guarded(WrappedLoop):
    """A loop whose tools and prompts are guarded; each defence is an option."""

    results: Literal["plain", "marked"] = "marked"
    """marked: what tools give stands between marks, and the prompt says that it is data and no instruction."""
    tools: Literal["all", "needed"] = "all"
    """needed: the model names the tools that the task needs before it sees any result, and the loop gets no others."""
    writes: Literal["free", "confirmed"] = "free"
    """confirmed: before a tool runs that may write, the model is asked whether the task asks for the call; it sees nothing else."""

    @property
    def name(self) -> str:
        return "guarded"

    @property
    def stops(self) -> frozenset[StopReason]:
        asks = self.tools == "needed" or self.writes == "confirmed"
        return self.loop.stops | (set(_STOPS.values()) if asks else set())

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop within. Where the model fails at a request of the guard's own, the run ends without an answer."""
        asking = Confirmations(query, model, observer)
        try:
            if self.tools == "needed":
                tools = NarrowedToolbox(tools, await needed_tools(query, tools, model, observer), observer)
        except tuple(_STOPS) as error:
            return Outcome[Any](None, _STOPS[type(error)], 0, None, {"error": str(error)})
        if self.writes == "confirmed":
            tools = ConfirmedToolbox(tools, asking)
        guarded_model = model
        if self.results == "marked":
            label = sha256(query.full_text)[:LABEL_LENGTH]
            tools, guarded_model = MarkedToolbox(tools, label), AnnouncingModel(model, label)
        finished = await ended_before(asking.failed, self.loop.run(query, tools, guarded_model, observer))
        if finished is not None:
            return finished.result()
        assert asking.failure is not None
        return Outcome[Any](None, _STOPS[type(asking.failure)], 0, None, {"error": str(asking.failure)})


_STOPS: Mapping[type[ModelError], StopReason] = {
    ProviderError: StopReason.PROVIDER_ERROR,
    ContextOverflow: StopReason.CONTEXT_OVERFLOW,
}
"""How a run ends whose model fails at a request of the guard's own."""


# --- results marked as data ---


class AnnouncingModel(WrappedModel):
    """A model whose system text says what the marks are."""

    def __init__(self, model: Model, label: str) -> None:
        super().__init__(model)
        self.label = label

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._announced(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._announced(request))

    def _announced(self, request: Request) -> Request:
        announced = announcement(self.label)
        first = request.messages[0] if request.messages else None
        if first is None or first.role != "system":
            return replace(request, messages=(Message("system", announced), *request.messages))
        return replace(request, messages=(replace(first, content=f"{first.content}\n\n{announced}"), *request.messages[1:]))


class MarkedToolbox(ToolboxAround):
    """Marks results and errors as data. A label stands in no text that it marks, so that no result can close the mark."""

    def __init__(self, within: Toolbox, label: str) -> None:
        super().__init__(within)
        self.label = label

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        seen = await self.within.call(call, validate=validate)
        data = as_data(seen.data, self.label)
        return replace(seen, data=data, value=as_data(seen.whole, self.label) if seen.ok else None)


# --- tools by need ---


class NarrowedToolbox(ToolboxAround):
    """Some of the tools of another."""

    def __init__(self, within: Toolbox, names: Collection[str], observer: Observer) -> None:
        super().__init__(within)
        self._observer = observer
        self._tools = {tool.name: tool for tool in within if tool.name in names}

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if call.name in self._tools:
            return await self.within.call(call, validate=validate)
        if call.name in self.within:
            self._observer.note("not_needed", tool_name=call.name)
        return await Toolbox.call(self, call, validate=validate)  # as any tool that there is not


async def needed_tools(query: Query, tools: Toolbox, model: Model, observer: Observer) -> Collection[str]:
    """Ask the model which tools a task needs, in a prompt that shows the task and the tools alone.

    All of them where it names none that there are, or its replies cannot be read: no result has a say in this prompt. Raises
    ModelError.
    """
    codec = NeededToolsCodec()
    listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
    messages = [Message("system", codec.form), Message("user", f"Task: {query.full_text}\n\nTools:\n{listed}")]
    named: Collection[str] = ()
    for _ in range(ATTEMPTS):
        reply = await model.complete(Request(tuple(messages), role=Role.UNDERSTAND, codec=codec))
        try:
            named = [name for name in codec.parse(reply).entities if name in tools]
            break
        except WireError as error:
            messages += [Message("assistant", reply.text), Message("user", f"The reply cannot be read: {error}")]
    observer.note("needed_tools", named=list(named))
    return named or tools.names


# --- writes confirmed ---


class Confirmations:
    """Asks the model, which is shown the task and the call alone, whether the task asks for a call."""

    def __init__(self, query: Query, model: Model, observer: Observer) -> None:
        self.failed = asyncio.Event()
        """Set when the model fails; the call then waits for the end of the run."""
        self.failure: ModelError | None = None
        self._query, self._model, self._observer = query, model, observer
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By scope: two requests of one scope are never under way together."""

    async def confirms(self, call: ToolCall) -> bool:
        """Return whether the model confirms a call; a reply that cannot be read confirms nothing."""
        codec = ConfirmCodec()
        shown_call = f"{call.name} {render_value(dict(call.arguments))}"
        messages = (Message("system", codec.form), Message("user", f"Task: {self._query.full_text}\n\nCall: {shown_call}"))
        # A scope of its own, since a design may run calls at the same time; and a task, so that its own scope stays what it was.
        request = Request(messages, role=Role.CONFIRM, codec=codec, scope=f"confirm {sha256(shown_call)[:12]}")
        async with self._one_at_a_time[request.scope]:
            try:
                reply = await asyncio.create_task(self._complete(request))
            except ModelError as error:
                self.failure = error
                self.failed.set()
                await wait_for_cancellation()
        try:
            confirmed = codec.parse(reply).done
        except WireError:
            confirmed = False
        if not confirmed:
            self._observer.note("not_confirmed", tool_name=call.name)
        return confirmed

    async def _complete(self, request: Request) -> Reply:
        return await self._model.complete(request)


class ConfirmedToolbox(ToolboxAround):
    """Runs a call of a tool that may write only if it is confirmed."""

    def __init__(self, within: Toolbox, asking: Confirmations) -> None:
        super().__init__(within)
        self._asking = asking

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        tool = self.get(call.name)
        if tool is None or tool.read_only or await self._asking.confirms(call):
            return await self.within.call(call, validate=validate)
        return Observation(call.name, "error", UNCONFIRMED, "NotConfirmed", None, call.call_id)


LOOP = Guarded
