"""Laws on a run: the contract, the step limit, the state, tool errors, the end, the gold answer and the conversation.

Rows such as G-8 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import call_digest
from whichloop.protocol import HARNESS_STOPS, Loop, Message, Outcome, Query, Reply, Request, StopReason, render_value
from whichloop.protocol.names import Spec
from whichloop.protocol.receipts import sightings
from whichloop.protocol.values import counted
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

from .law import NotApplicable, require
from .random_moves import any_reply, busy, done, say
from .scene import (
    APART,
    CHAIN,
    FAILING,
    JAMMED,
    NO_CALL,
    ONE_CALL,
    SCHEMA,
    TASKS,
    TOOLS,
    FinishedRun,
    LoggingModel,
    PolicyModel,
    RunLog,
    Scene,
    TurnPolicy,
    first_difference,
    not_looked_at,
    open_gate,
    play,
    policy_scene,
    request_text,
    scripted,
    yielding_gate,
)


def asked_again(finished: FinishedRun) -> str:
    """Return which request lacks a result that the loop had been given, so that the model decided on the call again.

    Empty if there is none, as in a run whose requests show what was found out.
    """
    shown = [sightings(request_text(request)).keys() for request in finished.log.requests]
    for decision in finished.log.decisions:
        for call in decision.calls:
            digest = call_digest(call.name, call.arguments)
            if digest in decision.given:
                before, now = shown[: decision.request - 1], shown[decision.request - 1]
                return f"request {decision.request} {_lack(call.name, any(digest in seen for seen in before), digest in now)}"
    return ""


def _lack(tool: str, was_shown: bool, is_shown: bool) -> str:
    """Return what a request does not show of the result of a tool, in words."""
    if is_shown:
        return f"shows the result of {tool} without what the task needs of it, so the model asked for it again"
    return f"{'no longer shows' if was_shown else 'does not show'} the result of {tool}, so the model asked for it again"


SPARE = 3
"""Number of tool steps allowed beyond a task's plan, as in a suite."""


# --- the contract ---


async def contract(loop: Loop) -> None:
    """A loop has a name and the stops it can reach; `run` gives an Outcome; the configuration never changes.

    The harness reads all of these, shares one instance among trials and derives limited copies of it.
    """
    require(isinstance(loop.name, str) and bool(loop.name), f"name is {loop.name!r}; it must be a text")
    stops: object = loop.stops
    require(isinstance(stops, frozenset), f"stops is a {type(stops).__name__}; it must be a frozenset of StopReason")
    odd = [stop for stop in loop.stops if not isinstance(stop, StopReason)]
    require(not odd, f"stops holds {odd}; it must hold StopReason only")
    harness = sorted(loop.stops & HARNESS_STOPS)
    require(not harness, f"stops holds {', '.join(harness)}, which only the harness sets")
    before = public_fields(loop)
    _check_outcome((await play(loop, await scripted(ONE_CALL))).outcome)
    require(public_fields(loop) == before, f"a run changed {_changed(before, public_fields(loop))}; the configuration is frozen")
    _check_limited(loop)


def _check_outcome(outcome: Outcome) -> None:
    stop: object = outcome.stop
    require(isinstance(stop, StopReason), f"the outcome's stop is {stop!r}; it must be a StopReason")
    steps: object = outcome.steps
    require(isinstance(steps, int) and steps >= 0, f"the outcome's steps is {steps!r}; it must be a count")
    confidence: object = outcome.confidence
    fine = confidence is None or (isinstance(confidence, int | float) and 0 <= confidence <= 1)
    require(fine, f"the outcome's confidence is {confidence!r}; it must be in [0, 1] or None")


def _check_limited(loop: Loop) -> None:
    before = public_fields(loop)
    three, four = loop.with_step_limit(3), loop.with_step_limit(4)
    for limited in (three, four):
        kind = type(limited).__name__
        require(type(limited) is type(loop), f"with_step_limit gave a {kind}; it must give a {type(loop).__name__}")
    after = public_fields(loop)
    require(after == before, f"with_step_limit changed {_changed(before, after)} of the loop itself; it must return another")
    require(three is not four, "with_step_limit(3) and with_step_limit(4) are one object; each must be a separate loop")


def public_fields(loop: object) -> dict[str, Any]:
    """Return the public fields of a loop for comparison; other objects than data and dataclasses count by identity."""
    names = (
        {item.name for item in dataclasses.fields(loop)} if dataclasses.is_dataclass(loop) else set(getattr(loop, "__dict__", ()))
    )
    return {name: _comparable(getattr(loop, name, None)) for name in sorted(names) if not name.startswith("_")}


def _comparable(value: Any, depth: int = 6) -> Any:
    if depth == 0 or isinstance(value, str | int | float | bool | None):
        return repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), [_comparable(getattr(value, item.name, None), depth - 1) for item in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return {repr(key): _comparable(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return id(value)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return ", ".join(name for name in {**before, **after} if before.get(name) != after.get(name))


# --- the step limit ---


def _unreadable(request: Request, count: int) -> Reply:
    return Reply("%%% no format at all %%%")


STUBBORN: Mapping[str, TurnPolicy] = {
    "always calls a tool": busy,
    "always calls a tool that raises": lambda request, count: busy(request, count, "jam"),
    "always calls a tool that does not exist": lambda request, count: busy(request, count, "shovel"),
    "always makes the same call": lambda request, count: busy(request, 1),
    "is never readable": _unreadable,
}
"""Models that never finish."""


async def step_limit(loop: Loop) -> None:
    """Under `with_step_limit(n)` a plan of n calls is solved, at most n + 1 tool steps are run, and the run ends by itself.

    A comparison gives every design the same limit (row G-8); one that uses more or fewer steps is not comparable. After the n steps
    comes one decision to end the run, which a model that never ends may spend on a call. A model that has to ask again for what its
    prompt does not show spends its steps on that, which says nothing of the limit: `results` tells of it.
    """
    for limit in (1, 2, 3):
        design = loop.with_step_limit(limit)
        for manner, policy in STUBBORN.items():
            await _check_ends(design, policy, limit, f"with_step_limit({limit}), a model that {manner}")
        task = _chain_of(limit)
        finished = await play(design, await scripted(task))
        calls, stop = len(finished.log.calls), finished.outcome.stop
        granted = calls >= limit and (stop is StopReason.FINISHED or bool(asked_again(finished)))
        where = f"with_step_limit({limit}), a plan of {counted(limit, 'call')}"
        made = f"{counted(calls, 'call was', 'calls were')} made, and the run stopped as {stop}"
        require(granted, f"{where}: {made}; a limit of n grants n tool steps, and a reply more to end the run")


async def _check_ends(design: Loop, policy: TurnPolicy, limit: int, where: str) -> None:
    finished = await play(design, policy_scene(policy))
    require(not finished.hung, f"{where}: the run {finished.hung}; it must end by itself")
    steps = len({call.arguments.get("hole") for call in finished.log.calls if call.name in ("dig", "jam")})
    most = f"at most {limit} are allowed, and one more instead of the decision that ends the run"
    require(steps <= limit + 1, f"{where}: {counted(steps, 'tool step was', 'tool steps were')} run; {most}")


def _chain_of(length: int) -> Task:
    assert CHAIN.plan is not None
    expected = (42, 1042, 3126)[length - 1]
    calls = CHAIN.plan.calls[:length]
    plan = dataclasses.replace(CHAIN.plan, calls=calls, answer=dataclasses.replace(CHAIN.plan.answer, call=calls[-1].id))
    return dataclasses.replace(CHAIN, expected=expected, plan=plan)


# --- state ---


async def no_state(loop: Loop) -> None:
    """A run leaves no state behind: repeated and concurrent runs of one instance have the same results.

    The harness uses one instance for thousands of concurrent trials, and a resumed run must equal an uninterrupted one.
    """
    scenes = [await scripted(task, _in_other_words(task)) for task in TASKS]
    fresh = [await play(limited(loop), scene) for scene in scenes]
    shared = limited(loop)
    again = [await play(shared, scene) for scene in (*scenes, *scenes)][len(scenes) :]
    _check_same(fresh, again, "a second time on the same instance")
    together = await asyncio.gather(*(play(shared, scene, yielding_gate) for scene in (*scenes, *scenes)))
    _check_same([*fresh, *fresh], together, "at the same time as others on the same instance")


def limited(loop: Loop) -> Loop:
    """Return a fresh instance with a limit that suffices for every task of the bench."""
    return loop.with_step_limit(max(len(task.plan.calls) for task in TASKS if task.plan) + SPARE)


def _in_other_words(task: Task) -> Query:
    """Return a question that no other law uses, so that a loop with memory sees it here for the first time."""
    return dataclasses.replace(task.query, text=f"Once more, from the start: {task.query.text}")


def _check_same(fresh: Sequence[FinishedRun], other: Sequence[FinishedRun], condition: str) -> None:
    for first_run, second_run in zip(fresh, other, strict=True):
        change = "" if first_run.requests == second_run.requests else first_difference(first_run.requests, second_run.requests)
        require(not change, f"run {condition}, {change}; a run must not know of others")
        first, second = _result_of(first_run.outcome), _result_of(second_run.outcome)
        require(first == second, f"run {condition}, the outcome is {second}, not {first}; a run must not know of others")


def _result_of(outcome: Outcome) -> tuple[str, str, int, float | None]:
    return render_value(outcome.answer), str(outcome.stop), outcome.steps, outcome.confidence


# --- errors ---


async def tool_errors(loop: Loop) -> None:
    """The message of a tool's exception reaches the model in a later request, word for word.

    A model can only fix what it sees. A design that hides errors on purpose declares `shows_tool_errors = False`.
    """
    if not getattr(loop, "shows_tool_errors", True):
        raise NotApplicable("the loop declares shows_tool_errors = False")
    finished = await play(limited(loop), await scripted(FAILING))
    assert finished.outcome  # raises Broken if there is none
    require(bool(finished.log.calls), "the tool was never called, though the model asked for it")
    is_visible = any(JAMMED in request_text(request) for request in finished.log.requests)
    problem = f"a tool raised ValueError({JAMMED!r}), and no later request shows these words"
    require(is_visible, f"{problem}; the model must see what went wrong")


# --- the end ---


async def finishing(loop: Loop) -> None:
    """A clean run gives the right answer, stops as finished, and calls no tool once the model has answered.

    A design must not pay for its gains with losses on tasks without faults.
    """
    for task in (NO_CALL, ONE_CALL, CHAIN, FAILING, SCHEMA):
        finished = await play(limited(loop), await scripted(task))
        outcome = finished.outcome
        require(
            outcome.stop is StopReason.FINISHED,
            f"task {task.id!r}: the run stopped as {outcome.stop}; a clean one stops as finished",
        )
        answer = render_value(outcome.answer)[:100]
        require(is_right(outcome.answer, task.expected), f"task {task.id!r}: the answer is {answer!r}; {task.expected!r} is right")
        late = [call.name for call in finished.log.after_answer]
        require(not late, f"task {task.id!r}: {', '.join(late)} was called after the model had answered; no tool may be")


async def once(loop: Loop) -> None:
    """Each call that the model decides on is made once.

    A repeated call, such as a second refund, does harm that no answer shows. Calls are held against the decisions of their own run:
    a model may decide on one twice.
    """
    runs = []
    for task in (ONE_CALL, CHAIN, SCHEMA):
        runs.append(finished := await play(limited(loop), await scripted(task)))
        log = finished.log
        made = Counter(call.name for call in log.calls) - Counter(call.name for call in log.after_answer)
        decided = Counter(call.name for decision in log.decisions for call in decision.calls)
        repeated = ", ".join(f"{name} {counted(made[name], 'time')} instead of {decided[name]}" for name in made - decided)
        require(made <= decided, f"task {task.id!r}: the model decided on each call once, and {repeated} was run")
    if not any(run.log.calls for run in runs):
        raise not_looked_at("no call was made", runs)


def is_right(answer: Any, expected: Any) -> bool:
    """Return whether an answer equals the expected value or its JSON text."""
    if answer == expected:
        return True
    if not isinstance(answer, str):
        return False
    try:
        return bool(json.loads(answer) == expected)
    except ValueError:
        return False


# --- gold ---

CANARY = "canary-7f3a9c51"


async def gold(loop: Loop) -> None:
    """The expected answer is in no request, and in no answer unless the model gave it.

    The check is a real trial, in which the scorer has the expected answer: a loop gets only query, tools and model.
    """
    log, inner = RunLog(), PolicyModel(lambda request, count: busy(request, count) if count <= 2 else done(request, count))
    model = LoggingModel(inner, log, open_gate)
    task = Task("gold", Query("Which word is it?"), CANARY, no_plan="no scripted model is asked")
    arm = Arm("law", Spec("loop", {}), limited(loop), "law/talker", load_profile("clean"))
    suite = Suite("gold", "1", (task,), lambda _: StatelessEnvironment(TOOLS))
    trial = await run_trial(Trial(arm, task, 0, 0), TrialContext(suite, TrialModels({"law/talker": model})))
    is_leaked = any(CANARY in request_text(request) for request in log.requests)
    require(not is_leaked, "a request holds the expected answer; a loop gets only the query, the tools and the model's replies")
    is_answered = CANARY in render_value(trial.record.answer)
    require(not is_answered, "the answer is the expected one, which the model never gave; a loop must not have it")
    if not log.requests:
        why = f" ({trial.record.reason})" if trial.record.reason else ""
        raise NotApplicable(f"could not be looked at: no request was made{why}")


# --- the conversation ---


async def conversation(loop: Loop) -> None:
    """Only the first message is a system message, and each native call is followed by its result.

    Providers reject anything else.
    """
    scenes: list[Scene] = [await scripted(task) for task in (CHAIN, FAILING, SCHEMA, APART, NO_CALL)]
    scenes += [policy_scene(policy) for policy in STUBBORN.values()]
    scenes += [policy_scene(_rambling(seed)) for seed in range(12)]
    for scene in scenes:
        for design in (limited(loop), loop.with_step_limit(1)):
            finished = await play(design, scene)
            for index, request in enumerate(finished.log.requests, 1):
                problem = illegal(request.messages)
                require(not problem, f"request {index} (role {request.role}): {problem}")


def _rambling(seed: int) -> TurnPolicy:
    """Return a policy with valid and invalid replies in turn, including several calls at once."""
    rng = random.Random(seed)

    def policy(request: Request, count: int) -> Any:
        sound = say(request.codec, busy(request, count))
        kind = rng.randrange(4)
        if kind == 0:
            return any_reply(rng, sound)
        if kind == 1:
            return Reply(sound.text, sound.calls * 2, None, sound.finish_reason)
        return sound

    return policy


def illegal(messages: Sequence[Message]) -> str:
    """Return the reason why a provider would reject a conversation; empty if it is valid."""
    if not messages:
        return "it holds no message"
    open_calls: Counter[str] = Counter()
    for index, message in enumerate(messages, 1):
        if message.role == "system" and index > 1:
            return f"message {index} is a system message; only the first may be"
        if message.role == "tool":
            if open_calls[message.call_id] < 1:
                return f"message {index} answers call {message.call_id!r}, which does not stand open before it"
            open_calls[message.call_id] -= 1
        elif open_calls.total():
            return f"message {index} follows a call without its result; each call is answered at once"
        else:
            open_calls = Counter(call.id for call in message.calls)
    return "a call at the end has no result; each call is answered at once" if open_calls.total() else ""
