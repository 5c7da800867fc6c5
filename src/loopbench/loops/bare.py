"""Design 4: a bare think-act-observe loop over JSON replies. Standard library only.

The model answers `{"thought", "tool_name", "arguments"}` or `{"final_answer"}`; every error, of the model or of a tool, becomes an
observation that it sees next; a valve ends the run after too many errors in a row. Standalone use:

    registry = ToolRegistry()

    @registry.register()
    def add(a: int, b: int) -> int:
        '''Add two numbers.'''
        return a + b

    run_agent("What is 5 + 3?", llm_func=my_llm, registry=registry)["final_answer"]
"""

from __future__ import annotations

import inspect
import json
import logging
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

from loopbench.protocol import (
    SILENT,
    Answer,
    BudgetExceeded,
    ContextOverflow,
    Message,
    Model,
    ModelError,
    Observation,
    Observer,
    Outcome,
    Program,
    Prompt,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    WireError,
    in_own_format,
    own_prompt,
    prompted,
    render_value,
    run_sync,
)
from loopbench.protocol.json_text import Encoder
from loopbench.protocol.program import merged

from .bare_formats import CODEC, FORMATS, BadMove, BareCodec

__all__ = ["CODEC", "Bare", "BareCodec", "ToolRegistry", "arun_agent", "mock_llm", "registry", "run_agent"]

logger = logging.getLogger(__name__)

MAX_STEPS_TEXT = "Maximum steps reached without final answer"
VALVE_TEXT = "Agent terminated: {errors} consecutive errors detected"
BAD_REPLY_CHARS = 2000
"""How much of an unreadable reply the model is shown again (row B4-6)."""
INSTRUCTIONS = f"{CODEC.task} {CODEC.form}"
DECIDE = "decide"
"""The one predictor: every request is its."""

_ENCODER = Encoder(ensure_ascii=False)
History = list[dict[str, str]]
Ask = Callable[[tuple[Message, ...], int], Awaitable[Reply]]


# --- the loop ---


@dataclass(frozen=True, slots=True)
class Bare:
    """Think, act, observe. Raises ValueError for a limit below 1 (row B4-16)."""

    max_steps: int = 10
    """Most replies that may fail or call a tool, plus the one that answers."""
    max_consecutive_errors: int | None = 3
    """The valve: this many errors in a row end the run; None for no valve."""
    decision_format: Literal["json", "fields", "native"] = "json"
    """How a decision is written: one JSON object, lines of text, or a native tool call."""
    instructions: str | None = INSTRUCTIONS
    """System text, followed by one line per tool (left alone, the format's own); None sends the query alone, as the seed does."""
    keep_bad_replies: bool = True
    """Show the model its own unreadable reply before the error."""
    validate_arguments: bool = True
    """Check the arguments' names against the signature before the call."""
    check_types: bool = False
    """Refuse arguments of wrong types; otherwise they are handed over as they are."""
    list_tools_in_error: bool = True
    """An unknown tool's error lists the known ones."""
    error_type_in_text: bool = True
    """A tool's error names the exception's type."""
    on_provider_error: Literal["stop", "observe"] = "stop"
    """stop: the run ends without an answer. observe: the failure is fed back and counts as an error."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """Instructions and demonstrations in the place of the design's own."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {self.max_steps}")
        if self.max_consecutive_errors is not None and self.max_consecutive_errors < 1:
            raise ValueError(f"max_consecutive_errors must be at least 1 or None, not {self.max_consecutive_errors}")
        if self.decision_format not in FORMATS:
            raise ValueError(f"decision_format must be one of {', '.join(FORMATS)}, not {self.decision_format!r}")

    @property
    def name(self) -> str:
        return "bare"

    @property
    def stops(self) -> frozenset[StopReason]:
        reached = {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.CONTEXT_OVERFLOW}
        if self.max_consecutive_errors is not None and self.max_consecutive_errors < self.max_steps:
            reached.add(StopReason.ERROR_VALVE)
        if self.on_provider_error == "stop":
            reached.add(StopReason.PROVIDER_ERROR)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """`decide`: what the model is to do. A format of the design's own, and the list of tools, follow it in any case."""
        text = FORMATS[self.decision_format].task if self.instructions == INSTRUCTIONS else self.instructions or ""
        return merged({DECIDE: own_prompt(text, "reply")}, self.program or {})

    def with_predictors(self, program: Program) -> Self:
        """The same loop with other prompts. Raises ValueError for a predictor that it does not have."""
        return replace(self, program=merged(self.predictors, program))

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    def run_sync(self, query: Query, tools: Toolbox, model: Model) -> Outcome:
        return run_sync(self.run(query, tools, model))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        codec = FORMATS[self.decision_format]
        offered = tools.specs if self.decision_format == "native" else ()
        prompt = self.predictors[DECIDE]
        opening, examples = self._opening(prompt, tools)

        async def ask(messages: tuple[Message, ...], step: int) -> Reply:
            request = Request(
                messages,
                offered,
                parallel_calls=not offered,
                role=Role.DECIDE,
                codec=codec,
                examples=examples,
                prompted=prompted(DECIDE, prompt, messages[len(opening) :]),
            )
            return await model.complete(request)

        return await self.loop(query.full_text, opening, tools, ask, observer)

    async def loop(self, query: str, opening: Sequence[Message], tools: Toolbox, ask: Ask, observer: Observer = SILENT) -> Outcome:
        """The loop itself. `ask(messages, step)` gives the model's raw reply; the outcome's `history` is the seed's (row S4-7)."""
        codec = FORMATS[self.decision_format]
        messages = list(opening)
        history: History = []
        step = consecutive_errors = 0

        def keep(reply: Reply, most: int | None = None) -> None:
            history.append({"role": "assistant", "content": reply.text[:most]})
            messages.append(Message("assistant", reply.text[:most], reply.calls))

        def observe(status: str, data: str, tool_name: str | None = None) -> None:
            content = _ENCODER.encode(create_observation(status, data, tool_name))
            history.append({"role": "observation", "content": content})
            if messages and messages[-1].calls:  # native calls: each must be answered
                messages.extend([Message("tool", content, call_id=call.id) for call in messages[-1].calls])
            else:
                messages.append(Message("user", content))  # row B4-12

        history.append({"role": "user", "content": query})
        messages.append(Message("user", query))

        while step < self.max_steps:
            if self.max_consecutive_errors is not None and consecutive_errors >= self.max_consecutive_errors:
                text = VALVE_TEXT.format(errors=self.max_consecutive_errors)
                return _outcome(text, StopReason.ERROR_VALVE, step, history, consecutive_errors)
            try:
                reply = await ask(tuple(messages), step)
            except ContextOverflow as error:
                return _outcome(None, StopReason.CONTEXT_OVERFLOW, step, history, consecutive_errors, error)
            except ProviderError as error:
                if self.on_provider_error == "stop":
                    return _outcome(None, StopReason.PROVIDER_ERROR, step, history, consecutive_errors, error)
                observe("error", f"LLM call failed - {error}")
                consecutive_errors += 1
                step += 1
                continue

            try:
                move, dropped = codec.read(reply)
            except WireError as error:
                if isinstance(error, BadMove):  # legible: it stands in the history like any reply (row S4-7)
                    keep(reply)
                elif self.keep_bad_replies:
                    keep(reply, BAD_REPLY_CHARS)
                observe("error", str(error), error.tool_name if isinstance(error, BadMove) else None)
                consecutive_errors += 1
                step += 1
                continue

            keep(reply)
            if isinstance(move, Answer):
                if dropped:
                    observer.note("not_run", tool_name=dropped, reason="final_answer wins")
                answer = move.value if isinstance(move.value, str) else _ENCODER.encode(move.value)
                return _outcome(answer, StopReason.FINISHED, step, history, consecutive_errors)

            call = move.calls[0]
            status, data_text = await self._act(call, tools)
            observe(status, data_text, call.name)
            consecutive_errors = 0 if status == "success" else consecutive_errors + 1
            step += 1

        return _outcome(MAX_STEPS_TEXT, StopReason.MAX_STEPS, step, history, consecutive_errors)

    def _opening(self, prompt: Prompt, tools: Toolbox) -> tuple[list[Message], int]:
        """What every request begins with: a system message where there is one, and demonstrations; and how many these are."""
        codec = FORMATS[self.decision_format]
        shown = in_own_format(prompt)
        text = shown.text
        if self.instructions == INSTRUCTIONS:
            text = f"{text} {codec.form}" if text == codec.task else f"{text}\n\n{codec.form}"
        if self.instructions is not None:
            text = system_text(text, tools)
        system = [Message("system", text)] if text or self.instructions is not None else []
        return [*system, *shown.turns], len(shown.turns)

    async def _act(self, call: ToolCall, tools: Toolbox) -> tuple[str, str]:
        """Check and run one call; gives the observation's status and data."""
        tool = tools.get(call.name)
        if tool is None:
            known = f". Available tools: {', '.join(tools.names)}" if self.list_tools_in_error else ""
            return "error", f"Tool '{call.name}' not found{known}"
        if self.validate_arguments:
            problem = validate_tool_arguments(tool.function, call.arguments, call.name, bound=tool.arguments is not None)
            if problem is not None:
                return "error", problem
        seen = await tools.call(call, validate=self.check_types)
        return seen.status, seen.data if seen.ok else self._error_text(seen)

    def _error_text(self, seen: Observation) -> str:
        if not self.error_type_in_text or seen.error_type == "InvalidArguments":
            return seen.data
        between = " - " if seen.error_type == "ValueError" else ": "  # the seed words the two in two ways
        return f"{seen.error_type}{between}{seen.data}"


def _outcome(
    answer: str | None, stop: StopReason, steps: int, history: History, errors: int, cause: Exception | None = None
) -> Outcome:
    details: dict[str, Any] = {"history": history, "consecutive_errors": errors}
    if cause is not None:
        details["error"] = str(cause)
    return Outcome(answer, stop, steps, None, details, gave_up=stop in _OWN_WORDS)


_OWN_WORDS = frozenset({StopReason.MAX_STEPS, StopReason.ERROR_VALVE})


def system_text(instructions: str, tools: Toolbox) -> str:
    """The instructions, then `name(signature): docstring` for each tool."""
    lines = [f"{tool.name}{_signature(tool.function).text}: {tool.description}".rstrip(": ") for tool in tools]
    return "\n".join([instructions, *lines])


def create_observation(status: str, data: Any, tool_name: str | None = None) -> dict[str, str]:
    """`{"status", "data": text, "tool_name"?}`; anything but text is rendered (row B4-10)."""
    made = {"status": status, "data": render_value(data)}
    if tool_name is not None:
        made["tool_name"] = tool_name
    return made


def validate_tool_arguments(func: Callable[..., Any], args: Mapping[str, Any], name: str, *, bound: bool = False) -> str | None:
    """Names of the arguments against the signature, before the call: the error's text, or None (rows S4-9, B4-3).

    `bound`: the toolbox puts arguments in their places, so positional-only ones and `*args` have names too.
    """
    known = _signature(func)
    names = known.bound if bound else known.by_name
    if names is None:
        return None
    if not known.is_open:
        for argument in args:
            if argument not in names:
                return f"Error: Tool '{name}' does not accept argument '{argument}'. Valid parameters: {', '.join(names)}"
    for parameter, is_needed in names.items():
        if is_needed and parameter not in args:
            return f"Error: Tool '{name}' missing required argument '{parameter}'"
    return None


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a function takes."""

    text: str
    """As the model sees it."""
    by_name: Mapping[str, bool] | None = None
    """Parameters that an argument can name, in order, and whether it must; None where nobody knows."""
    bound: Mapping[str, bool] | None = None
    """The same where arguments are put in their places."""
    is_open: bool = False
    """It takes arguments of any name."""


_SIGNATURES: WeakKeyDictionary[Callable[..., Any], _Signature] = WeakKeyDictionary()


def _signature(func: Callable[..., Any]) -> _Signature:
    """A function's signature; read once, and let go with the function."""
    try:
        return _SIGNATURES[func]
    except KeyError:
        found = _SIGNATURES[func] = _read_signature(func)
    except TypeError:  # a callable object may be unhashable, or take no weak reference
        found = _read_signature(func)
    return found


def _read_signature(func: Callable[..., Any]) -> _Signature:
    try:
        signature = inspect.signature(func)
    except (ValueError, TypeError):  # some builtins have none
        return _Signature("(...)")
    parameters = signature.parameters.values()
    bound = {p.name: p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters if p.kind is not p.VAR_KEYWORD}
    by_place = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    return _Signature(
        re.sub(r" at 0x[0-9a-f]+", "", str(signature)).replace("'", ""),
        {name: is_needed for name, is_needed in bound.items() if name not in by_place},
        bound,
        is_open=len(bound) < len(parameters),
    )


# --- standalone use ---


class ToolRegistry:
    """Named functions. Registering a name again warns, and the last one wins."""

    def __init__(self) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}

    def register(self, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that leaves the function as it is.

        Raises ValueError for a positional-only parameter without default: a call by name could never fill it.
        """

        def add(func: Callable[..., Any]) -> Callable[..., Any]:
            known = name if name is not None else str(getattr(func, "__name__", type(func).__name__))
            signature = _signature(func)
            for parameter, is_needed in (signature.bound or {}).items():
                if is_needed and parameter not in (signature.by_name or {}):
                    raise ValueError(f"tool {known!r}: parameter {parameter!r} is positional-only and has no default")
            if known in self._tools:
                warnings.warn(f"tool {known!r} is registered again; the last one wins", stacklevel=2)
            self._tools[known] = func
            return func

        return add

    def get_tool(self, name: str) -> Callable[..., Any] | None:
        return self._tools.get(name)

    def list_tools(self) -> list[str]:
        """In the order of registration."""
        return list(self._tools)

    def toolbox(self, *, check_types: bool = False) -> Toolbox:
        """The same functions as a Toolbox; only `check_types` needs pydantic."""
        return Toolbox(
            Tool.from_function(func, name=name) if check_types else Tool(name, inspect.getdoc(func) or "", {"type": "object"}, func)
            for name, func in self._tools.items()
        )


registry = ToolRegistry()
"""The default registry of `run_agent`."""


def mock_llm(history: History, step: int) -> str:
    """Stands in for a model, offline and deterministic: one sum or division of two numbers, then the answer."""
    if step > 0:
        return json.dumps({"final_answer": json.loads(history[-1]["content"])["data"]})
    query = next(entry["content"] for entry in history if entry["role"] == "user")
    asked = re.search(r"(-?\d+(?:\.\d+)?)\s*([+/])\s*(-?\d+(?:\.\d+)?)", query)
    if asked is None:
        return json.dumps({"final_answer": "mock_llm can only add and divide two numbers."})
    a, b = (float(text) if "." in text else int(text) for text in asked.group(1, 3))
    tool = "add" if asked.group(2) == "+" else "divide"
    return json.dumps({"thought": f"{tool} the two numbers", "tool_name": tool, "arguments": {"a": a, "b": b}})


async def arun_agent(
    query: str,
    max_steps: int = 10,
    llm_func: Callable[[History, int], str | Awaitable[str]] = mock_llm,
    max_consecutive_errors: int | None = 3,
    *,
    registry: ToolRegistry = registry,
    config: Bare | None = None,
) -> dict[str, Any]:
    """The loop over plain functions: `{"final_answer", "steps", "history"}`.

    `llm_func(history, step)` gives the raw reply and may be async; it gets the messages as any provider takes them, a system text
    that lists the tools first, observations as role user. `config` sets the other factors. An exception that `llm_func` raises
    ends the run with `final_answer` None and is logged, unless `config.on_provider_error` is "observe". Raises ValueError for
    native calls, which text cannot hold.
    """
    if llm_func is mock_llm:
        logger.warning("run_agent answers from mock_llm, a stand-in: pass llm_func to use a model")
    loop = replace(config or Bare(), max_steps=max_steps, max_consecutive_errors=max_consecutive_errors)
    if loop.decision_format == "native":
        raise ValueError("llm_func gives text: for native calls give a Model to Bare.run")

    async def ask(messages: tuple[Message, ...], step: int) -> Reply:
        try:
            reply = llm_func([{"role": message.role, "content": message.content} for message in messages], step)
            reply = await reply if inspect.isawaitable(reply) else reply
            if not isinstance(reply, str):
                raise TypeError(f"llm_func gave {type(reply).__name__}, not text")
            return Reply(reply)
        except (BudgetExceeded, ModelError):
            raise
        except Exception as error:  # llm_func is the provider here: whatever it raises is a provider's failure
            logger.warning("llm_func raised %s: %s", type(error).__name__, error)
            raise ProviderError(str(error) or type(error).__name__) from error

    tools = registry.toolbox(check_types=loop.check_types)
    opening, _ = loop._opening(loop.predictors[DECIDE], tools)
    outcome = await loop.loop(query, opening, tools, ask)
    return {"final_answer": outcome.answer, "steps": outcome.steps, "history": outcome.details["history"]}


def run_agent(
    query: str,
    max_steps: int = 10,
    llm_func: Callable[[History, int], str | Awaitable[str]] = mock_llm,
    max_consecutive_errors: int | None = 3,
    *,
    registry: ToolRegistry = registry,
    config: Bare | None = None,
) -> dict[str, Any]:
    """`arun_agent` from synchronous code."""
    return run_sync(arun_agent(query, max_steps, llm_func, max_consecutive_errors, registry=registry, config=config))


def _demo() -> None:
    tools = ToolRegistry()

    @tools.register()
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @tools.register()
    def divide(a: float, b: float) -> float:
        """Divide a by b."""
        if b == 0:
            raise ValueError("Cannot divide by zero")
        return a / b

    for query in ("What is 5 + 3?", "What is 1 / 0?"):
        result = run_agent(query, registry=tools)
        print(f"{query} -> {result['final_answer']} ({result['steps']} steps)")  # noqa: T201


LOOP = Bare

if __name__ == "__main__":
    _demo()
