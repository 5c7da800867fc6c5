"""The laws on codecs and typed answers: a move that is rendered parses to an equal one, any reply to a move or a WireError."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import get_args

from whichloop.datasets.task import Task
from whichloop.protocol import (
    Codec,
    ForeignLoop,
    Inexpressible,
    Loop,
    Move,
    Plan,
    Query,
    Reply,
    Role,
    StopReason,
    WireError,
)

from .contract import limited
from .law import Broken, NotApplicable, require
from .random_moves import any_move, any_reply, busy, done
from .scene import TASKS, error_summary, play, policy_scene, scripted

MOVES = 400
REPLIES = 300
MAX_OF_A_NAME = 2
"""Maximum number of codecs checked per name and role, which differ only by task."""
MAX_SOUND = 20
"""Maximum number of valid replies of a codec to damage."""
KINDS = get_args(Move)


async def codecs(loop: Loop) -> None:
    """Every request has a role and a codec, which renders a move so that it parses to an equal one, or raises Inexpressible, and
    parses any reply to a move or raises WireError.

    The scripted model replies through the codec, so a lossy format would be blamed on the design.
    """
    for codec, replies in await codecs_of(loop):
        rng = random.Random(f"moves {codec.name}")
        read = sum(_check_round_trip(codec, move) for move in parsed_moves(codec, replies))
        require(read > 0, f"codec {codec.name}: it renders no move of the scripted model; it must render the moves of its role")
        for _ in range(MOVES):
            _check_round_trip(codec, any_move(rng))
        _check_replies(codec, replies)


async def codecs_of(loop: Loop) -> list[tuple[Codec, list[Reply]]]:
    """Return the codecs of the requests, each with valid replies in its format."""
    scenes = [await scripted(task) for task in TASKS] + [policy_scene(policy) for policy in (busy, done)]
    by_codec: dict[tuple[str, Role], list[tuple[Codec, list[Reply]]]] = {}
    problem = ""
    for scene in scenes:
        for design in (limited(loop), loop.with_step_limit(1)):
            finished = await play(design, scene)
            log, problem = finished.log, problem or finished.problem
            for request in log.requests:
                role: object = request.role
                require(isinstance(role, Role), f"a request has role {role!r}; it must be a Role")
                if not isinstance(request.codec, Codec):
                    raise Broken(
                        f"a request of role {request.role} has no codec; without one no scripted model can speak the loop's format"
                    )
                codec = request.codec
                pairs = by_codec.setdefault((codec.name, request.role), [])
                if len(pairs) < MAX_OF_A_NAME and not any(codec is other for other, _ in pairs):
                    pairs.append((codec, []))
            for codec, reply in log.replies:
                for other, replies in (item for pairs in by_codec.values() for item in pairs):
                    if other is codec:
                        replies.append(reply)
    require(bool(by_codec), f"no request was made{f': {problem}' if problem else ''}")
    return [item for pairs in by_codec.values() for item in pairs]


def parsed_moves(codec: Codec, replies: Sequence[Reply]) -> list[Move]:
    """Return the moves that a codec reads in replies."""
    moves = []
    for reply in replies[:MAX_SOUND]:
        with contextlib.suppress(Exception):  # an unreadable reply is not a move; the exceptions of parse are checked below
            moves.append(codec.parse(reply))
    return moves


def _check_round_trip(codec: Codec, move: Move) -> bool:
    """Return whether the codec can render a move. Raises Broken if parsing does not give it back."""
    try:
        reply = codec.render(move)
    except Inexpressible:
        return False
    except Exception as error:  # a user's own codec
        raise Broken(
            f"codec {codec.name}: render({_excerpt(move)}) raised {error_summary(error)}; it may raise Inexpressible only"
        ) from error
    try:
        back = codec.parse(reply)
    except Exception as error:  # WireError too: it rendered this itself
        raise Broken(f"codec {codec.name}: render({_excerpt(move)}) gave what parse refuses with {error_summary(error)}") from error
    require(back == move, f"codec {codec.name}: {_excerpt(move)} came back as {_excerpt(back)}; it must be equal, or Inexpressible")
    return True


def _check_replies(codec: Codec, replies: Sequence[Reply]) -> None:
    rng = random.Random(f"replies {codec.name}")
    sound = replies[:MAX_SOUND]
    for reply in (any_reply(rng, rng.choice(sound)) for _ in range(REPLIES)):
        try:
            move: object = codec.parse(reply)
        except WireError:
            continue
        except Exception as error:  # a codec of the user's own
            raise Broken(
                f"codec {codec.name}: parse({_excerpt(reply)}) raised {error_summary(error)}; it may raise WireError only"
            ) from error
        require(isinstance(move, KINDS), f"codec {codec.name}: parse({_excerpt(reply)}) gave a {type(move).__name__}, not a move")


def _excerpt(value: Move | Reply) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


QUESTION = Query("A spider has how many legs? You know that without any help.", schema=int)
ANSWERS = (8, "hello", "", "8 or so", [8], {"legs": 8}, 8.5)
"""What the model answers: a number, then what is none."""
CURE = "decorate `run` with whichloop.loops.bounded, which sees to it"


async def typed_answers(loop: Loop) -> None:
    """The answer to a query with a type is an instance of that type; what the type refuses is no answer.

    A product works on with the answer as what its type says. A foreign loop's program gets the schema alone.
    """
    if isinstance(loop, ForeignLoop):
        raise NotApplicable("its program gets a schema, and no type")
    for value in ANSWERS:
        task = Task(f"typed answer {value!r}", QUESTION, value, plan=Plan((), value))
        outcome = (await play(loop, await scripted(task))).outcome
        case = f"a model answers {value!r} to a query with schema=int, and the run stops as {outcome.stop}"
        is_number = type(outcome.answer) is int
        require(is_number or outcome.answer is None, f"{case}: the answer is {outcome.answer!r}; it must be an int or None: {CURE}")
        is_done = outcome.stop in (StopReason.FINISHED, StopReason.FORCED)
        require(is_number or not is_done, f"{case}, without an answer: it must stop as parse_failed: {CURE}")
        require(outcome.stop in loop.stops | {StopReason.PARSE_FAILED}, f"{case}, which `stops` does not declare")
