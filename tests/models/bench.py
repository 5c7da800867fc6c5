"""What the tests of the tunnel share: pure tools, random plans, and a minimal loop with native calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.datasets.validity import planned_answer, replay
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, MeteredToolbox
from whichloop.models.profiles import Clears, Profile, load_profile
from whichloop.models.receipts import Ledger, PromptView, ReceiptEntry, Truth, call_digest, content_digest, read_prompt
from whichloop.models.scripted import Script, Scripted
from whichloop.models.scripted_calls import NATIVE, NativeCodec
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Message, Model, ModelError, Plan, PlannedCall, Query, Ref, Reply, Request, Tool, ToolCall, resolve
from whichloop.protocol.moves import Act, Answer, Codec, WireError
from whichloop.protocol.threads import run_blocking, run_sync
from whichloop.protocol.values import render_value

QUESTION = "What comes out?"


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def concat(a: str, b: str) -> str:
    """One text after the other."""
    return a + b


def reject(text: str) -> str:
    """Accepts nothing."""
    raise ValueError(f"{text!r} is not accepted")


TOOLS = tuple(Tool.from_function(function, blocking=False) for function in (add, concat, reject))


def planned(
    name: str, tool: str, *, goal: str = "", alternatives: Sequence[PlannedCall] = (), fails: bool = False, **arguments: Any
) -> PlannedCall:
    return PlannedCall(name, tool, arguments, goal or f"Find {name}.", tuple(alternatives), fails)


def chain(length: int, answer: Any = None) -> Plan:
    """1 + 1, plus 10, plus 10, …: each call needs the one before; the answer is the last result."""
    calls = [planned("c1", "add", a=1, b=1)]
    calls += [planned(f"c{index}", "add", a=Ref(f"c{index - 1}"), b=10) for index in range(2, length + 1)]
    return Plan(tuple(calls), Ref(f"c{length}") if answer is None else answer)


class Ear:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.exchanges: list[Any] = []
        """(request, reply, error, fault)"""
        self.tool_calls: list[Any] = []
        """(call, observation, fault)"""

    def exchange(self, exchange: MeteredExchange) -> None:
        self.exchanges.append((exchange.request, exchange.reply, exchange.error, exchange.fault))

    def tool_call(self, call: Any, seen: Any, fault: Any) -> None:
        self.tool_calls.append((call, seen, fault))

    @property
    def replies(self) -> list[Reply | None]:
        return [reply for _, reply, _, _ in self.exchanges]


class Bench:
    """One trial in the tunnel: a scripted model and metered tools over one plan."""

    def __init__(
        self,
        plan: Plan,
        profile: Profile | str = "clean",
        *,
        seed: int = 0,
        repeat: int = 0,
        tools: Sequence[Tool] = TOOLS,
        real_time: bool = False,
    ) -> None:
        self.plan = plan
        self.profile = load_profile(profile) if isinstance(profile, str) else profile
        task = Task("t", Query(QUESTION), None, plan=plan)
        replayed = run_blocking(replay(task, Suite("s", "1", (task,), lambda _: StatelessEnvironment(tuple(tools)))))
        self.oracle = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in replayed}
        self.calls = {call.call_id: ToolCall(call.tool, call.arguments) for call in replayed}
        """The plan's calls with results in the place of references."""
        self.expected = NOT_DETERMINED if plan.answer is None else render_value(planned_answer(task, replayed))
        """The right answer as text."""
        self.ear = Ear()
        self.meter = Meter()
        self.tunnel = Tunnel(real_time=real_time)
        self.toolbox = MeteredToolbox(tools, self.ear.tool_call, self.tunnel)
        script = Script(plan, self.oracle, self.profile, seed, "t", repeat, {tool.name: tool.spec for tool in tools})
        self.scripted = Scripted(script, self.tunnel)
        self.model: Model = MeteredModel(self.scripted, self.meter, self.ear.exchange, self.tunnel)

    def request(self, *texts: str, **changes: Any) -> Request:
        """A deciding request that shows these texts and offers all tools."""
        return Request(tuple(Message("user", text) for text in (QUESTION, *texts)), **{"tools": self.toolbox.specs} | changes)

    def results(self, *names: str) -> dict[str, str]:
        """Make these planned calls, all of them where none is named; what a loop would see of each."""
        return {name: run_blocking(self.toolbox.call(self.calls[name])).data for name in names or self.calls}

    def view(self, *texts: str, tools: Sequence[str] = ("add", "concat", "reject")) -> PromptView:
        """What the policy makes of a prompt of these texts."""
        return read_prompt(self.plan, self.oracle, self.tunnel.ledger, "\n".join((QUESTION, *texts)), tools)

    async def run(
        self,
        limit: int = 20,
        *,
        codec: Codec | None = None,
        scope: str = "",
        feedback: bool = True,
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> Any:
        """The minimal loop; gives the answer, or None at the limit.

        `feedback`: whether errors are shown to the model. `pause`: awaited before each request and each call.
        """
        messages = [Message("user", QUESTION)]
        for _ in range(limit):
            if pause is not None:
                await pause()
            try:
                reply = await self.model.complete(Request(tuple(messages), self.toolbox.specs, codec=codec, scope=scope))
            except ModelError as error:
                messages += [Message("user", f"No reply came: {error}")] if feedback else []
                continue
            try:
                move = (codec or NATIVE).parse(reply)
            except WireError as error:
                messages += [Message("assistant", reply.text), Message("user", f"Unreadable: {error}")] if feedback else []
                continue
            if isinstance(move, Answer):
                return move.value
            assert isinstance(move, Act)
            shown = [Message("assistant", reply.text, reply.calls)]
            for call in move.calls:
                if pause is not None:
                    await pause()
                seen = await self.toolbox.call(call)
                if seen.ok or feedback:
                    shown.append(Message("tool", seen.data, call_id=call.call_id))
            messages += shown if len(shown) > 1 else []
        return None


@st.composite
def plans(draw: st.DrawFn, max_calls: int = 5) -> Plan:
    """Sums, texts and calls that are to fail, with references among them; no call is made twice."""
    calls: list[PlannedCall] = []
    values: dict[str, Any] = {}
    made: list[Any] = []
    words = st.text("ab é9<&\"'{[\n", max_size=4)
    for index in range(1, draw(st.integers(0, max_calls)) + 1):
        tool = draw(st.sampled_from(("add", "add", "concat", "reject")))
        kind = int if tool == "add" else str
        earlier = [Ref(name) for name, value in values.items() if isinstance(value, kind)]
        literals: st.SearchStrategy[Any] = st.integers(-999, 999) if tool == "add" else words
        items = st.one_of(literals, st.sampled_from(earlier)) if earlier else literals
        arguments = {"text": draw(items)} if tool == "reject" else {"a": draw(items), "b": draw(items)}
        resolved = resolve(arguments, values)
        if (tool, resolved) in made:
            continue
        made.append((tool, resolved))
        name = f"c{index}"
        calls.append(planned(name, tool, fails=tool == "reject", **arguments))
        if tool != "reject":
            values[name] = resolved["a"] + resolved["b"]
    known = [Ref(name) for name in values]
    single = st.one_of(st.integers(), words, *([st.sampled_from(known)] if known else []))
    answer = draw(st.one_of(st.none(), single, st.lists(single, max_size=2), st.dictionaries(words, single, max_size=2)))
    return Plan(tuple(calls), answer)


def depth(plan: Plan) -> int:
    """The longest chain of calls that need one another: how many rounds a model of many calls at once takes."""
    levels: dict[str, int] = {}
    for call in plan.calls:
        levels[call.id] = 1 + max((levels[name] for name in plan.dependencies[call.id]), default=0)
    return max(levels.values(), default=0)


def issue(ledger: Ledger, tool: str, arguments: Mapping[str, Any], text: str, value: Any, ok: bool) -> ReceiptEntry:
    """Add the receipt of a call that a test says was made."""
    return ledger.sign(call_digest(tool, arguments), text, value, ok)


class OneCall(NativeCodec):
    """Native calls, one at a time."""

    max_calls = 1


def profile(*kinds: str, never: float = 0, attempts: float = 1, **more: Any) -> Profile:
    """Every point that can be struck is struck; by default a mistake clears when the request shows the error, and not before."""
    clears = Clears(never=never, attempts=attempts, nothing=0, failed=0, words=1)
    return Profile(name="one", rates=dict.fromkeys(kinds, 1 / len(kinds) if kinds else 0), clears=clears, **more)


def settled(trial: Bench) -> list[tuple[str, str, bool, bool, bool]]:
    """(point, kind, landed, absorbed, recovered) of each fault."""
    trial.tunnel.settle()
    return [(str(f.point), f.kind, f.landed, f.absorbed, f.recovered) for f in trial.tunnel.faults]


def run(trial: Bench, **how: Any) -> Any:
    return run_sync(trial.run(**{"codec": CODEC} | how))
