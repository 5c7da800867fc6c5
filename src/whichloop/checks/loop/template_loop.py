"""template_loop: each reply is one JSON object, a tool call or the answer. Say here what your design does otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from whichloop.loops import bounded, checked_options
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    CallsIn,
    ContextOverflow,
    Inexpressible,
    Message,
    Model,
    Move,
    Observer,
    Outcome,
    Predictor,
    Program,
    ProviderError,
    Query,
    Reply,
    Role,
    RunsSync,
    StopReason,
    TakesProgram,
    Toolbox,
    ToolCall,
    WireError,
    own_prompt,
)

# Decide: what the model is told. Its wording is a part of your design; the first line is where an optimizer begins.
INSTRUCTIONS = "Solve the task with tools."
FORM = """\
Reply with one JSON object and nothing else:
{"thought": "why", "tool": "its name", "arguments": {...}} to call a tool, or
{"thought": "why", "answer": ...} once you know the answer. Tools:"""


@dataclass(frozen=True, slots=True)
class ObjectCodec:
    """Decide: the format of replies. The law: render raises Inexpressible, or parse gives back an equal move."""

    name: str = "template_loop.json"
    role: Role = Role.DECIDE
    max_calls: int = 1  # of one reply

    def render(self, move: Move) -> Reply:
        """Return the reply that a model would write for a move; the scripted model speaks through this."""
        if isinstance(move, Act) and len(move.calls) == 1:
            call = move.calls[0]
            data: dict[str, Any] = {"thought": move.thought, "tool": call.name, "arguments": call.arguments}
        elif isinstance(move, Answer) and move.confidence is None:
            data = {"thought": move.thought, "answer": move.value}
        else:
            raise Inexpressible(f"the {type(move).__name__} is neither one call nor an answer without confidence")
        try:
            text = json.dumps(data, allow_nan=False)
            if json.loads(text) == data:
                return Reply(text)
        except (TypeError, ValueError, RecursionError):
            pass
        raise Inexpressible("a value that JSON does not give back as it was")

    def parse(self, reply: Reply) -> Act | Answer:
        """Return the move in a reply; the WireError's text is what the model will read."""
        try:
            data = json.loads(reply.text)
        except (ValueError, RecursionError) as error:
            raise WireError(f"Your reply is no JSON: {error}") from None
        match data:
            case {"thought": str(thought), "answer": value}:
                return Answer(thought, value)
            case {"thought": str(thought), "tool": str(tool), "arguments": dict(arguments)}:
                return Act(thought, (ToolCall(tool, arguments),))
        raise WireError('Your reply must have "thought" and "answer", or "thought", "tool" and "arguments"')


CODEC = ObjectCodec()


@checked_options  # tells a wrong option in one line
@dataclass(frozen=True, slots=True)
class TemplateLoop(TakesProgram, RunsSync):  # these give it with_predictors and run_sync
    """Decide: the options. Every field, with the line under it, is an option: --loop 'template_loop:TemplateLoop(max_steps=5)'."""

    max_steps: int = 10
    """Most replies, the one that answers included."""
    program: Program = field(
        default_factory=lambda: {"decide": own_prompt(INSTRUCTIONS, "reply")}, repr=False, compare=False, metadata={"option": False}
    )
    """No option: for each kind of request, what `whichloop optimize` may change: instructions and demonstrations."""

    name: ClassVar[str] = "template_loop"
    calls_in: ClassVar[CallsIn] = "text"
    """How replies hold calls: "text", as here, or "native", in the API's own form. Profiles that were measured go by it."""
    stops: ClassVar[frozenset[StopReason]] = frozenset(
        {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
    )

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {self.max_steps}")

    @property
    def predictors(self) -> Program:
        return self.program

    def with_step_limit(self, tool_steps: int) -> Self:
        """Return the same loop under the limit of a comparison: so many steps with tools, and the reply that answers."""
        return replace(self, max_steps=tool_steps + 1)

    @bounded  # checks the arguments, tells events, makes an instance of a query's type
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        listed = [f"{tool.name}{json.dumps(tool.parameters)}: {tool.description}" for tool in tools]
        asked = query.full_text if query.schema is None else f"{query.full_text}\nSchema of the answer: {json.dumps(query.schema)}"
        decide = Predictor("decide", self.program["decide"])
        opening = decide.opening("\n".join([decide.shown.text, FORM, *listed]))
        messages = [Message("user", asked)]
        for step in range(self.max_steps):
            try:
                move, reply = await decide.ask(model, CODEC, opening, messages)
            except ContextOverflow:  # Decide: what could be left out here?
                return Outcome(None, StopReason.CONTEXT_OVERFLOW, step)
            except ProviderError:
                return Outcome(None, StopReason.PROVIDER_ERROR, step)
            except WireError as error:  # Decide: show it to the model, ask again, or give up?
                messages += [Message("assistant", error.reply.text), Message("user", f"Error: {error}")]
                continue
            messages.append(Message("assistant", reply.text))
            if isinstance(move, Answer):
                return Outcome(move.value, StopReason.FINISHED, step + 1)
            seen = await tools.call(move.calls[0])  # never raises: a tool's error is an observation too
            messages.append(Message("user", f"{seen.tool_name}: {seen.error_type or 'result'}: {seen.data}"))
        return Outcome(None, StopReason.MAX_STEPS, self.max_steps)  # Decide: no answer at the limit, or a forced one?
