"""A second model of a model, which shares no code with the scripted one: what the tunnel cannot know when it is fitted to a run.

It solves a task from the same plan, and errs in ways that no kind of fault has, or that a fit cannot see in a trace: it takes a
tool with a similar name, copies digits wrongly, drifts as its prompt grows, finishes too eagerly, and stops its own output short.
How it errs hangs on how often it was asked, never on a point of the plan. `benchmarks/validity.py` runs loops on it, and
`whichloop learn profile --held-out` sees the traces alone.
"""

from __future__ import annotations

import difflib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from whichloop.models.receipts import call_digest
from whichloop.models.scripted import Script
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    Act,
    Answer,
    Capabilities,
    Completion,
    Inexpressible,
    Move,
    NativeCall,
    PlannedCall,
    PlanTask,
    Recovery,
    Reply,
    Request,
    Role,
    Tasks,
    Text,
    ToolCall,
    Understanding,
    render_value,
    resolve,
)
from whichloop.protocol.model import StreamsWhole, estimate_input, estimate_usage

_LONG = 60_000
"""Characters of a prompt at which drift is full."""


@dataclass(frozen=True, slots=True)
class Temper:
    """How often the model errs, as chances for each request; drift is the chance in a prompt of 60,000 characters."""

    name: str
    confuses_tools: float = 0.0
    miscopies: float = 0.0
    drifts: float = 0.0
    too_eager: float = 0.0
    stops_short: float = 0.0


TEMPERS = (
    Temper("careless", confuses_tools=0.03, miscopies=0.04, stops_short=0.02),
    Temper("eager", too_eager=0.08, miscopies=0.01, stops_short=0.03),
    Temper("drifting", drifts=0.8, confuses_tools=0.01, stops_short=0.01),
    Temper("untidy", stops_short=0.12, miscopies=0.02),
)


class OtherModel(StreamsWhole):
    """Answers a trial's requests; it remembers what it called, as a conversation would."""

    name = "scripted"  # the run takes it for its own: that is how it gets a plan
    capabilities = Capabilities()

    def __init__(self, temper: Temper, script: Script, tunnel: Tunnel | None) -> None:
        self.temper, self.script, self.tunnel = temper, script, tunnel or Tunnel()
        self.asked = 0
        self.called: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """Planned call → tool and arguments as they were really given."""

    async def complete(self, request: Request) -> Reply:
        """Return a reply in the request's format."""
        self.asked += 1
        chance = random.Random(f"{self.script.seed}/{self.script.task}/{self.script.repeat}/{self.asked}")
        text = "\n".join(message.content for message in request.messages)
        known = self._known(text)
        reply = _rendered(request, self._moves(request, text, known, chance))
        if chance.random() < self.temper.stops_short:
            reply = _cut(reply, chance)
        return replace(reply, usage=estimate_usage(estimate_input(request), reply))

    # --- what it knows ---

    def _known(self, text: str) -> dict[str, Any]:
        """Return planned call → value of the result that the prompt shows of it, whatever the tool gave."""
        shown = {entry.call: entry.value for entry in self.tunnel.ledger.issued if entry.key in text}
        known: dict[str, Any] = {}
        for planned in self.script.plan.calls:
            digests = [found.call for found in self.tunnel.ledger.issued if self._is_of(planned, found.call)]
            fitting = [digest for digest in digests if digest in shown]
            if fitting:
                known[planned.id] = shown[fitting[-1]]
        return known

    def _is_of(self, planned: PlannedCall, digest: str) -> bool:
        truth = self.script.oracle.get(planned.id)
        made = self.called.get(planned.id)
        return (truth is not None and truth.call == digest) or (made is not None and call_digest(*made) == digest)

    # --- what it says ---

    def _moves(self, request: Request, text: str, known: Mapping[str, Any], chance: random.Random) -> Sequence[Move]:
        left = [call for call in self.script.plan.calls if call.id not in known]
        if request.role is Role.UNDERSTAND:
            return (Understanding("answer the question with the tools"),)
        if request.role is Role.PLAN:
            tasks = (
                PlanTask(c.id, c.goal, "use_tools", tuple(sorted(self.script.plan.dependencies[c.id] - {*known}))) for c in left
            )
            return (Tasks(tuple(tasks)),)
        if request.role in (Role.REASON, Role.SUMMARIZE):
            goals = {call.id: call.goal for call in self.script.plan.calls}
            said = [
                f"{goals[e]}: {entry.around(entry.text)}"
                for e in known
                for entry in self.tunnel.ledger.issued[-40:]
                if entry.value == known[e]
            ]
            return (Text("\n".join(dict.fromkeys(said)) or "There is nothing yet."),)
        if request.role in (Role.REFLECT, Role.VALIDATE):
            done = not left or chance.random() < self.temper.too_eager
            return (Completion(done, "", () if done else tuple(c.goal for c in left)), Completion(done, ""), Completion(done))
        if request.role is Role.RECOVER:
            return (Recovery("retry"), Recovery("skip")) if chance.random() < 0.8 else (Recovery("skip"),)
        if request.role in (Role.ANSWER, Role.FORMAT) or not left or chance.random() < self.temper.too_eager:
            return self._answer(known, chance)
        return self._calls(request, text, left, known, chance)

    def _answer(self, known: Mapping[str, Any], chance: random.Random) -> Sequence[Move]:
        try:
            value = resolve(self.script.plan.answer, known)
        except (KeyError, IndexError, TypeError):
            value = next(reversed([*known.values()]), "unknown")  # the last thing that it read, as if it were the answer
        value = self._miscopied(value, chance)
        said = render_value(value)
        ways = [Answer(thought, what, sure) for sure in (None, 0.9) for thought in ("Done.", "") for what in (value, said)]
        return (*ways, Answer("Done."), Text(said))

    def _calls(
        self, request: Request, text: str, left: Sequence[PlannedCall], known: Mapping[str, Any], chance: random.Random
    ) -> Sequence[Move]:
        ready = [call for call in left if self.script.plan.dependencies[call.id] <= known.keys()]
        named = [call for call in ready if call.goal in text] if request.role is Role.SELECT else []
        drift = self.temper.drifts * min(1.0, len(text) / _LONG)
        if self.called and chance.random() < drift:
            ready = [call for call in self.script.plan.calls if call.id in self.called][-1:]  # it loses its place
        calls = []
        for planned in (named or ready)[: max(1, (request.codec.max_calls if request.codec else 8))]:
            try:
                arguments = resolve(planned.arguments, known)
            except (KeyError, IndexError, TypeError):
                continue
            arguments = {name: self._miscopied(value, chance) for name, value in arguments.items()}
            tool = self._confused(planned.tool, chance)
            self.called[planned.id] = (tool, arguments)
            calls.append(ToolCall(tool, arguments))
        made = tuple(calls)
        return (Act("I will look this up.", made), Act("", made)) if made else self._answer(known, chance)

    def _confused(self, tool: str, chance: random.Random) -> str:
        if chance.random() >= self.temper.confuses_tools:
            return tool
        near = difflib.get_close_matches(tool, [name for name in self.script.tools if name != tool], 1, 0.0)
        return near[0] if near else tool

    def _miscopied(self, value: Any, chance: random.Random) -> Any:
        """Swap two digits of a number, or of one in a text, now and then."""
        if isinstance(value, bool) or not isinstance(value, int | float | str) or chance.random() >= self.temper.miscopies:
            return value
        swapped = re.sub(r"(\d)(\d)", lambda found: found[2] + found[1], str(value), count=1)
        return swapped if isinstance(value, str) else type(value)(swapped)


def _rendered(request: Request, moves: Sequence[Move]) -> Reply:
    for move in moves:
        try:
            return request.codec.render(move) if request.codec is not None else _native(move)
        except Inexpressible:
            continue
    return Reply("I am not sure how to go on.")


def _native(move: Move) -> Reply:
    if isinstance(move, Act):
        calls = (NativeCall(f"call_{n}", call.name, json.dumps(dict(call.arguments))) for n, call in enumerate(move.calls))
        return Reply(move.thought, tuple(calls), None, "tool_calls")
    if isinstance(move, Answer) and move.value is not None:
        return Reply(move.value if isinstance(move.value, str) else json.dumps(move.value))
    raise Inexpressible("no such move without a format")


def _cut(reply: Reply, chance: random.Random) -> Reply:
    """Stop a reply somewhere in its last half, as a model does that reaches its limit."""
    share = 0.5 + chance.random() / 2
    if reply.calls:
        last = reply.calls[-1]
        return replace(
            reply, calls=(*reply.calls[:-1], replace(last, arguments=last.arguments[: int(share * len(last.arguments))]))
        )
    return replace(reply, text=reply.text[: int(share * len(reply.text))], finish_reason="length")


@contextmanager
def in_the_tunnels_place(temper: Temper) -> Iterator[None]:
    """Let the scripted model's trials be answered by the other one within this block, in this process."""
    with patch("whichloop.runs.trial_models.Scripted", lambda script, tunnel=None: OtherModel(temper, script, tunnel)):
        yield
