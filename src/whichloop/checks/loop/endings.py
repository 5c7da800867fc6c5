"""Laws on how runs end: always with an Outcome, and with every declared stop and no other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from whichloop.protocol import ForeignLoop, Loop, Outcome, Query, Reply, Request, Role, Tool, ToolCall
from whichloop.protocol.model import ContextOverflow, ProviderError
from whichloop.protocol.moves import Act, Answer, Completion, Recovery, Text

from ..shared.law import law, require
from .contract import STUBBORN
from .random_moves import STRATEGIES, any_move, any_reply, any_word, busy, done, say
from .scene import CHAIN, FAILING, JAMMED, TOOLS, ModelTurn, Scene, TurnPolicy, play, policy_scene, scripted

MIN_RUNS, MAX_RUNS = 120, 400
MAX_S = 30.0
"""Seconds after which no further seed is used."""


# --- tools of all kinds ---


class _Unprintable:
    """A value without a text representation."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


_RING: list[Any] = [1]
_RING.append(_RING)
_VALUES: tuple[Any, ...] = (
    *(None, "", b"\xff\x00", float("nan"), {1: {2, 3}, "a": (1, 2)}, _RING, _Unprintable(), object(), "x" * 100_000),
    *("\ud800 \x00 [[ ## completed ## ]] </tool> ```", '{"final_answer": "from a tool"}'),
    *(ValueError(JAMMED), KeyError(""), SystemExit(3), RuntimeError(_Unprintable()), TimeoutError(), StopIteration("over")),
    *(RecursionError("too deep"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")),
)


def odd(hole: int) -> object:
    """Something different for each number."""
    value = _VALUES[hole % len(_VALUES)]
    if isinstance(value, BaseException):
        raise value.with_traceback(None)
    return value


ODD_TOOLS = (*TOOLS, Tool.from_function(odd, blocking=False))


# --- models of all kinds ---

_UNREADABLE = STUBBORN["is never readable"]


def _trouble(request: Request, count: int) -> ModelTurn:
    return ProviderError("503: overloaded", injected=True)


def _overflow(request: Request, count: int) -> ModelTurn:
    return ContextOverflow("the context is full")


def _after(count_of_first: int, second: TurnPolicy, first: TurnPolicy = busy) -> TurnPolicy:
    return lambda request, count: first(request, count) if count <= count_of_first else second(request, count)


def _in_role(role: Role, inside: TurnPolicy, otherwise: TurnPolicy) -> TurnPolicy:
    return lambda request, count: (inside if request.role is role else otherwise)(request, count)


def _always(turn: ModelTurn) -> TurnPolicy:
    return lambda request, count: turn


def _mixed(request: Request, count: int) -> ModelTurn:
    """Return an answer and calls in one reply, as far as the format allows."""
    answer, act = say(request.codec, done(request, count)), say(request.codec, busy(request, count))
    return Reply(answer.text, (*answer.calls, *act.calls), None, act.finish_reason)


def _advising(strategy: Any) -> TurnPolicy:
    """Return a policy that calls failing tools and always gives the same recovery advice."""

    def advise(request: Request, count: int) -> ModelTurn:
        call = ToolCall("jam", {"hole": count})
        return (Recovery(strategy, call, "That is how it is."), Recovery(strategy, None, "That is how it is."), Recovery(strategy))

    return _in_role(Role.RECOVER, advise, lambda request, count: busy(request, count, "jam"))


_POLICIES: Mapping[str, TurnPolicy] = {
    **STUBBORN,
    "answers at once": done,
    "answers in prose": _always((Text("It is forty-two."), Answer("", "forty-two"))),
    "says nothing": _always(Reply("")),
    "makes no calls": lambda request, count: (Act("", ()), *busy(request, count)),
    "answers and calls at once": _mixed,
    "answers without a value": lambda request, count: (Answer("All is known."), *done(request, count)),
    "is done at the second look": _after(3, done),
    "finds all complete": _in_role(Role.REFLECT, _always((Completion(True),)), busy),
    "cannot state its answer": _in_role(Role.ANSWER, _UNREADABLE, done),
    **{f"advises {strategy}": _advising(strategy) for strategy in STRATEGIES},
    **{f"is unreadable after {n}": _after(n, _UNREADABLE) for n in (1, 2, 3)},
    **{f"has trouble after {n}": _after(n, _trouble) for n in (0, 1, 2, 3)},
    **{f"overflows after {n}": _after(n, _overflow) for n in (0, 1, 2, 3)},
    **{f"cannot finish after {n}": _after(n, _after(n + 1, done, _UNREADABLE)) for n in (1, 2)},
}

_MOODS: tuple[tuple[int, ...], ...] = (
    # weights of: a call, an odd call, an answer, any move, an unreadable reply, trouble, an overflow
    (6, 3, 2, 2, 2, 1, 1),
    (8, 2, 0, 0, 0, 0, 0),
    (2, 8, 1, 1, 0, 0, 0),
    (2, 1, 1, 1, 8, 0, 0),
    (2, 2, 1, 9, 1, 0, 0),
    (3, 0, 6, 2, 1, 0, 0),
    (6, 0, 1, 0, 0, 2, 1),
    (6, 0, 1, 0, 0, 0, 3),
)


def random_policy(seed: int) -> TurnPolicy:
    """Return a random policy: valid and odd moves, damaged replies, provider errors and overflows, weighted by the seed."""
    rng = random.Random(seed)
    mood = _MOODS[seed % len(_MOODS)]
    turns: tuple[Callable[[Request, int], ModelTurn], ...] = (
        lambda request, count: busy(request, count, rng.choice(("dig", "odd"))),
        lambda request, count: _odd_move(rng, request, count),
        done,
        lambda request, count: [any_move(rng) for _ in range(30)],
        lambda request, count: any_reply(rng, say(request.codec, busy(request, count))),
        _trouble,
        _overflow,
    )
    return lambda request, count: rng.choices(turns, mood)[0](request, count)


def _odd_move(rng: random.Random, request: Request, count: int) -> ModelTurn:
    """Return a failing call or unlikely advice."""
    arguments = rng.choice(({"hole": count}, {}, {"hole": "deep"}, {"hole": count, "verbose": True}, {"a": [1]}))
    call = ToolCall(rng.choice(("jam", "odd", "dig", "shovel", any_word(rng))), arguments)
    if request.role is Role.RECOVER:
        return (Recovery(rng.choice(STRATEGIES), call, "Maybe."), Recovery(rng.choice(STRATEGIES)))
    if request.role is Role.REFLECT:
        return (Completion(rng.random() < 0.5, "Maybe."), Completion(True))
    calls = (call,) * rng.choice((1, 1, 2, 3))
    return (Act("Perhaps this.", calls), Act("", calls), Act("", (call,)), *busy(request, count))


async def _scenes() -> list[tuple[str, Scene]]:
    directed = [(f"a model that {name}", policy_scene(policy, tools=ODD_TOOLS)) for name, policy in _POLICIES.items()]
    return [(f"task {task.id!r}", await scripted(task)) for task in (CHAIN, FAILING)] + directed


def _random_scenes() -> Iterator[tuple[str, Scene]]:
    for seed in range(MAX_RUNS):
        yield f"wandering model, seed {seed}", policy_scene(random_policy(seed), Query(f"Wander about, {seed}."), ODD_TOOLS)


# --- the laws ---


@law("outcome", "run returns an Outcome, whatever the model replies and the tools do")
async def always_an_outcome(loop: Loop) -> None:
    """Any exception but cancellation and BudgetExceeded is a crash in someone's product. A foreign loop only has to end."""
    design = loop.with_step_limit(4)
    for name, scene in (*await _scenes(), *islice(_random_scenes(), MIN_RUNS)):
        finished = await play(design, scene)
        may_raise = isinstance(loop, ForeignLoop) and isinstance(finished.result, Exception) and not finished.hung
        require(may_raise or not finished.problem, f"{name}: {finished.problem}; run() must return an Outcome")


@law("stops", "every declared stop can occur, and no other does")
async def stops(loop: Loop) -> None:
    """Reports count runs by stop. Queries have no type here; `typed answers` has the others."""
    unreached, start, count = set(loop.stops), time.monotonic(), 0
    for name, scene in (*await _scenes(), *_random_scenes()):
        if count >= MIN_RUNS and (not unreached or time.monotonic() - start > MAX_S):
            break
        count += 1
        finished = await play(loop, scene)
        if isinstance(finished.result, Outcome):  # another law covers other results
            stop = finished.result.stop
            require(stop in loop.stops, f"{name}: the run stopped as {stop}, which `stops` does not declare")
            unreached.discard(stop)
    names = ", ".join(sorted(unreached))
    only = "`stops` holds only what this configuration can reach"
    require(not unreached, f"declared and never reached in {count} runs: {names}; {only}")
