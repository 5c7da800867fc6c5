"""Laws on a run: the contract, the step limit, the state, tool errors, the end, what a design may know, and the conversation."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import call_digest
from whichloop.protocol import HARNESS_STOPS, Loop, Message, Query, Reply, Request, StopReason
from whichloop.protocol.names import Spec
from whichloop.protocol.receipts import bare, sightings
from whichloop.protocol.values import counted, joined, render_value
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

from ..shared.law import Broken, NotApplicable, law, require
from . import scene
from .random_moves import ANSWER_TEXT, any_reply, busy, done, say
from .scene import CHAIN, FAILING, NO_CALL, ONE_CALL, SCHEMA, FinishedRun, limited, play, request_text, scripted, solve


@law("contract", "name, stops, run and Outcome are well formed; the configuration never changes")
async def contract(loop: Loop) -> None:
    """The harness reads all of these, shares one instance among trials and derives limited copies of it.

    What is missing would break each of the other laws.
    """
    lacking = [part for part in ("name", "stops", "run", "with_step_limit") if getattr(loop, part, None) is None]
    if lacking:
        raise Broken(f"it lacks {joined(lacking)}: see whichloop.protocol.Loop", ends=True)
    with contextlib.suppress(ValueError):  # what has no signature, such as a function in C
        try:
            inspect.signature(loop.run).bind("query", "tools", "model")
            inspect.signature(loop.run).bind("query", "tools", "model", "observer")
            inspect.signature(loop.with_step_limit).bind(1)
        except TypeError as error:
            form = "run(query, tools, model, observer=…), with_step_limit(tool_steps)"
            raise Broken(f"it cannot be called: {error}; a loop has {form}", ends=True) from None
    require(isinstance(loop.name, str) and bool(loop.name), f"name is {loop.name!r}; it must be a text")
    stops: object = loop.stops
    is_set = isinstance(stops, frozenset) and all(isinstance(stop, StopReason) for stop in stops)
    require(is_set, f"stops is {stops!r}; it must be a frozenset of StopReason")
    harness = ", ".join(sorted(loop.stops & HARNESS_STOPS))
    require(not harness, f"stops holds {harness}, which only the harness sets")
    before = _public_fields(loop)
    finished = await play(loop, await scripted(ONE_CALL))
    if finished.problem:
        raise finished.broken(ends=True)
    outcome: Any = finished.outcome
    require(isinstance(outcome.stop, StopReason), f"the outcome's stop is {outcome.stop!r}; it must be a StopReason")
    is_count = isinstance(outcome.steps, int) and outcome.steps >= 0
    require(is_count, f"the outcome's steps is {outcome.steps!r}; it must be a count")
    is_share = outcome.confidence is None or (isinstance(outcome.confidence, int | float) and 0 <= outcome.confidence <= 1)
    require(is_share, f"the outcome's confidence is {outcome.confidence!r}; it must be in [0, 1] or None")
    changed = _changed(before, loop)
    require(not changed, f"a run changed {changed}; the configuration is frozen")
    three, four = loop.with_step_limit(3), loop.with_step_limit(4)
    kind = next((type(one).__name__ for one in (three, four) if type(one) is not type(loop)), "")
    require(not kind, f"with_step_limit gave a {kind}; it must give a {type(loop).__name__}")
    changed = _changed(before, loop)
    require(not changed, f"with_step_limit changed {changed} of the loop itself; it must return another")
    require(three is not four, "with_step_limit(3) and with_step_limit(4) are one object; each must be a separate loop")


def _public_fields(loop: Any) -> dict[str, str]:
    """Return the public fields of a loop as text, for comparison."""
    names = [item.name for item in dataclasses.fields(loop)] if dataclasses.is_dataclass(loop) else getattr(loop, "__dict__", ())
    return {name: repr(getattr(loop, name, None)) for name in sorted(names) if not name.startswith("_")}


def _changed(before: dict[str, str], loop: Loop) -> str:
    after = _public_fields(loop)
    return ", ".join(name for name in before | after if before.get(name) != after.get(name))


STUBBORN: Mapping[str, scene.TurnPolicy] = {
    "always calls a tool": busy,
    "always calls a tool that raises": lambda request, count: busy(request, count, "jam"),
    "always calls a tool that does not exist": lambda request, count: busy(request, count, "shovel"),
    "always makes the same call": lambda request, count: busy(request, 1),
    "is never readable": lambda request, count: Reply("%%% no format at all %%%"),
}
"""Models that never finish."""


@law("step limit", "with_step_limit(n) lets a plan of n calls be solved; no run makes more than n + 1, and each ends by itself")
async def step_limit(loop: Loop) -> None:
    """A comparison gives every design the same limit.

    After the n steps comes one decision to end the run, which a model that never ends may spend on a call.
    """
    for limit in (1, 2, 3):
        design = loop.with_step_limit(limit)
        for manner, policy in STUBBORN.items():
            where = f"with_step_limit({limit}), a model that {manner}"
            finished = await play(design, scene.policy_scene(policy))
            require(not finished.hung, f"{where}: the run {finished.hung}; it must end by itself")
            steps = len({call.arguments.get("hole") for call in finished.log.calls if call.name in ("dig", "jam")})
            most = f"at most {limit} are allowed, and one more instead of the decision that ends the run"
            require(steps <= limit + 1, f"{where}: {counted(steps, 'tool step was', 'tool steps were')} run; {most}")
        finished = await play(design, await scripted(scene.chain_of(limit)))
        calls, stop = len(finished.log.calls), finished.outcome.stop
        # A model that has to ask again for what its prompt does not show spends its steps on that: `results` tells of it.
        granted = calls >= limit and (stop is StopReason.FINISHED or bool(finished.log.again))
        where = f"with_step_limit({limit}), a plan of {counted(limit, 'call')}"
        made = f"{counted(calls, 'call was', 'calls were')} made, and the run stopped as {stop}"
        require(granted, f"{where}: {made}; a limit of n grants n tool steps, and a reply more to end the run")


@law("no state", "a run does not affect later or concurrent runs of the same loop")
async def no_state(loop: Loop) -> None:
    """One instance serves thousands of concurrent trials, and a resumed run must equal an uninterrupted one."""

    async def yielding(kind: scene.Kind, count: int) -> None:
        await asyncio.sleep(0)

    # Questions that no other law uses, so that a loop with memory sees them here for the first time.
    scenes = [await scripted(each, Query(f"Once more: {each.query.text}", schema=each.query.schema)) for each in scene.TASKS]
    fresh = [await play(limited(loop), each) for each in scenes]
    shared = limited(loop)
    again = [await play(shared, each) for each in (*scenes, *scenes)][len(scenes) :]
    together = await asyncio.gather(*(play(shared, each, yielding) for each in (*scenes, *scenes)))
    for condition, others in (("a second time", again), ("at the same time as others", together)):
        for one, other in zip([*fresh, *fresh], others, strict=False):
            where = f"run {condition} on the same instance"
            change = scene.difference(one.requests, other.requests)
            require(not change, f"{where}, {change}; a run must not know of others")
            first, second = (
                (render_value(outcome.answer), str(outcome.stop), outcome.steps, outcome.confidence)
                for outcome in (one.outcome, other.outcome)
            )
            require(first == second, f"{where}, the outcome is {second}, not {first}")


@law("tool errors", "the message of a tool's exception reaches the model")
async def tool_errors(loop: Loop) -> None:
    if not getattr(loop, "shows_tool_errors", True):
        raise NotApplicable("the loop declares shows_tool_errors = False")
    finished = await solve(loop, FAILING)
    assert finished.outcome  # raises Broken if there is none
    require(bool(finished.log.calls), "the tool was never called, though the model asked for it")
    is_visible = any(scene.JAMMED in request_text(request) for request in finished.log.requests)
    require(is_visible, f"a tool raised ValueError({scene.JAMMED!r}), and no later request shows these words")


@law("finishing", "an undisturbed run is right, stops as finished, and calls no tool after its answer")
async def finishing(loop: Loop) -> None:
    for task in (NO_CALL, ONE_CALL, CHAIN, FAILING, SCHEMA):
        finished = await solve(loop, task)
        where, outcome = f"task {task.id!r}", finished.outcome
        require(outcome.stop is StopReason.FINISHED, f"{where}: the run stopped as {outcome.stop}; a clean one stops as finished")
        answer = render_value(outcome.answer)[:100]
        require(is_right(outcome.answer, task.expected), f"{where}: the answer is {answer!r}; {task.expected!r} is right")
        late = ", ".join(call.name for call in finished.log.after_answer)
        require(not late, f"{where}: {late} was called after the model had answered; no tool may be")


@law("once", "each call that the model decides on is made once")
async def once(loop: Loop) -> None:
    """A second refund does harm that no answer shows. A model may decide on a call twice: its decisions are counted, too."""
    runs = []
    for task in (ONE_CALL, CHAIN, SCHEMA):
        runs.append(await solve(loop, task))
        log = runs[-1].log
        made = Counter(call.name for call in log.calls) - Counter(call.name for call in log.after_answer)
        repeated = ", ".join(f"{name} {counted(made[name], 'time')} instead of {log.decided[name]}" for name in made - log.decided)
        require(not repeated, f"task {task.id!r}: the model decided on each call once, and {repeated} was run")
    _check_seen(any(run.log.calls for run in runs), "no call was made", runs)


def _check_seen(was_seen: bool, missing: str, runs: Sequence[FinishedRun]) -> None:
    """Raise NotApplicable where no run came to what a law looks at."""
    why = next((f" ({run.problem})" for run in runs if run.problem), "")
    if not was_seen:
        raise NotApplicable(f"could not be looked at: {missing}{why}")


def is_right(answer: Any, expected: Any) -> bool:
    """Return whether an answer equals the expected value or its JSON text."""
    with contextlib.suppress(ValueError):
        return bool(answer == expected or (isinstance(answer, str) and json.loads(answer) == expected))
    return False


@law("gold", "no request contains the expected answer")
async def gold(loop: Loop) -> None:
    """The check is a real trial, in which the scorer has the expected answer: a loop gets only query, tools and model."""
    log, canary = scene.RunLog(), "canary-7f3a9c51"
    inner = scene.PolicyModel(lambda request, count: busy(request, count) if count <= 2 else done(request, count))
    task = Task("gold", Query("Which word is it?"), canary, no_plan="no scripted model is asked")
    arm = Arm("law", Spec("loop", {}), limited(loop), "law/talker", load_profile("clean"))
    suite = Suite("gold", "1", (task,), lambda _: StatelessEnvironment(scene.TOOLS))
    models = TrialModels({"law/talker": scene.LoggingModel(inner, log)})
    trial = await run_trial(Trial(arm, task, 0, 0), TrialContext(suite, models))
    is_leaked = any(canary in request_text(request) for request in log.requests)
    require(not is_leaked, "a request holds the expected answer; a loop gets only the query, the tools and the model's replies")
    is_answered = canary in render_value(trial.record.answer)
    require(not is_answered, "the answer is the expected one, which the model never gave; a loop must not have it")
    if not log.requests:
        why = f" ({trial.record.reason})" if trial.record.reason else ""
        raise NotApplicable(f"could not be looked at: no request was made{why}")


@law("results", "a request shows each result that the model needs, and no receipt without its result")
async def results(loop: Loop) -> None:
    """A receipt tells the scripted model which call a text came from; a real model sees none.

    What a prompt shows no longer, the model asks for again; a design may leave out older results, but not of the shortest tasks.
    """
    runs = []
    for task in scene.TASKS:
        runs.append(await solve(loop, task))
        log = runs[-1].log
        shown = [sightings(request_text(request)) for request in log.requests]
        for number, seen in enumerate(shown, 1):
            # Nothing stands between a receipt's marks, or beside the only one but marks of others.
            alone = [call for call in seen if any(not bare(one.text).strip(".,;:|-*[]()") for one in seen[call])]
            where = f"task {task.id!r}: request {number} shows {len(alone)} receipts without what the tool gave"
            require(not alone, f"{where}; a receipt goes where its result goes")
        for number, call in log.again[:1] if task in (ONE_CALL, CHAIN, SCHEMA) else ():
            digest = call_digest(call.name, call.arguments)
            lack = "no longer shows" if any(digest in seen for seen in shown[: number - 1]) else "does not show"
            lack = "shows without what the task needs of it" if digest in shown[number - 1] else lack
            told = f"request {number} {lack} the result of {call.name}, so the model asked for it again"
            raise Broken(f"task {task.id!r}: {told}; a request of so short a task shows each result that is still needed")
    _check_seen(any(run.log.given for run in runs), "no tool gave a result", runs)


@law("own words", "the answer is what the model says, also where that is wrong")
async def own_words(loop: Loop) -> None:
    """A design that knows the answer without the model, from the plan in the memory of the process say, is always right."""
    for task in (NO_CALL, ONE_CALL, CHAIN):
        plain = await scripted(task)  # the plan stays in memory, while the model that is asked says something else
        finished = await play(limited(loop), dataclasses.replace(plain, model=lambda _: scene.PolicyModel(done)))
        where = f"task {task.id!r}: the model would have said {ANSWER_TEXT!r}"
        require(bool(finished.log.requests), f"{where}, and was not asked; {finished.problem or 'a run asks the model'}")
        answer = render_value(finished.outcome.answer)[:100]
        right = is_right(finished.outcome.answer, task.expected)
        require(not right, f"{where}, and the answer is {answer!r}, which is right; it comes from the model")


@law("conversation", "a system message comes first only, and each native call is followed by its result")
async def conversation(loop: Loop) -> None:
    """Providers reject anything else."""
    scenes = [await scripted(task) for task in (CHAIN, FAILING, SCHEMA, scene.APART, NO_CALL)]
    scenes += [scene.policy_scene(policy) for policy in (*STUBBORN.values(), *map(_rambling, range(12)))]
    for each in scenes:
        for design in (limited(loop), loop.with_step_limit(1)):
            finished = await play(design, each)
            for index, request in enumerate(finished.log.requests, 1):
                problem = illegal(request.messages)
                require(not problem, f"request {index} (role {request.role}): {problem}")


def _rambling(seed: int) -> scene.TurnPolicy:
    """Return a policy with valid and invalid replies in turn, including several calls at once."""
    rng = random.Random(seed)

    def policy(request: Request, count: int) -> Reply:
        sound = say(request.codec, busy(request, count))
        kind = rng.randrange(4)
        if kind == 0:
            return any_reply(rng, sound)
        return Reply(sound.text, sound.calls * 2, None, sound.finish_reason) if kind == 1 else sound

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
