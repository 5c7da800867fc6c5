"""The laws: every built-in design keeps them, and for each there is a loop that breaks it and no other."""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.checks.loop import LAWS, Finding, check_loop
from loopbench.checks.loop.check import NOT_CHECKED
from loopbench.checks.loop.contract import illegal
from loopbench.checks.loop.random_moves import any_move, any_reply
from loopbench.checks.loop.template_loop import ObjectCodec, TemplateLoop
from loopbench.loops.bare import Bare
from loopbench.models.native import NATIVE
from loopbench.protocol import (
    SILENT,
    Act,
    Answer,
    BudgetExceeded,
    Capabilities,
    Chunk,
    Inexpressible,
    Loop,
    Message,
    Model,
    Move,
    NativeCall,
    Observation,
    Observer,
    Outcome,
    Program,
    Prompted,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    WireError,
    own_prompt,
)
from loopbench.protocol.names import parse_spec
from loopbench.runs.options import options_of
from loopbench.runs.registry import builtin_names, find, make_loop


def not_kept(loop: Loop) -> dict[str, str]:
    """Law → counterexample, of the laws that do not hold."""
    return {finding.law: finding.detail for finding in check_loop(loop) if finding.status == "failed"}


# --- the designs ---


def spec_of(name: str) -> str:
    """A built-in design as it is typed; one that goes round another gets the bare one."""
    return f"{name}(loop=bare)" if "loop" in options_of(find("loop", name)) else name


ABLATIONS = (
    "bare(on_provider_error=observe)",
    "bare(max_consecutive_errors=none)",
    "bare(max_steps=1)",
    "react_extract(extract=false)",
    "react_extract(on_parse_error=observe, on_unknown_tool=observe, extract=false)",
    "react_extract(overflow_attempts=0, parse_retries=2, tell_extract=true)",
    "react_extract(max_iterations=1)",
    "repeat_guard(loop=bare, stop_at=5)",
    "phased(tool_layout=agent)",
    "stateless(execution_mode=parallel)",
)


@pytest.mark.parametrize("text", [*map(spec_of, builtin_names("loop")), *ABLATIONS])
def test_every_built_in_design_keeps_every_law(text):
    assert not not_kept(make_loop(parse_spec(text)))


def test_findings_come_in_the_order_of_the_laws_and_are_the_same_again():
    found = check_loop(Bare())
    assert [finding.law for finding in found] == [law.name for law in LAWS]
    assert check_loop(Bare()) == found
    assert found[0] == Finding("contract", "ok")


def test_the_check_runs_inside_an_event_loop_too():
    async def inside() -> dict[str, str]:
        return not_kept(Bare())

    assert not asyncio.run(inside())


@given(st.integers(1, 12))
@settings(max_examples=5, deadline=None)
def test_the_laws_hold_for_every_limit_of_a_design_that_keeps_them(max_steps):
    assert not not_kept(TemplateLoop(max_steps))


def test_an_ablation_without_tools_in_its_prompt_is_told_so():
    broken = not_kept(Bare(instructions=None))
    assert broken.keys() == {"step limit", "tool errors", "finishing"}
    assert "never called" in broken["tool errors"]


def test_what_a_loop_declares_not_to_do_is_not_asked_of_it():
    class Hiding(TemplateLoop):
        shows_tool_errors = False

    def statuses(loop: Loop) -> dict[str, str]:
        return {finding.law: finding.status for finding in check_loop(loop)}

    assert statuses(Hiding())["tool errors"] == "not applicable"
    assert statuses(Bare(on_provider_error="observe"))["provider error"] == "not applicable"
    assert statuses(Unfrozen())["prompts"] == "not applicable"


# --- loops that break one law ---


class Changed:
    """A model or its requests, changed on the way."""

    capabilities = Capabilities()

    def __init__(self, model: Model, change: Callable[[Request], Request] = lambda request: request) -> None:
        self.model = model
        self.change = change

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self.change(request))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


class Within(Toolbox):
    """Tools round tools."""

    def __init__(self, tools: Toolbox) -> None:
        super().__init__(tools)
        self.tools = tools

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        return await self.tools.call(call, validate=validate)


class Own(TemplateLoop):
    """The template, to be broken in one place."""

    __slots__ = ()

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await super().run(query, self.tools(tools), self.model(model), observer)

    def tools(self, tools: Toolbox) -> Toolbox:
        return tools

    def model(self, model: Model) -> Model:
        return model


class Nameless(Own):
    name: ClassVar[str] = ""


class Generous(Own):
    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 5)


class Mean(Own):
    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps)


class Endless(Own):
    """Unreadable replies do not count."""

    def model(self, model: Model) -> Model:
        class Patient(Changed):
            async def complete(self, request: Request) -> Reply:
                reply = await super().complete(request)
                while reply.text == "%%% no format at all %%%":
                    reply = await super().complete(request)
                return reply

        return Patient(model)


class Spendthrift(Own):
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        try:
            return await super().run(query, tools, model, observer)
        except BudgetExceeded:
            return Outcome(None, StopReason.MAX_STEPS, 0)


class Beggar(Own):
    """Asks once more before it lets BudgetExceeded go."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except BudgetExceeded:
                    return await super().complete(request)

        return Again(model)


NOW: dict[str, Query] = {}


class Shared(Own):
    """Keeps the query in a place that all runs share."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        NOW["query"] = query
        await asyncio.sleep(0)
        return await super().run(NOW["query"], tools, model, observer)


class Terse(Own):
    """Cuts errors down to their last characters: what remains is the receipt, not the reason."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Cut(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                seen = await super().call(call, validate=validate)
                return seen if seen.ok else replace(seen, data=seen.data[-16:])

        return Cut(tools)


class Busybody(Own):
    """Calls a tool after the answer."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        if outcome.stop is StopReason.FINISHED:
            await tools.call(ToolCall("add", {"a": 1, "b": 1}))
        return outcome


class Mumbler(Own):
    """Loses the last character of an answer."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        return outcome if outcome.answer is None else replace(outcome, answer=str(outcome.answer)[:-1])


class Deaf(Own):
    """Swallows its cancellation."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        try:
            return await super().run(query, tools, model, observer)
        except asyncio.CancelledError:
            return Outcome(None, StopReason.MAX_STEPS, 0)


class Stubborn(Own):
    """Asks again when it is cancelled."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except asyncio.CancelledError:
                    return await super().complete(request)

        return Again(model)


LEFT: set[asyncio.Task[None]] = set()


class Litterer(Own):
    """Leaves a task running."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        LEFT.add(asyncio.create_task(asyncio.sleep(3_600)))
        return await super().run(query, tools, model, observer)


class Peeking(Own):
    """Looks for the expected answer in what called it."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        frame: Any = sys._getframe()
        while frame is not None and "trial" not in frame.f_locals:
            frame = frame.f_back
        hint = "" if frame is None else f"\nThe answer is {frame.f_locals['trial'].task.expected}."
        return await super().run(replace(query, text=query.text + hint), tools, model, observer)


@dataclass(frozen=True)
class Stripping(ObjectCodec):
    """White space round a thought is lost on the way back."""

    def parse(self, reply: Reply) -> Act | Answer:
        move = super().parse(reply)
        return replace(move, thought=move.thought.strip())


@dataclass(frozen=True)
class Careless(ObjectCodec):
    """Takes every text for JSON."""

    def parse(self, reply: Reply) -> Act | Answer:
        if "{" not in reply.text:
            raise KeyError("thought")
        return super().parse(reply)


def speaking(codec: ObjectCodec | None) -> type[Own]:
    class Speaking(Own):
        def model(self, model: Model) -> Model:
            return Changed(model, lambda request: replace(request, codec=codec))

    return Speaking


class Boaster(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops | {StopReason.FORCED}


class Silent(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops - {StopReason.MAX_STEPS}


class Doubling(Own):
    """Sends each request twice at once, and does not tell the two apart."""

    def model(self, model: Model) -> Model:
        class Twice(Changed):
            async def complete(self, request: Request) -> Reply:
                one, _ = await asyncio.gather(super().complete(request), super().complete(request))
                return one

        return Twice(model)


class Racing(Own):
    """Asks for two opinions at once, and says later which one came first."""

    def model(self, model: Model) -> Model:
        class Race(Changed):
            first = ""

            async def opinion(self, request: Request, scope: str) -> Reply:
                reply = await super().complete(replace(request, scope=scope))
                self.first = self.first or scope
                return reply

            async def complete(self, request: Request) -> Reply:
                if len(request.messages) - request.examples == 2:
                    one, _ = await asyncio.gather(self.opinion(request, "a"), self.opinion(request, "b"))
                    return one
                told = Message("user", f"Opinion {self.first} came first.")
                return await super().complete(replace(request, messages=(*request.messages, told)))

        return Race(model)


class Brittle(Own):
    """Does not survive a tool that is not there."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Strict(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                if call.name not in self:
                    raise LookupError(call.name)
                return await super().call(call, validate=validate)

        return Strict(tools)


class Apologetic(Own):
    """Answers though the provider failed."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        return replace(outcome, answer="Sorry.") if outcome.stop is StopReason.PROVIDER_ERROR else outcome


class Retrying(Own):
    """Asks a failing provider again."""

    def model(self, model: Model) -> Model:
        class Again(Changed):
            async def complete(self, request: Request) -> Reply:
                try:
                    return await super().complete(request)
                except ProviderError:
                    return await super().complete(request)

        return Again(model)


class Vague(Own):
    """Takes an overflow for the limit, unless it is the first request."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        late = outcome.stop is StopReason.CONTEXT_OVERFLOW and outcome.steps > 0
        return replace(outcome, stop=StopReason.MAX_STEPS) if late else outcome


class SystemLast(Own):
    """Ends with a second system message."""

    def model(self, model: Model) -> Model:
        return Changed(model, lambda request: replace(request, messages=(*request.messages, Message("system", "Be brief."))))


class Orphaning(Own):
    def model(self, model: Model) -> Model:
        orphan = Message("tool", "a result", call_id="call_0")
        return Changed(model, lambda request: replace(request, messages=(*request.messages, orphan)))


class Asking(Own):
    """Its requests are changed where they say whose they are."""

    def model(self, model: Model) -> Model:
        return Changed(model, lambda request: replace(request, **self.told(request)))

    def told(self, request: Request) -> dict[str, Any]:
        return {}


class Doubtful(Own):
    """Adds a word whenever its prompts are set."""

    def with_predictors(self, program: Program) -> Self:
        own = program["decide"]
        return super().with_predictors({"decide": replace(own, instructions=f"{own.instructions} Really.")})


class Closed(Own):
    """Has predictors, and asks what it always asks."""

    def with_predictors(self, program: Program) -> Self:
        return self


class Impressed(Own):
    """Is changed itself."""

    def with_predictors(self, program: Program) -> Self:
        made = super().with_predictors(program)
        object.__setattr__(self, "program", made.program)
        return made


class Handing(Own):
    """Gives what is no loop."""

    def with_predictors(self, program: Program) -> Any:
        return program


class Quiet(Asking):
    """Does not announce demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"examples": 0}


class Careful(Asking):
    """Says more where there are demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        hint = (Message("user", "So much for the examples."),) if request.examples else ()
        return {"messages": (*request.messages[: 1 + request.examples], *hint, *request.messages[1 + request.examples :])}


class Anonymous(Asking):
    """Does not say whose its requests are."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": None}


class Misnamed(Asking):
    """Says that another asks."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": replace(told_by(request), predictor="other")}


class Laconic(Asking):
    """Leaves the reply out of its demonstrations."""

    def told(self, request: Request) -> dict[str, Any]:
        return {"prompted": replace(told_by(request), outputs=lambda reply: {})}


class Foresighted(Own):
    """Its inputs are read from a conversation that goes on."""

    def model(self, model: Model) -> Model:
        class Live(Changed):
            said = ""

            async def complete(self, request: Request) -> Reply:
                inputs = told_by(request).inputs
                late = replace(told_by(request), inputs=lambda: {"conversation": f"{inputs()['conversation']}{self.said}"})
                reply = await super().complete(replace(request, prompted=late))
                self.said += reply.text
                return reply

        return Live(model)


class Alike(Own):
    """Two predictors that nobody can tell apart."""

    @property
    def predictors(self) -> Program:
        return {**self.program, "answer": self.program["decide"]}


class Speechless(Own):
    """Has predictors in name only."""

    @property
    def predictors(self) -> Program:
        return {}


class Gossip(Own):
    """Two predictors; the one that is asked is told what the other is."""

    @property
    def predictors(self) -> Program:
        return {"summarize": own_prompt("Summarize.", "summary"), **self.program}

    def model(self, model: Model) -> Model:
        told = Message("user", f"By the way: {self.predictors['summarize'].instructions}")
        return Changed(model, lambda request: replace(request, messages=(*request.messages, told)))


def told_by(request: Request) -> Prompted:
    assert request.prompted is not None
    return request.prompted


class Twice(Own):
    """Makes every call again, to be sure."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Again(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                seen = await super().call(call, validate=validate)
                return await super().call(call, validate=validate) if seen.ok else seen

        return Again(tools)


class Sleepy(Own):
    """Sleeps without letting anybody else have a turn."""

    def tools(self, tools: Toolbox) -> Toolbox:
        class Slow(Within):
            async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
                time.sleep(0.15)
                return await super().call(call, validate=validate)

        return Slow(tools)


BROKEN: tuple[tuple[str, type[Own], str], ...] = (
    ("contract", Nameless, "name is ''"),
    ("step limit", Generous, "tool steps were run; at most 1"),
    ("step limit", Mean, "a plan of 1 calls: 1 were made, and the run stopped as max_steps"),
    ("budget", Spendthrift, "returned an Outcome with stop max_steps"),
    ("budget", Beggar, "1 further model calls"),
    ("no state", Shared, "at the same time as others"),
    ("tool errors", Terse, "the frobnicator is jammed"),
    ("finishing", Busybody, "add was called after the model had answered"),
    ("finishing", Mumbler, "the answer is ''; 8 is right"),
    ("once", Twice, "add 2 times instead of 1 was run"),
    ("cancellation", Deaf, "returned an Outcome with stop max_steps"),
    ("cancellation", Stubborn, "did not end within"),
    ("cancellation", Litterer, "1 asyncio tasks are still running"),
    ("gold", Peeking, "a request holds the expected answer"),
    ("codecs", speaking(Stripping()), "came back as"),
    ("codecs", speaking(Careless()), "raised KeyError"),
    ("stops", Boaster, "declared and never reached .*: forced"),
    ("stops", Silent, "stopped as max_steps, which `stops` does not declare"),
    ("order", Doubling, "two requests of scope '' are in flight together"),
    ("order", Racing, "with replies in another order .* the set of requests differs"),
    ("outcome", Brittle, "raised LookupError"),
    ("provider error", Apologetic, "answered 'Sorry.'"),
    ("provider error", Retrying, "1 further model calls"),
    ("context overflow", Vague, "stopped as max_steps"),
    ("conversation", SystemLast, "message 2 is a system message|message 3 is a system message"),
    ("conversation", Orphaning, "does not stand open before it"),
    ("prompts", Doubtful, "request 1 differs in its messages; with its own prompts a loop asks what it asked before"),
    ("prompts", Closed, "a request of 'decide' does not show its changed instructions"),
    ("prompts", Impressed, "with_predictors changed the loop itself; it must give another"),
    ("prompts", Handing, "with_predictors gave a dict; it must give a Handing"),
    ("prompts", Quiet, "Request.examples says 0 messages more"),
    ("prompts", Careful, "beside those that Request.examples announces, request 1 differs in its messages"),
    ("prompts", Anonymous, "no request says whose it is"),
    ("prompts", Misnamed, "a request is predictor 'other''s, which is none of decide"),
    ("prompts", Laconic, "the outputs of a call of 'decide' lack reply"),
    ("prompts", Foresighted, "the inputs of a call of 'decide' are others once the run is over"),
    ("prompts", Alike, "predictors 'decide' and 'answer' have the same fields"),
    ("prompts", Speechless, "predictors is empty"),
    ("prompts", Gossip, "a request of predictor 'decide' shows the instructions of 'summarize'"),
)


@pytest.mark.thorough
@pytest.mark.parametrize(("law", "design", "said"), BROKEN, ids=[design.__name__ for _, design, _ in BROKEN])
def test_a_loop_that_breaks_one_law_is_told_so_and_of_no_other(law, design, said):
    broken = not_kept(design())
    assert broken.keys() == {law}, broken
    assert re.search(said, broken[law])
    assert "\n" not in broken[law]


def test_a_run_without_end_is_given_up():
    broken = not_kept(Endless())
    assert broken.keys() == {"step limit", "outcome"}
    assert "never readable: the run made more than 200 calls; it must end by itself" in broken["step limit"]


def test_a_loop_that_blocks_is_told_so_and_is_checked_no_further():
    _, second, *others = check_loop(Sleepy())
    assert (second.law, second.status) == ("waiting", "failed")
    assert re.search(r"stood still for 0\.\d\d s in each of 3 runs; await, or use a thread", second.detail)
    assert {(finding.status, finding.detail) for finding in others} == {("not applicable", NOT_CHECKED)}


def test_every_law_can_fail():
    assert {law for law, _, _ in BROKEN} | {"waiting"} == {law.name for law in LAWS}


def test_the_template_that_these_loops_are_made_of_breaks_none():
    assert not not_kept(Own())


class Renamed(Own):
    def with_step_limit(self, tool_steps: int) -> Any:
        return TemplateLoop(tool_steps + 1)


class Unfrozen:
    """The template behind a face that keeps what it is told."""

    name = "unfrozen"
    stops = TemplateLoop.stops

    def __init__(self) -> None:
        self.limit = 9
        self.runs = 0

    def with_step_limit(self, tool_steps: int) -> Unfrozen:
        made = Unfrozen()
        made.limit = tool_steps
        return made

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Any:
        self.runs += 1
        return await TemplateLoop().with_step_limit(self.limit).run(query, tools, model, observer)


class Itself(Unfrozen):
    """A limit that changes the loop itself."""

    def with_step_limit(self, tool_steps: int) -> Unfrozen:
        self.limit = tool_steps
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Any:
        return await TemplateLoop().with_step_limit(self.limit).run(query, tools, model, observer)


class Text(Own):
    async def run(self, *given: Any) -> Any:
        return "done"


class Late(Own):
    stops: ClassVar[frozenset[StopReason]] = TemplateLoop.stops | {StopReason.TIMEOUT}


class Overconfident(Own):
    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return replace(await super().run(query, tools, model, observer), confidence=1.5)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        (Renamed, "with_step_limit gave a TemplateLoop; it must give a Renamed"),
        (Unfrozen, "a run changed runs; the configuration is frozen"),
        (Itself, "with_step_limit changed limit of the loop itself"),
        (Text, "run() returned a str, not an Outcome"),
        (Late, "stops holds timeout, which only the harness sets"),
        (Overconfident, "confidence is 1.5"),
    ],
)
def test_what_is_no_loop_is_told_so(design, said):
    assert said in not_kept(design())["contract"]


def test_an_attribute_that_raises_is_a_finding_and_no_crash_of_the_check():
    class Falling(Own):
        def with_step_limit(self, tool_steps: int) -> Self:
            raise RuntimeError("no limits here")

    broken = not_kept(Falling())
    assert len(broken) > 10
    assert set(broken.values()) == {"the loop raised RuntimeError: no limits here"}


def test_requests_without_a_codec_are_told_so():
    assert "has no codec" in not_kept(speaking(None)())["codecs"]


# --- what the laws are tried with ---


@given(st.integers())
@settings(max_examples=200, deadline=None)
def test_moves_and_replies_are_of_all_kinds_and_the_same_for_a_seed(seed):
    one, other = random.Random(seed), random.Random(seed)
    assert repr(any_move(one))[:30] == repr(any_move(other))[:30]  # beyond, an object may show its address
    assert any_reply(random.Random(seed), Reply("{}")) == any_reply(random.Random(seed), Reply("{}"))


def test_among_the_moves_are_many_that_a_format_can_say():
    rng = random.Random(0)
    moves = [any_move(rng) for _ in range(400)]
    said = {type(move).__name__ for move in moves if can_say(move)}
    assert said == {"Act", "Answer"}
    assert {type(move).__name__ for move in moves} == {"Act", "Answer", "Understanding", "Tasks", "Completion", "Recovery", "Text"}


def can_say(move: Move) -> bool:
    try:
        NATIVE.render(move)
    except Inexpressible:
        return False
    return True


def test_among_the_replies_are_readable_and_unreadable_ones():
    rng = random.Random(0)
    codec = ObjectCodec()
    sound = codec.render(Act("Add.", (ToolCall("add", {"a": 1}),)))
    kinds = {reads(codec, any_reply(rng, sound)) for _ in range(300)}
    assert kinds == {True, False}


def reads(codec: ObjectCodec, reply: Reply) -> bool:
    try:
        return isinstance(codec.parse(reply), Act | Answer)
    except WireError:
        return False


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A system message, then texts and calls with their results in any order."""
    made = [Message("system", "Be brief.")] if draw(st.booleans()) else []
    made.append(Message("user", "Well?"))
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=3))
        made.append(Message("assistant", "Hm.", tuple(NativeCall(name, "add", "{}") for name in ids)))
        made += [Message("tool", "3", call_id=name) for name in draw(st.permutations(ids))]
    return made


@given(conversations(), st.data())
def test_a_legal_conversation_is_no_more_once_a_result_is_lost_doubled_or_moved(messages, data):
    assert illegal(messages) == ""
    results = [index for index, message in enumerate(messages) if message.role == "tool"]
    if results:
        at = data.draw(st.sampled_from(results))
        result = messages[at]
        assert illegal([*messages[:at], *messages[at + 1 :]])
        assert illegal([*messages[:at], result, *messages[at:]])
        assert illegal([result, *messages[:at], *messages[at + 1 :]])
    assert illegal([*messages, Message("system", "Be long.")])
