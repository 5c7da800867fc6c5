"""What an agent asks its model for, read from the requests of an undisturbed run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Request

NATIVELY, IN_TEXT, NOT_SHOWN = "offered natively", "described in the text", "not shown"


@dataclass(frozen=True, slots=True)
class WireUse:
    """The requests of one role."""

    role: str
    requests: int
    format: str
    """Name of the format in which replies are read."""
    calls_per_reply: int
    """Calls that a reply of this format can make at most."""
    tools: str
    """How the tools are shown: offered natively, described in the text, or not."""
    tool_choice: str
    """What the requests demand of native calls; empty: nothing."""
    response_schema: bool
    """Whether a schema for the reply is sent."""
    messages: tuple[int, int]
    """Messages of the first request and of the last one."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def wire_uses(requests: Sequence[Request], tools: Mapping[str, str]) -> tuple[WireUse, ...]:
    """Return what an agent's requests are like, role by role, in the order in which roles come up. `tools`: name → description."""
    roles = dict.fromkeys(request.role for request in requests)
    return tuple(_use([request for request in requests if request.role is role], tools) for role in roles)


def _use(requests: Sequence[Request], tools: Mapping[str, str]) -> WireUse:
    codecs = [request.codec or NATIVE for request in requests]
    return WireUse(
        role=requests[0].role.value,
        requests=len(requests),
        format=" or ".join(dict.fromkeys(codec.name for codec in codecs)),
        calls_per_reply=min(
            codec.max_calls if request.parallel_calls else 1 for codec, request in zip(codecs, requests, strict=True)
        ),
        tools=" or ".join(dict.fromkeys(_way_of_showing(request, tools) for request in requests)),
        tool_choice=" or ".join(dict.fromkeys(request.tool_choice for request in requests if request.tool_choice)),
        response_schema=any(request.response_schema is not None for request in requests),
        messages=(len(requests[0].messages), len(requests[-1].messages)),
    )


def _way_of_showing(request: Request, tools: Mapping[str, str]) -> str:
    """Say how tools are shown. A name alone does not count: a question or a result may have it, too."""
    if request.tools:
        return NATIVELY
    text = "\n".join(message.content for message in request.messages)
    described = all(re.search(rf"\b{re.escape(name)}\b", text) and says in text for name, says in tools.items())
    return IN_TEXT if described else NOT_SHOWN
