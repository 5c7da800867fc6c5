"""What a real model can do, found out by asking it: a few tiny requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

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


async def probe(model: RealModel) -> ProbeReport:
    """Ask fewer than ten requests of a few tokens each. A refused key ends it at once. Raises nothing for what a provider says.

    A failure that may pass is met with one more attempt at most: some servers fail for good at what they cannot do.
    """
    options = replace(model.options, attempts=min(model.options.attempts, MAX_ATTEMPTS))
    model = RealModel(model.model, options).with_capabilities(model.capabilities)
    ok = _ask("Reply with the one word: ok")
    seeded = replace(ok, sampling=Sampling(max_tokens=MAX_TOKENS, seed=1))
    tools: list[tuple[str, Request, Callable[[Reply], str]]] = [
        ("required tool", _ask("Say hello.", "required"), _calls_one),
        ("forced tool", _ask("Say hello.", "multiply"), lambda reply: _calls_one(reply, "multiply")),
        (
            "parallel calls",
            _ask("Add 2 and 3, and multiply 4 by 5: both calls at once.", "auto"),
            lambda reply: "" if len(reply.calls) > 1 else "made one call at a time",
        ),
    ]
    checks: list[ProbeResult] = []

    async def check(name: str, request: Request, wrong: Callable[[Reply], str]) -> ProbeResult:
        checks.append(await _check(name, lambda: model.complete(request), wrong))
        return checks[-1]

    try:
        if not (await check("plain", ok, lambda reply: "")).works:
            return ProbeReport(None, tuple(checks), checks[0].why_not)
        native = await check("native tools", _ask("Add 2 and 3 with the tool.", "auto"), _calls_one)
        if native.works is False and native.usage is None and native.why_not.startswith(_REFUSED):
            checks += [ProbeResult(name, False, "needs tools") for name, *_ in tools]
        else:
            for each in tools:
                await check(*each)
        await check("response schema", _ask("Name a color.", schema=True), _follows)
        checks.append(await _streaming(model))
        await check("seed", seeded, lambda reply: "")
    except ProviderError as error:
        return ProbeReport(None, tuple(checks), str(error))
    works = {each.name: each.works for each in checks}
    shown = {
        "native_tools": works["native tools"],
        "tool_choice": works["forced tool"],
        "response_schema": works["response schema"],
        "streaming": works["streaming"],
        "parallel_calls": works["parallel calls"],
    }
    known = {name: found for name, found in shown.items() if found is not None}
    return ProbeReport(replace(model.capabilities, **known), tuple(checks))


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
    tools = _TOOLS if tool_choice else ()
    return Request((Message("user", text),), tools, tool_choice, _SCHEMA if schema else None, Sampling(max_tokens=MAX_TOKENS))


_REFUSED = "refused: "


async def _check(name: str, ask: Callable[[], Awaitable[Reply]], wrong: Callable[[Reply], str]) -> ProbeResult:
    """Ask once, and return what came of it; `wrong` gives what is wrong with a reply, or nothing.

    Raises ProviderError where no further request would be answered, as for a refused key.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        reply = await ask()
    except ModelError as error:
        if isinstance(error, ProviderError) and error.kind in ("auth", "setup"):
            raise
        if isinstance(error, ProviderError) and error.is_transient:
            return ProbeResult(name, False if name == "plain" else None, f"{error.kind}: {error}", clock() - began)
        return ProbeResult(name, False, f"{_REFUSED}{error}", clock() - began)
    problem = wrong(reply)
    return ProbeResult(name, not problem, problem, clock() - began, reply.usage)


def _calls_one(reply: Reply, tool: str = "") -> str:
    if not reply.calls:
        return "answered without calling a tool"
    try:
        arguments = json.loads(reply.calls[0].arguments)
    except (ValueError, RecursionError):
        return "the arguments of its call are not JSON"
    if not isinstance(arguments, dict):
        return "the arguments of its call are not an object"
    return "" if reply.calls[0].name == (tool or reply.calls[0].name) else "called another tool"


def _follows(reply: Reply) -> str:
    try:
        value = json.loads(reply.text)
    except (ValueError, RecursionError):
        return "the reply is not JSON"
    return "" if isinstance(value, dict) and value.get("color") in _COLORS else "the reply does not follow the schema"
