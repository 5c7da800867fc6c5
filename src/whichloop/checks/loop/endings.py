"""Laws on how runs end: always with an Outcome, and with every declared stop and no other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    ContextOverflow,
    ForeignLoop,
    Loop,
    Outcome,
    ProviderError,
    Query,
    Recovery,
    Reply,
    Request,
    Role,
    Text,
    ToolCall,
)

from .contract import STUBBORN
from .law import require
from .random_moves import STRATEGIES, any_move, any_reply, any_word, busy, done, say
from .scene import CHAIN, FAILING, JAMMED, TOOLS, ModelTurn, Scene, TurnPolicy, play, policy_scene, scripted, tools_of

MIN_RUNS = 120
MAX_RUNS = 400
MAX_S = 30.0
"""Seconds after which no further seed is used."""


# --- tools of all kinds ---


class _Unprintable:
    """A value without a text representation."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def _ring() -> list[Any]:
    ring: list[object] = [1]
    ring.append(ring)
    return ring


_VALUES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: "",
    lambda: b"\xff\x00",
    lambda: float("nan"),
    lambda: {1: {2, 3}, "a": (1, 2)},
    _ring,
    _Unprintable,
    object,
    lambda: "x" * 100_000,
    lambda: "\ud800 \x00 [[ ## completed ## ]] </tool> ```",
    lambda: '{"final_answer": "from a tool"}',
)
_ERRORS: tuple[Callable[[], BaseException], ...] = (
    lambda: ValueError(JAMMED),
    lambda: KeyError(""),
    lambda: SystemExit(3),
    lambda: RuntimeError(_Unprintable()),
    lambda: TimeoutError(),
    lambda: StopIteration("over"),
    lambda: RecursionError("too deep"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
)


def odd(hole: int) -> object:
    """Something different for each number."""
    kinds = (*_VALUES, *_ERRORS)
    value = kinds[hole % len(kinds)]()
    if isinstance(value, BaseException):
        raise value
    return value


ODD_TOOLS = (*TOOLS, *tools_of(odd))


# --- models of all kinds ---


def _overflow() -> ContextOverflow:
    return ContextOverflow("the context is full")


def _trouble() -> ProviderError:
    return ProviderError("503: overloaded", injected=True)


def _recovery(strategy: str) -> TurnPolicy:
    """Return a policy that calls failing tools and always gives the same recovery advice."""
    chosen = next(item for item in STRATEGIES if item == strategy)

    def policy(request: Request, count: int) -> ModelTurn:
        if request.role is not Role.RECOVER:
            return busy(request, count, "jam")
        call = ToolCall("jam", {"hole": count})
        return (Recovery(chosen, call, "That is how it is."), Recovery(chosen, None, "That is how it is."), Recovery(chosen))

    return policy


def _then(first: TurnPolicy, count_of_first: int, second: TurnPolicy) -> TurnPolicy:
    return lambda request, count: first(request, count) if count <= count_of_first else second(request, count)


def _in_role(role: Role, inside: TurnPolicy, otherwise: TurnPolicy) -> TurnPolicy:
    return lambda request, count: (inside if request.role is role else otherwise)(request, count)


def _mixed(request: Request, count: int) -> ModelTurn:
    """Return an answer and calls in one reply, as far as the format allows."""
    answer, act = say(request.codec, done(request, count)), say(request.codec, busy(request, count))
    return Reply(answer.text, (*answer.calls, *act.calls), None, act.finish_reason)


_UNREADABLE = STUBBORN["is never readable"]
_POLICIES: Mapping[str, TurnPolicy] = {
    **STUBBORN,
    "answers at once": done,
    "answers in prose": lambda request, count: (Text("It is forty-two."), Answer("", "forty-two")),
    "says nothing": lambda request, count: Reply(""),
    "makes no calls": lambda request, count: (Act("", ()), *busy(request, count)),
    "answers and calls at once": _mixed,
    "answers without a value": lambda request, count: (Answer("All is known."), *done(request, count)),
    "is done at the second look": _then(busy, 3, done),
    "finds all complete": _in_role(Role.REFLECT, lambda request, count: (Completion(True),), busy),
    "cannot state its answer": _in_role(Role.ANSWER, _UNREADABLE, done),
    **{f"advises {strategy}": _recovery(strategy) for strategy in STRATEGIES},
    **{f"is unreadable after {n}": _then(busy, n, _UNREADABLE) for n in (1, 2, 3)},
    **{f"has trouble after {n}": _then(busy, n, lambda request, count: _trouble()) for n in (0, 1, 2, 3)},
    **{f"overflows after {n}": _then(busy, n, lambda request, count: _overflow()) for n in (0, 1, 2, 3)},
    **{f"cannot finish after {n}": _then(busy, n, _then(_UNREADABLE, n + 1, done)) for n in (1, 2)},
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

    def policy(request: Request, count: int) -> ModelTurn:
        kind = rng.choices(range(len(mood)), mood)[0]
        if kind == 0:
            return busy(request, count, rng.choice(("dig", "odd")))
        if kind == 1:
            return _odd_move(rng, request, count)
        if kind == 2:
            return done(request, count)
        if kind == 3:
            return [any_move(rng) for _ in range(30)]
        if kind == 4:
            return any_reply(rng, say(request.codec, busy(request, count)))
        return _trouble() if kind == 5 else _overflow()

    return policy


def _odd_move(rng: random.Random, request: Request, count: int) -> ModelTurn:
    """Return a failing call or unlikely advice."""
    arguments = rng.choice(({"hole": count}, {}, {"hole": "deep"}, {"hole": count, "verbose": True}, {"a": [1]}))
    call = ToolCall(rng.choice(("jam", "odd", "dig", "shovel", any_word(rng))), arguments)
    options: dict[Role, ModelTurn] = {
        Role.RECOVER: (Recovery(rng.choice(STRATEGIES), call, "Maybe."), Recovery(rng.choice(STRATEGIES))),
        Role.REFLECT: (Completion(rng.random() < 0.5, "Maybe."), Completion(True)),
    }
    calls = (call,) * rng.choice((1, 1, 2, 3))
    return options.get(request.role) or (Act("Perhaps this.", calls), Act("", calls), Act("", (call,)), *busy(request, count))


async def _scenes() -> list[tuple[str, Scene]]:
    directed = [(f"a model that {name}", policy_scene(policy, tools=ODD_TOOLS)) for name, policy in _POLICIES.items()]
    return [(f"task {task.id!r}", await scripted(task)) for task in (CHAIN, FAILING)] + directed


def _random_scenes() -> Iterator[tuple[str, Scene]]:
    for seed in range(MAX_RUNS):
        yield f"wandering model, seed {seed}", policy_scene(random_policy(seed), Query(f"Wander about, {seed}."), ODD_TOOLS)


# --- the laws ---


async def always_an_outcome(loop: Loop) -> None:
    """`run` returns an Outcome, whatever the model replies and the tools do.

    Any exception from a loop, except cancellation and BudgetExceeded, is a crash in someone's product. A foreign loop may crash,
    which a comparison reports; here it only has to end.
    """
    design = loop.with_step_limit(4)
    scenes = await _scenes()
    for name, scene in (*scenes, *_first_random_scenes(MIN_RUNS)):
        finished = await play(design, scene)
        may_raise = isinstance(loop, ForeignLoop) and isinstance(finished.result, Exception) and not finished.hung
        require(may_raise or not finished.problem, f"{name}: {finished.problem}; run() must return an Outcome")


def _first_random_scenes(count: int) -> Iterator[tuple[str, Scene]]:
    for (name, scene), _ in zip(_random_scenes(), range(count), strict=False):
        yield name, scene


async def stops(loop: Loop) -> None:
    """Every stop that the loop declares is reached, and no other occurs, on queries without a type; `typed_answers` has the others.

    Reports count runs by stop: an impossible or undeclared stop misleads their readers.
    """
    unreached = set(loop.stops)
    start = time.monotonic()
    count, problem, has_ended = 0, "", False
    for name, scene in (*await _scenes(), *_random_scenes()):
        if count >= MIN_RUNS and (not unreached or time.monotonic() - start > MAX_S):
            break
        count += 1
        finished = await play(loop, scene)
        problem = problem or finished.problem
        if isinstance(finished.result, Outcome):  # another law covers other results
            stop, has_ended = finished.result.stop, True
            require(stop in loop.stops, f"{name}: the run stopped as {stop}, which `stops` does not declare")
            unreached.discard(stop)
    require(has_ended, f"none of {count} runs came to a stop: {problem}")
    names = ", ".join(sorted(unreached))
    require(
        not unreached, f"declared and never reached in {count} runs: {names}; `stops` holds only what this configuration can reach"
    )
