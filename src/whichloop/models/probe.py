"""What a real model can do, found out by asking it: a few tiny requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from whichloop.protocol import Capabilities, Message, ModelError, ProviderError, Reply, Request, Sampling, ToolSpec, Usage

from .real import RealModel

MAX_TOKENS = 256
"""Limit of one reply, so that a model that thinks first gets to its answer."""
MAX_ATTEMPTS = 2

_NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
_TOOLS = (ToolSpec("add", "Add two integers.", _NUMBERS), ToolSpec("multiply", "Multiply two integers.", _NUMBERS))
_COLORS = ("red", "green")
_SCHEMA = {
    "type": "object",
    "properties": {"color": {"type": "string", "enum": list(_COLORS)}},
    "required": ["color"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one request showed."""

    name: str
    works: bool | None
    """None if it could not be found out."""
    why_not: str = ""
    """Why not, in one line."""
    seconds: float | None = None
    """Seconds until the reply, retries included; None if nothing was asked."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a model showed."""

    capabilities: Capabilities | None
    """None if it does not answer at all."""
    checks: tuple[ProbeResult, ...]
    trouble: str = ""
    """Why it does not answer, in one line."""

    def works(self, name: str) -> bool | None:
        return next((check.works for check in self.checks if check.name == name), None)


class _Stopped(Exception):
    """No further request would be answered."""


async def probe(model: RealModel) -> ProbeReport:
    """Ask fewer than ten requests of a few tokens each. A refused key ends it at once. Raises nothing for what a provider says.

    A failure that may pass is met with one more attempt at most: some servers fail for good at what they cannot do.
    """
    options = replace(model.options, attempts=min(model.options.attempts, MAX_ATTEMPTS))
    model = RealModel(model.model, options).with_capabilities(model.capabilities)
    checks: list[ProbeResult] = []
    try:
        checks.append(await _check("plain", partial(model.complete, _ask("Reply with the one word: ok")), _any_reply))
        if not checks[0].works:
            return ProbeReport(None, tuple(checks), checks[0].why_not)
        checks += await _tools(model)
        checks.append(await _check("response schema", partial(model.complete, _ask("Name a color.", schema=True)), _follows))
        checks.append(await _streaming(model))
        seeded = replace(_ask("Reply with the one word: ok"), sampling=Sampling(max_tokens=MAX_TOKENS, seed=1))
        checks.append(await _check("seed", partial(model.complete, seeded), _any_reply))
    except _Stopped as stopped:
        return ProbeReport(None, tuple(checks), str(stopped))
    return ProbeReport(_capabilities(ProbeReport(None, tuple(checks)), model.capabilities), tuple(checks))


async def _tools(model: RealModel) -> list[ProbeResult]:
    first = await _check("native tools", partial(model.complete, _ask("Add 2 and 3 with the tool.", "auto")), _calls_one)
    requests: dict[str, tuple[Request, Callable[[Reply], str]]] = {
        "required tool": (_ask("Say hello.", "required"), _calls_one),
        "forced tool": (_ask("Say hello.", "multiply"), _calls_multiply),
        "parallel calls": (_ask("Add 2 and 3, and multiply 4 by 5: both calls at once.", "auto"), _calls_both),
    }
    if first.works is False and first.usage is None and first.why_not.startswith(_REFUSED):
        return [first, *(ProbeResult(name, False, "needs tools") for name in requests)]
    return [first, *[await _check(name, partial(model.complete, request), see) for name, (request, see) in requests.items()]]


async def _streaming(model: RealModel) -> ProbeResult:
    if not model.capabilities.streaming:
        return ProbeResult("streaming", False, "not by this client")
    pieces = 0

    async def read() -> Reply:
        nonlocal pieces
        reply = Reply()
        async for chunk in model.stream(_ask("Count from one to five in words.")):
            pieces += bool(chunk.text)
            reply = chunk.reply or reply
        return reply

    return await _check("streaming", read, lambda reply: "" if pieces else "the reply came in one piece")


def _ask(text: str, tool_choice: str | None = None, *, schema: bool = False) -> Request:
    return Request(
        (Message("user", text),),
        _TOOLS if tool_choice else (),
        tool_choice,
        _SCHEMA if schema else None,
        Sampling(max_tokens=MAX_TOKENS),
    )


_REFUSED = "refused: "


async def _check(name: str, ask: Callable[[], Awaitable[Reply]], see: Callable[[Reply], str]) -> ProbeResult:
    """Ask once, and return what came of it; `see` gives what is wrong with a reply, or nothing.

    Raises _Stopped for a refused key.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        reply = await ask()
    except ModelError as error:
        if isinstance(error, ProviderError) and error.kind in ("auth", "setup"):
            raise _Stopped(str(error)) from None
        seconds = clock() - began
        if isinstance(error, ProviderError) and error.is_transient:
            return ProbeResult(name, False if name == "plain" else None, f"{error.kind}: {error}", seconds)
        return ProbeResult(name, False, f"{_REFUSED}{error}", seconds)
    wrong = see(reply)
    return ProbeResult(name, not wrong, wrong, clock() - began, reply.usage)


def _any_reply(reply: Reply) -> str:
    return ""


def _calls_one(reply: Reply) -> str:
    if not reply.calls:
        return "answered without calling a tool"
    try:
        arguments = json.loads(reply.calls[0].arguments)
    except ValueError:
        return "the arguments of its call are not JSON"
    return "" if isinstance(arguments, dict) else "the arguments of its call are not an object"


def _calls_multiply(reply: Reply) -> str:
    wrong = _calls_one(reply)
    if wrong or reply.calls[0].name == "multiply":
        return wrong
    return "called another tool"


def _calls_both(reply: Reply) -> str:
    return "" if len(reply.calls) > 1 else "made one call at a time"


def _follows(reply: Reply) -> str:
    try:
        value = json.loads(reply.text)
    except ValueError:
        return "the reply is not JSON"
    return "" if isinstance(value, dict) and value.get("color") in _COLORS else "the reply does not follow the schema"


def _capabilities(report: ProbeReport, declared: Capabilities) -> Capabilities:
    """Return what the checks showed; what was known before if they showed nothing."""
    names = {
        "native_tools": "native tools",
        "tool_choice": "forced tool",
        "response_schema": "response schema",
        "streaming": "streaming",
        "parallel_calls": "parallel calls",
    }
    works_by_field = {field: report.works(name) for field, name in names.items()}
    return replace(declared, **{field: works for field, works in works_by_field.items() if works is not None})
