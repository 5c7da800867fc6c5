"""What a real model can do, found out by asking it: a few tiny requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
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
    checks: list[ProbeResult] = []
    shown: dict[str, bool] = {}
    has_tools = True
    try:
        for name, capability, request, wrong in _CHECKS:
            if request.tools and not has_tools:
                found = ProbeResult(name, False, "needs tools")
            elif name == "streaming" and not model.capabilities.streaming:
                found = ProbeResult(name, False, "not by this client")
            else:
                found = await _check(model, name, request, wrong)
            checks.append(found)
            if name == "plain" and not found.works:
                return ProbeReport(None, tuple(checks), found.why_not)
            has_tools = has_tools and not (capability == "native_tools" and found.why_not.startswith(_REFUSED))
            if capability and found.works is not None:
                shown[capability] = found.works
    except ProviderError as error:
        return ProbeReport(None, tuple(checks), str(error))
    return ProbeReport(replace(model.capabilities, **shown), tuple(checks))


async def _streamed(model: RealModel, request: Request) -> Reply:
    reply, text = Reply(), ""
    async for chunk in model.stream(request):
        text += chunk.text
        reply = chunk.reply or reply
    return replace(reply, text=text)


_REFUSED = "refused: "


async def _check(model: RealModel, name: str, request: Request, wrong: Callable[[Reply], str]) -> ProbeResult:
    """Ask once, and return what came of it; `wrong` gives what is wrong with a reply, or nothing.

    Raises ProviderError where no further request would be answered, as for a refused key.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        reply = await (_streamed(model, request) if name == "streaming" else model.complete(request))
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


def _ask(text: str, tool_choice: str | None = None, *, schema: bool = False, seed: int | None = None) -> Request:
    tools, sampling = _TOOLS if tool_choice else (), Sampling(max_tokens=MAX_TOKENS, seed=seed)
    return Request((Message("user", text),), tools, tool_choice, _SCHEMA if schema else None, sampling)


_CHECKS: tuple[tuple[str, str, Request, Callable[[Reply], str]], ...] = (
    ("plain", "", _ask("Reply with the one word: ok"), lambda reply: ""),
    ("native tools", "native_tools", _ask("Add 2 and 3 with the tool.", "auto"), _calls_one),
    ("required tool", "", _ask("Say hello.", "required"), _calls_one),
    ("forced tool", "tool_choice", _ask("Say hello.", "multiply"), lambda reply: _calls_one(reply, "multiply")),
    (
        "parallel calls",
        "parallel_calls",
        _ask("Add 2 and 3, and multiply 4 by 5: both calls at once.", "auto"),
        lambda reply: "" if len(reply.calls) > 1 else "made one call at a time",
    ),
    ("response schema", "response_schema", _ask("Name a color.", schema=True), _follows),
    (
        "streaming",
        "streaming",
        _ask("Count from one to five in words."),
        lambda reply: "" if reply.text else "the reply came in one piece",
    ),
    ("seed", "", _ask("Reply with the one word: ok", seed=1), lambda reply: ""),
)
"""Name of a check, the capability that it shows, what is asked, and what is wrong with a reply."""
