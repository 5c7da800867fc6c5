"""One trial: whatever a loop, a model, a tool or a suite does ends in one record, sorted by its cause."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopbench.datasets.task import StatelessEnvironment, Suite
from loopbench.loops.bare import CODEC, Bare
from loopbench.metrics.record import Record, records_digest
from loopbench.models.metering import Budget, Meter
from loopbench.models.profiles import load_profile
from loopbench.protocol import (
    Capabilities,
    Chunk,
    Message,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Tool,
    ToolCall,
)
from loopbench.protocol.names import parse_spec
from loopbench.runs.registry import Spec, make_loop
from loopbench.runs.schedule import Arm, Trial
from loopbench.runs.trial import trial as trial_module
from loopbench.runs.trial.setting import FinishedTrial, NotRun, TrialContext
from loopbench.runs.trial.trial import run_trial
from loopbench.runs.trial_models import TrialModels

ANSWER = '{"final_answer": "42"}'
FINISHED = Outcome("42", StopReason.FINISHED, 0)


def asked(text: str = "?") -> Request:
    return Request((Message("user", text),), role=Role.DECIDE, codec=CODEC)


class Replies:
    """A real model, as far as a trial can tell: replies and failures from a list, the last one again and again."""

    name = "openai/fake"
    capabilities = Capabilities()

    def __init__(self, *replies: str | Exception, delay_s: float = 0.0) -> None:
        self.replies = replies
        self.delay_s = delay_s
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        reply = self.replies[min(self.asked, len(self.replies) - 1)]
        self.asked += 1
        await asyncio.sleep(self.delay_s)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def sound(done: FinishedTrial) -> Record:
    """The record, after a look at what holds for every trial: strict JSON, within bounds, the trace its own."""
    record = done.record
    assert json.loads(json.dumps(record.to_json(), allow_nan=False)) == record.to_json() | {"faults": record.to_json()["faults"]}
    assert 0 <= record.accuracy <= 1
    assert record.confidence is None or 0 <= record.confidence <= 1
    assert (record.status == "scored") == ("accuracy" in record.scores)
    assert record.status == "scored" or record.reason
    if done.trace:
        trace = json.loads(done.trace, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert (trace["arm"], trace["task"], trace["repeat"]) == record.key
        assert done.trace.count(b"\n") == 1
        assert done.trace.isascii()
    return record


# --- answers, limits, crashes ---


def test_a_right_answer_is_scored(one_trial, tiny):
    record = sound(one_trial(Bare(), tiny()))
    assert (record.status, record.stop, record.accuracy, record.answer) == ("scored", "finished", 1.0, "42")
    assert (record.steps, record.lm_calls, record.tool_calls, record.reason) == (2, 2, 1, "")


def test_a_limit_that_is_reached_is_scored(one_trial, tiny):
    record = sound(one_trial(Bare(max_steps=1), tiny()))
    assert (record.status, record.stop, record.accuracy) == ("scored", "max_steps", 0.0)


class Unkind(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Other(BaseException):
    """Neither an Exception nor one that Python knows."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\nb"), "ValueError: a\nb"),
        (KeyError("x"), "KeyError: 'x'"),
        (RecursionError(), "RecursionError"),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit: 3"),
        (Other("x"), "Other: x"),
        (Unkind(), "Unkind: (no message"),
        (ExceptionGroup("two", [ValueError("x"), OSError("y")]), "ExceptionGroup: two"),
        (ValueError("x" * 10**6), "characters in all"),
        (ValueError("\ud800"), "ValueError: ?"),
        (StopIteration(1), "StopIteration"),
        (TimeoutError("its own"), "TimeoutError: its own"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("when", ["at once", "in the middle", "before it is awaited"])
def test_a_crash_is_scored_0_and_says_what_it_was(one_trial, tiny, written, error, said, when):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        if when == "in the middle":
            await model.complete(asked())
        raise error

    def at_once(*arguments: Any) -> Outcome:
        raise error

    record = sound(one_trial(written(at_once if when == "before it is awaited" else run), tiny()))
    assert (record.status, record.stop, record.accuracy) == ("scored", "crashed", 0.0)
    assert said in record.reason
    assert len(record.reason) < 2_500
    assert record.errors["crash"] == 1


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "gave a NoneType, not an Outcome"),
        ("42", "gave a str"),
        ({"answer": "42"}, "gave a dict"),
        (Outcome("42", "finished", 1), "stop is 'finished', not a StopReason"),  # type: ignore[arg-type]
        (Outcome("42", None, 1), "stop is 'None', not a StopReason"),  # type: ignore[arg-type]
        (Outcome("42", StopReason.TIMEOUT, 1), "'timeout', which only the harness sets"),
        (Outcome("42", StopReason.BUDGET, 1), "'budget', which only the harness sets"),
        (Outcome("42", StopReason.CRASHED, 1), "'crashed', which only the harness sets"),
    ],
)
def test_what_is_no_outcome_is_a_crash(one_trial, tiny, written, left, said):
    async def run(*arguments: Any) -> Any:
        return left

    record = sound(one_trial(written(run), tiny()))
    assert (record.status, record.stop, record.accuracy) == ("scored", "crashed", 0.0)
    assert said in record.reason


def test_a_loop_whose_run_is_no_coroutine_crashes(one_trial, tiny, written):
    record = sound(one_trial(written(lambda *arguments: FINISHED), tiny()))
    assert (record.stop, record.accuracy) == ("crashed", 0.0)


def test_a_loop_that_cancels_itself_is_scored_as_cancelled(one_trial, tiny, written):
    async def run(*arguments: Any) -> Outcome:
        raise asyncio.CancelledError

    record = sound(one_trial(written(run), tiny()))
    assert (record.status, record.stop, record.accuracy) == ("scored", "cancelled", 0.0)


class Thing:
    def __repr__(self) -> str:
        return "<Thing object at 0x7f0011223344>"


class Treacherous(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise ValueError("not mine")


LOOPED: list[Any] = [1]
LOOPED.append(LOOPED)
WEIRD = st.sampled_from(
    [
        float("nan"), float("inf"), -0.0, 10**400, "\ud800", "\x00\x1b[31m", "", None, b"42", object(), Thing(), {1, 2}, LOOPED,
        {1: 2, "1": 3}, {(1, 2): 3}, {"x": float("nan")}, Treacherous(a=1), range(3), ValueError("x"), 42, 42.0, True, ("42",),
    ]
)  # fmt: skip
VALUE = st.recursive(
    WEIRD | st.text(st.characters()) | st.floats() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUE, VALUE, VALUE, VALUE)
@example([], [], Treacherous(a=1), {})
def test_whatever_a_loop_leaves_or_does_ends_in_one_record(one_trial, tiny, written, answer, confidence, details, argument):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        observer.note("seen", event="mine", value=argument)
        await tools.call(ToolCall("double", {"n": argument, "more": [argument]}))
        named: Any = {argument if isinstance(argument, str | int) else "k": argument}
        await tools.call(ToolCall("double", named))
        return Outcome(answer, StopReason.FINISHED, 1, confidence, details)

    suite = tiny(scorer="exact")
    first, second = (sound(one_trial(written(run), suite)) for _ in range(2))
    assert (first.status, first.stop) == ("scored", "finished"), first.reason
    assert records_digest([first]) == records_digest([second])
    assert records_digest([Record.from_json(json.loads(json.dumps(first.to_json())))]) == records_digest([first])


@pytest.mark.parametrize("scorer", ["exact", "numeric", "normalized", "set", "f1"])
@pytest.mark.parametrize("answer", ["x" * 5_000_000, "1 " * 2_000_000, "not " * 500_000, ["42"] * 300_000])
def test_an_answer_without_end_is_cut_and_scored(one_trial, tiny, written, scorer, answer):
    async def run(*arguments: Any) -> Outcome:
        return Outcome(answer, StopReason.FINISHED, 1)

    began = time.monotonic()
    record = sound(one_trial(written(run), tiny(scorer=scorer, expected="42")))
    assert (record.status, record.accuracy) == ("scored", 0.0) or scorer == "f1"
    assert len(record.answer) < 101_000
    assert time.monotonic() - began < 20


def test_events_that_json_cannot_say_keep_their_place(one_trial, tiny, written):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        await tools.call(ToolCall("double", {"n": float("nan"), "deep": {"k": [1, float("inf")], (1, 2): 3}}))
        return FINISHED

    trace = json.loads(one_trial(written(run), tiny()).trace)
    assert trace["events"][0]["arguments"] == {"n": "NaN", "deep": {"k": [1, "Infinity"], "[1, 2]": 3}}


def test_a_trace_shows_a_move_as_it_was_read_whatever_the_loop_does_with_it(one_trial, tiny, written):
    """Harness and loop read a reply in one, so both hold the same move."""
    said = '{"tool_name": "double", "arguments": {"n": 21, "deep": [1]}}'

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        move: Any = CODEC.parse(await model.complete(asked()))
        move.calls[0].arguments["n"] = 0
        move.calls[0].arguments["deep"].append(2)
        return FINISHED

    trace = json.loads(one_trial(written(run), tiny(), models={"fake": Replies(said)}).trace)
    assert trace["events"][0]["move"]["calls"] == [{"name": "double", "arguments": {"n": 21, "deep": [1]}}]


# --- time ---


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(trial_module, "GRACE_S", 0.2)


async def hang(*arguments: Any) -> Outcome:
    await asyncio.sleep(100)
    return FINISHED


@pytest.mark.parametrize("models", [None, {"fake": Replies(ANSWER)}])
def test_a_loop_that_waits_for_nothing_until_its_time_is_up_is_scored_0(one_trial, tiny, written, impatient, models):
    record = sound(one_trial(written(hang), tiny(), models=models, timeout_s=0.2))
    assert (record.status, record.stop, record.accuracy) == ("scored", "timeout", 0.0)


def test_a_scripted_trial_that_was_still_at_work_when_its_time_was_up_is_errored(one_trial, tiny, written, impatient):
    async def works(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            await tools.call(ToolCall("double", {"n": 1}))

    record = sound(one_trial(written(works), tiny(), timeout_s=0.2))
    assert (record.status, record.stop, record.scores) == ("errored", "timeout", {})
    assert "was still at work" in record.reason


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the interpreter, of a coroutine that cannot end
@pytest.mark.parametrize("swallowed", [asyncio.CancelledError, BaseException])
@pytest.mark.parametrize("doing", ["sleeping", "asking", "calling"])
def test_a_loop_that_swallows_its_cancellation_is_scored_0_and_holds_nothing_up(
    one_trial, tiny, written, impatient, swallowed, doing
):
    model = Replies("noise")

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            try:
                if doing == "sleeping":
                    await asyncio.sleep(0.01)
                elif doing == "asking":
                    await model.complete(asked())
                else:
                    await tools.call(ToolCall("double", {"n": 1}))
            except swallowed:
                pass

    began = time.monotonic()
    for models in (None, {"fake": model}):
        record = sound(one_trial(written(run), tiny(), models=models, timeout_s=0.1))
        assert (record.status, record.stop, record.accuracy) == ("scored", "timeout", 0.0)
        assert "cancellation was swallowed" in record.reason
    assert time.monotonic() - began < 10
    gc.collect()


@pytest.mark.parametrize("doing", ["asking", "calling"])
def test_a_loop_that_never_waits_still_meets_the_time_limit(one_trial, tiny, written, doing):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            await (model.complete(asked()) if doing == "asking" else tools.call(ToolCall("double", {"n": 1})))

    record = sound(one_trial(written(run), tiny(), timeout_s=0.2))
    assert (record.status, record.stop) == ("errored", "timeout")


def test_what_a_loop_leaves_running_gets_no_more_replies(tiny, written):
    model = Replies("noise", delay_s=0.01)

    async def ask_on(inner: Any) -> None:
        while True:
            await inner.complete(asked())

    left: list[asyncio.Task[None]] = []

    async def run(query: Query, tools: Any, inner: Any, observer: Any) -> Outcome:
        left.append(asyncio.create_task(ask_on(inner)))
        await asyncio.sleep(0.03)
        return FINISHED

    async def go() -> None:
        arm = Arm("arm", Spec("loop", {}), written(run), "fake", load_profile("clean"))
        suite = tiny()
        sound(await run_trial(Trial(arm, suite.tasks[0], 0, 0), TrialContext(suite, TrialModels({"fake": model}))))
        await asyncio.sleep(0.05)
        before = model.asked
        await asyncio.sleep(0.05)
        assert model.asked == before

    asyncio.run(go())


def test_cancellation_from_outside_passes_and_the_loop_is_told(tiny, written):
    told: list[str] = []

    async def run(*arguments: Any) -> Outcome:
        try:
            await asyncio.sleep(100)
        finally:
            told.append("cancelled")
        return FINISHED

    async def go() -> None:
        arm = Arm("arm", Spec("loop", {}), written(run), "scripted", load_profile("clean"))
        suite = tiny()
        running = asyncio.create_task(run_trial(Trial(arm, suite.tasks[0], 0, 0), TrialContext(suite)))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(go())
    assert told == ["cancelled"]


# --- designs that give up ---


@pytest.mark.parametrize("name", ["bare", "bare(max_consecutive_errors=none)", "finish(forced_finish=off)", "stateless", "phased"])
def test_words_of_a_design_that_gives_up_are_never_right(one_trial, tiny, tmp_path, name):
    """`numeric` takes the last number: "3 consecutive errors detected" would count the three chairs of the question."""
    file = tmp_path / "tools-down.toml"
    file.write_text('name = "tools-down"\n[rates]\n"tool.raises" = 1.0\n[clears]\nfeedback = 0.0\nafter = 0.0\nnever = 1.0\n')
    loop = make_loop(parse_spec(name), 5)
    said = one_trial(loop, tiny(), profile=str(file)).record.answer
    numbers = re.findall(r"\d+", str(said))
    for expected in {int(number) for number in numbers} | {3, 5, 6}:
        suite = tiny(expected=expected, plan=replace(tiny().tasks[0].plan, answer=expected))
        record = one_trial(loop, suite, profile=str(file)).record
        assert (record.status, record.accuracy) == ("scored", 0.0), record


# --- budgets ---


@pytest.mark.parametrize("swallows", [False, True])
def test_a_trials_own_budget_is_a_limit_of_the_loop(one_trial, tiny, written, swallows):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        for _ in range(5):
            try:
                await model.complete(asked())
            except Exception:
                if not swallows:
                    raise
        return FINISHED

    record = sound(one_trial(written(run), tiny(), trial_budget=Budget(calls=2)))
    assert (record.status, record.stop, record.accuracy, record.lm_calls) == ("scored", "budget", 0.0, 2)
    assert record.reason == "budget of 2 model calls used up"


@pytest.mark.parametrize("swallows", [False, True])
def test_the_runs_budget_leaves_a_trial_for_a_resume(one_trial, tiny, written, swallows, impatient):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            try:
                await model.complete(asked())
            except Exception:
                if not swallows:
                    raise

    with pytest.raises(NotRun, match="budget of 2 model calls used up"):
        one_trial(written(run), tiny(), meter=Meter(Budget(calls=2)), timeout_s=0.2)


def test_a_trial_that_needs_no_more_than_the_runs_budget_counts(one_trial, tiny):
    assert sound(one_trial(Bare(), tiny(), meter=Meter(Budget(calls=2)))).accuracy == 1.0


# --- providers, faults, suites ---


@pytest.mark.parametrize("kind", ["rate_limit", "server", "timeout", "connection", "auth"])
@pytest.mark.parametrize("loop", [Bare(), Bare(on_provider_error="observe")], ids=["stops", "goes on"])
def test_a_real_providers_failure_is_errored(one_trial, tiny, kind, loop):
    record = sound(one_trial(loop, tiny(), models={"fake": Replies(ProviderError("down", kind))}, attempt=1))
    assert (record.status, record.scores, record.attempt) == ("errored", {}, 1)
    assert record.reason == "provider: down"
    assert record.errors[f"provider.{kind}"] >= 1


def test_a_real_providers_failure_that_crashes_the_loop_is_errored(one_trial, tiny, written):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        await model.complete(asked())
        return FINISHED

    assert sound(one_trial(written(run), tiny(), models={"fake": Replies(ProviderError("down"))})).status == "errored"


def test_a_loop_that_gets_over_a_real_providers_failure_is_scored(one_trial, tiny):
    loop = Bare(on_provider_error="observe")
    record = sound(one_trial(loop, tiny(), models={"fake": Replies(ProviderError("down"), ANSWER)}))
    assert (record.status, record.stop, record.accuracy) == ("scored", "finished", 1.0)
    crashed = sound(one_trial(Bare(max_steps=1), tiny(), models={"fake": Replies("noise")}))
    assert crashed.status == "scored"


def profile_file(folder: Any, rates: str) -> str:
    file = folder / "own.toml"
    file.write_text(f'name = "own"\n[rates]\n{rates}\n[clears]\nfeedback = 0\nafter = 0\nnever = 1\n')
    return str(file)


@pytest.mark.parametrize(("kind", "stop"), [("provider.server", "provider_error"), ("wire.empty", "error_valve")])
def test_an_injected_fault_is_the_treatment_and_scored(one_trial, tiny, tmp_path, kind, stop):
    record = sound(one_trial(Bare(), tiny(), profile=profile_file(tmp_path, f'"{kind}" = 1.0')))
    assert (record.status, record.stop, record.accuracy) == ("scored", stop, 0.0)
    assert [fault.kind for fault in record.faults if fault.landed] == [kind]


@pytest.mark.parametrize(
    ("changes", "real_too", "reason"),
    [
        ({"quarantined": "wrong gold"}, True, "quarantined: wrong gold"),
        ({"plan": None, "no_plan": "no annotations"}, False, "no plan: no annotations"),
        ({"plan": None}, False, "no plan: the suite gives none"),
    ],
)
def test_a_task_that_cannot_be_asked_is_excluded_with_the_reason(one_trial, tiny, changes, real_too, reason):
    done = one_trial(Bare(), tiny(**changes))
    assert (sound(done).status, done.record.reason, done.trace) == ("excluded", reason, b"")
    real = one_trial(Bare(), tiny(**changes), models={"fake": Replies(ANSWER)})
    assert (sound(real).status == "excluded") is real_too


def test_only_so_many_replays_are_kept(arithmetic_suite, monkeypatch):
    monkeypatch.setattr(trial_module, "MAX_ORACLES", 3)
    suite, setting = arithmetic_suite, TrialContext(arithmetic_suite)
    arm = Arm("bare/clean", parse_spec("bare"), make_loop(parse_spec("bare"), 8), "scripted", load_profile("clean"))

    async def run() -> list[float]:
        return [(await run_trial(Trial(arm, task, 0, 0), setting)).record.accuracy for task in (*suite.tasks, *suite.tasks)]

    scores = asyncio.run(run())
    assert len(scores) > 6
    assert set(scores) == {1.0}
    assert list(setting.oracles) == [task.id for task in suite.tasks[-3:]]


def test_a_plan_that_does_not_replay_excludes_its_task(one_trial, tiny):
    def double(n: int) -> int:
        """Never works."""
        raise ZeroDivisionError("no")

    record = sound(one_trial(Bare(), tiny((Tool.from_function(double, blocking=False),))))
    assert record.status == "excluded"
    assert record.reason.startswith("the plan does not replay: task 't1', call 'c1'")


def score_text(judgement: Any) -> Any:
    return "one"


def score_two(judgement: Any) -> Any:
    return 2.0


def score_raises(judgement: Any) -> Any:
    raise KeyError("bug")


def score_nothing(judgement: Any) -> Any:
    return float("nan")


@pytest.mark.parametrize("scorer", [score_text, score_two, score_raises, score_nothing, None])
def test_a_scorer_that_fails_is_our_bug_not_the_loops(one_trial, tiny, scorer):
    name = "no_such_scorer" if scorer is None else f"{__name__}:{scorer.__name__}"
    record = sound(one_trial(Bare(), tiny(scorer=name)))
    assert record.status == "errored"
    assert record.reason.startswith(f"scorer {name}: ")
    assert record.stop == "finished"


@dataclass(frozen=True)
class Leaky:
    """An environment with a fault of its own."""

    inner: StatelessEnvironment
    where: str

    @property
    def tools(self) -> tuple[Tool, ...]:
        if self.where == "tools":
            raise OSError("no disk")
        return self.inner.tools

    def state(self) -> Any:
        if self.where == "state":
            raise OSError("no disk")

    def close(self) -> None:
        if self.where == "close":
            raise OSError("no disk")


def leaky(suite: Suite, where: str) -> Suite:
    """The suite, its digest taken, with environments that fail from now on."""
    inner, sane = suite.open(suite.tasks[0]), True

    def open_(task: Any) -> Any:
        if where == "open" and not sane:
            raise OSError("no disk")
        return inner if sane else Leaky(inner, where)  # type: ignore[arg-type]

    made = replace(suite, open=open_)
    assert made.digest
    sane = False
    return made


@pytest.mark.parametrize("where", ["open", "tools", "state"])
@pytest.mark.parametrize("models", [None, {"fake": Replies(ANSWER)}], ids=["scripted", "real"])
def test_an_environment_that_fails_is_errored_and_the_run_goes_on(one_trial, tiny, where, models):
    record = sound(one_trial(Bare(), leaky(tiny(), where), models=models))
    assert record.status == "errored"
    assert "OSError: no disk" in record.reason


def test_an_environment_that_cannot_be_closed_changes_no_result(one_trial, tiny, caplog):
    record = sound(one_trial(Bare(), leaky(tiny(), "close"), models={"fake": Replies(ANSWER)}))
    assert (record.status, record.accuracy) == ("scored", 1.0)
    assert "closing its environment failed: OSError: no disk" in caplog.text


def test_two_tools_of_one_name_are_the_suites_fault(one_trial, tiny):
    suite = tiny()
    tools = suite.open(suite.tasks[0]).tools
    doubled = replace(suite, open=lambda task: StatelessEnvironment((*tools, *tools)))
    record = sound(one_trial(Bare(), doubled, models={"fake": Replies(ANSWER)}))
    assert (record.status, "two tools are named 'double'" in record.reason) == ("errored", True)


# --- what a loop can see ---


def reachable(*roots: Any) -> Iterator[Any]:
    """All that attributes, slots, containers, closures and bound methods lead to; modules, classes and globals aside."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type) or type(value).__name__ == "module":
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        waiting += vars(value).values() if hasattr(value, "__dict__") else ()
        for kind in type(value).__mro__:
            waiting += [getattr(value, name) for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
        waiting += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        waiting += [getattr(value, name) for name in ("__self__", "__func__", "__wrapped__") if hasattr(value, name)]


def test_nothing_that_a_loop_is_given_but_the_scripted_model_itself_leads_to_the_answer(one_trial, tiny, written):
    gold = "the one right answer"
    found: dict[str, list[Any]] = {}
    suite: Suite = tiny(expected=gold, scorer="exact", labels={"gold": gold})
    task = suite.tasks[0]
    secrets = (task, task.plan, task.plan.calls[0], gold)  # type: ignore[union-attr]

    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        for name, root in {"query": query, "tools": tools, "observer": observer}.items():
            found[name] = [value for value in reachable(root) if any(value is secret or value == gold for secret in secrets)]
        outside = [getattr(model, name) for name in vars(model) if name != "model"]
        found["model"] = [value for value in reachable(outside) if any(value is secret for secret in secrets)]
        return FINISHED

    record = sound(one_trial(written(run), suite))
    assert record.stop == "finished", record.reason
    assert found == {"query": [], "tools": [], "observer": [], "model": []}


def test_a_trace_shows_what_happened_in_order(one_trial, tiny):
    trace = json.loads(one_trial(Bare(), tiny()).trace)
    assert [event["event"] for event in trace["events"]] == ["ask", "tool", "ask"]
    assert trace["events"][0]["move"]["calls"] == [{"name": "double", "arguments": {"n": 21}}]
    assert trace["events"][1]["data"].startswith("42 [r:")
    assert trace["events"][2]["move"]["value"] == 42


def test_a_record_tells_nothing_of_its_own_accord_of_steps_and_calls(one_trial, tiny, written):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        await model.complete(asked())
        return Outcome("42", StopReason.FINISHED, 99, 0.5, {"steps": 99})

    record = sound(one_trial(written(run), tiny()))
    assert (record.steps, record.lm_calls, record.confidence) == (1, 1, 0.5)


@pytest.mark.parametrize("profile", ["clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "provider-trouble"])
def test_a_trial_is_the_same_every_time(one_trial, arithmetic_suite, profile):
    suite = dataclasses.replace(arithmetic_suite, tasks=arithmetic_suite.tasks[5:6])
    once: Callable[[], Record] = lambda: sound(one_trial(Bare(max_steps=11), suite, profile=profile))  # noqa: E731
    assert records_digest([once()]) == records_digest([once()])
