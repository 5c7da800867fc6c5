"""Laws that are tried with moves and replies of all kinds: how runs end, what codecs read, and typed answers."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, get_args

from whichloop.datasets.task import Task
from whichloop.protocol import ForeignLoop, Loop, Outcome, Plan, Query, Reply, Request, Role, StopReason, Tool, ToolCall
from whichloop.protocol.model import ContextOverflow, ProviderError
from whichloop.protocol.moves import Act, Answer, Codec, Completion, Inexpressible, Move, Recovery, Text, WireError
from whichloop.protocol.values import cap

from ..shared.law import Broken, NotApplicable, error_summary, law, require
from .contract import STUBBORN
from .random_moves import STRATEGIES, any_move, any_reply, any_word, busy, done, say
from .scene import CHAIN, FAILING, NO_CALL, TASKS, TOOLS, ModelTurn, Scene, TurnPolicy, limited, play, policy_scene, scripted

MIN_RUNS, MAX_RUNS = 120, 400


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
    *(ValueError("it is jammed"), KeyError(""), SystemExit(3), RuntimeError(_Unprintable()), TimeoutError(), StopIteration("over")),
    *(RecursionError("too deep"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")),
)


def odd(hole: int) -> object:
    """Something different for each number."""
    value = _VALUES[hole % len(_VALUES)]
    if isinstance(value, BaseException):
        raise value.with_traceback(None)
    return value


ODD_TOOLS = (*TOOLS, Tool.from_function(odd, blocking=False))


_UNREADABLE = STUBBORN["is never readable"]


def _after(count_of_first: int, second: TurnPolicy, first: TurnPolicy = busy) -> TurnPolicy:
    return lambda request, count: first(request, count) if count <= count_of_first else second(request, count)


def _in_role(role: Role, inside: TurnPolicy, otherwise: TurnPolicy) -> TurnPolicy:
    return lambda request, count: (inside if request.role is role else otherwise)(request, count)


def _always(turn: ModelTurn) -> TurnPolicy:
    return lambda request, count: turn


def _trouble(request: Request, count: int) -> ModelTurn:
    return ProviderError("503: overloaded", injected=True)


def _overflow(request: Request, count: int) -> ModelTurn:
    return ContextOverflow("the context is full")


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
        if count >= MIN_RUNS and (not unreached or time.monotonic() - start > 30):
            break
        count += 1
        finished = await play(loop, scene)
        if isinstance(finished.result, Outcome):  # another law covers other results
            stop = finished.result.stop
            require(stop in loop.stops, f"{name}: the run stopped as {stop}, which `stops` does not declare")
            unreached.discard(stop)
    require(not unreached, f"declared and never reached in {count} runs: {', '.join(sorted(unreached))}")


MOVES, REPLIES = 400, 300


@law("codecs", "a codec parses what it renders, and reads any reply as a move or raises WireError")
async def codecs(loop: Loop) -> None:
    """The scripted model replies through the codec, so a lossy format would be blamed on the design."""
    for codec, replies in await codecs_of(loop):
        rng, sound = random.Random(f"moves {codec.name}"), replies[:20]
        parsed: list[Move] = []
        for reply in sound:
            with contextlib.suppress(Exception):  # an unreadable reply is not a move; what parse may raise is checked below
                parsed.append(codec.parse(reply))
        read = sum(_check_round_trip(codec, move) for move in parsed)
        require(read > 0, f"codec {codec.name}: it renders no move of the scripted model; it must render the moves of its role")
        for _ in range(MOVES):
            _check_round_trip(codec, any_move(rng))
        rng = random.Random(f"replies {codec.name}")
        for reply in (any_reply(rng, rng.choice(sound)) for _ in range(REPLIES)):
            where = f"codec {codec.name}: parse({cap(repr(reply), 160)})"
            try:
                move: object = codec.parse(reply)
            except WireError:
                continue
            except Exception as error:  # a codec of the user's own
                raise Broken(f"{where} raised {error_summary(error)}; it may raise WireError only") from error
            require(isinstance(move, get_args(Move)), f"{where} gave a {type(move).__name__}, not a move")


async def codecs_of(loop: Loop) -> list[tuple[Codec, list[Reply]]]:
    """Return the codecs of the requests, each with valid replies in its format."""
    found: dict[int, tuple[Codec, list[Reply]]] = {}
    kept, problem = Counter[tuple[str, Role]](), ""
    for scene in [await scripted(task) for task in TASKS] + [policy_scene(policy) for policy in (busy, done)]:
        for design in (limited(loop), loop.with_step_limit(1)):
            finished = await play(design, scene)
            problem = problem or finished.problem
            for request in finished.log.requests:
                role: object = request.role
                require(isinstance(role, Role), f"a request has role {role!r}; it must be a Role")
                if not isinstance(codec := request.codec, Codec):
                    raise Broken(f"a request of role {role} has no codec: no scripted model can speak the loop's format")
                if id(codec) not in found and kept[codec.name, request.role] < 2:  # which differ only by task
                    kept[codec.name, request.role] += 1
                    found[id(codec)] = codec, []
            for codec, reply in finished.log.replies:
                if id(codec) in found:
                    found[id(codec)][1].append(reply)
    require(bool(found), f"no request was made{f': {problem}' if problem else ''}")
    return list(found.values())


def _check_round_trip(codec: Codec, move: Move) -> bool:
    """Return whether the codec can render a move. Raises Broken if parsing does not give it back."""
    said = cap(repr(move), 160)
    where = f"codec {codec.name}: render({said})"
    try:
        reply = codec.render(move)
    except Inexpressible:
        return False
    except Exception as error:  # a user's own codec
        raise Broken(f"{where} raised {error_summary(error)}; it may raise Inexpressible only") from error
    try:
        back = codec.parse(reply)
    except Exception as error:  # WireError too: it rendered this itself
        raise Broken(f"{where} gave what parse refuses with {error_summary(error)}") from error
    require(back == move, f"codec {codec.name}: {said} came back as {cap(repr(back), 160)}; it must be equal, or Inexpressible")
    return True


ANSWERS = (8, "hello", "", "8 or so", [8], {"legs": 8}, 8.5)
"""What the model answers: a number, then what is none."""
CURE = "decorate `run` with whichloop.loops.bounded, which sees to it"


@law("typed answers", "the answer to a query with a type is an instance of it, or there is none")
async def typed_answers(loop: Loop) -> None:
    """A product works on with the answer as what its type says. A foreign loop's program gets the schema alone."""
    if isinstance(loop, ForeignLoop):
        raise NotApplicable("its program gets a schema, and no type")
    for value in ANSWERS:
        task = Task(f"typed answer {value!r}", Query(NO_CALL.query.text, schema=int), value, plan=Plan((), value))
        outcome = (await play(loop, await scripted(task))).outcome
        case = f"a model answers {value!r} to a query with schema=int, and the run stops as {outcome.stop}"
        is_number = type(outcome.answer) is int
        require(is_number or outcome.answer is None, f"{case}: the answer is {outcome.answer!r}; it must be an int or None: {CURE}")
        is_done = outcome.stop in (StopReason.FINISHED, StopReason.FORCED)
        require(is_number or not is_done, f"{case}, without an answer: it must stop as parse_failed: {CURE}")
        require(outcome.stop in loop.stops | {StopReason.PARSE_FAILED}, f"{case}, which `stops` does not declare")
