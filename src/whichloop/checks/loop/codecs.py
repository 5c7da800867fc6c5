"""The laws on codecs and typed answers: a move that is rendered parses to an equal one, any reply to a move or a WireError."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import get_args

from whichloop.datasets.task import Task
from whichloop.protocol import Codec, ForeignLoop, Inexpressible, Loop, Move, Plan, Query, Reply, Role, StopReason, WireError

from ..shared.law import Broken, NotApplicable, error_summary, law, require
from .random_moves import any_move, any_reply, busy, done
from .scene import NO_CALL, TASKS, limited, play, policy_scene, scripted

MOVES, REPLIES = 400, 300
MAX_OF_A_NAME = 2
"""Codecs checked per name and role, which differ only by task."""
MAX_SOUND = 20
"""Valid replies of a codec to damage."""


@law("codecs", "a codec parses what it renders, and reads any reply as a move or raises WireError")
async def codecs(loop: Loop) -> None:
    """The scripted model replies through the codec, so a lossy format would be blamed on the design."""
    for codec, replies in await codecs_of(loop):
        rng, sound = random.Random(f"moves {codec.name}"), replies[:MAX_SOUND]
        parsed: list[Move] = []
        for reply in sound:
            with contextlib.suppress(Exception):  # an unreadable reply is not a move; what parse may raise is checked below
                parsed.append(codec.parse(reply))
        read = sum(_check_round_trip(codec, move) for move in parsed)
        require(read > 0, f"codec {codec.name}: it renders no move of the scripted model; it must render the moves of its role")
        for _ in range(MOVES):
            _check_round_trip(codec, any_move(rng))
        _check_replies(codec, sound)


async def codecs_of(loop: Loop) -> list[tuple[Codec, list[Reply]]]:
    """Return the codecs of the requests, each with valid replies in its format."""
    by_codec: dict[tuple[str, Role], list[tuple[Codec, list[Reply]]]] = {}
    problem = ""
    for scene in [await scripted(task) for task in TASKS] + [policy_scene(policy) for policy in (busy, done)]:
        for design in (limited(loop), loop.with_step_limit(1)):
            finished = await play(design, scene)
            problem = problem or finished.problem
            for request in finished.log.requests:
                role: object = request.role
                require(isinstance(role, Role), f"a request has role {role!r}; it must be a Role")
                if not isinstance(codec := request.codec, Codec):
                    raise Broken(
                        f"a request of role {role} has no codec; without one no scripted model can speak the loop's format"
                    )
                pairs = by_codec.setdefault((codec.name, request.role), [])
                if len(pairs) < MAX_OF_A_NAME and not any(codec is other for other, _ in pairs):
                    pairs.append((codec, []))
            for codec, reply in finished.log.replies:
                for other, replies in (item for pairs in by_codec.values() for item in pairs):
                    if other is codec:
                        replies.append(reply)
    require(bool(by_codec), f"no request was made{f': {problem}' if problem else ''}")
    return [item for pairs in by_codec.values() for item in pairs]


def _check_round_trip(codec: Codec, move: Move) -> bool:
    """Return whether the codec can render a move. Raises Broken if parsing does not give it back."""
    where = f"codec {codec.name}: render({_excerpt(move)})"
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
    require(back == move, f"codec {codec.name}: {_excerpt(move)} came back as {_excerpt(back)}; it must be equal, or Inexpressible")
    return True


def _check_replies(codec: Codec, sound: Sequence[Reply]) -> None:
    rng = random.Random(f"replies {codec.name}")
    for reply in (any_reply(rng, rng.choice(sound)) for _ in range(REPLIES)):
        where = f"codec {codec.name}: parse({_excerpt(reply)})"
        try:
            move: object = codec.parse(reply)
        except WireError:
            continue
        except Exception as error:  # a codec of the user's own
            raise Broken(f"{where} raised {error_summary(error)}; it may raise WireError only") from error
        require(isinstance(move, get_args(Move)), f"{where} gave a {type(move).__name__}, not a move")


def _excerpt(value: Move | Reply) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


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
