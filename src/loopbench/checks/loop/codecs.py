"""The law on codecs: what a loop's wire formats can say comes back, and whatever a model writes is a move or a WireError."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import get_args

from loopbench.protocol import (
    Codec,
    Inexpressible,
    Loop,
    Move,
    Reply,
    Request,
    Role,
    WireError,
)

from .contract import limited
from .law import Broken, require
from .random_moves import any_move, any_reply, busy, done
from .scene import TASKS, play, scripted, shown_error, talking

MOVES = 400
REPLIES = 300
MAX_OF_A_NAME = 2
"""Codecs of one name and role that are looked at: they differ by task only."""
MAX_SOUND = 20
"""Sound replies of a codec that are spoiled."""
KINDS = get_args(Move)


async def codecs(loop: Loop) -> None:
    """Every request carries role and codec; a codec renders a move so that it reads it back, or raises Inexpressible; it reads any
    reply as a move or raises WireError.

    The scripted model speaks through the codec, so a format that loses something would be blamed on the design.
    """
    for codec, replies in await codecs_of(loop):
        _check_moves(codec, replies)
        _check_replies(codec, replies)


async def codecs_of(loop: Loop) -> list[tuple[Codec, list[Reply]]]:
    """Return the codecs that requests carry, each with sound replies in its format."""
    scenes = [await scripted(task) for task in TASKS] + [talking(sayer) for sayer in (busy, done)]
    found: dict[tuple[str, Role], list[tuple[Codec, list[Reply]]]] = {}
    for scene in scenes:
        for design in (limited(loop), loop.with_step_limit(1)):
            seen = (await play(design, scene)).seen
            for request in seen.requests:
                codec = _codec_of(request)
                known = found.setdefault((codec.name, request.role), [])
                if len(known) < MAX_OF_A_NAME and not any(codec is other for other, _ in known):
                    known.append((codec, []))
            for codec, reply in seen.replies:
                for other, replies in (item for known in found.values() for item in known):
                    if other is codec:
                        replies.append(reply)
    require(bool(found), "no request was made")
    return [item for known in found.values() for item in known]


def _codec_of(request: Request) -> Codec:
    role: object = request.role
    require(isinstance(role, Role), f"a request has role {role!r}; it must be a Role")
    if not isinstance(request.codec, Codec):
        raise Broken(f"a request of role {request.role} has no codec; without one no scripted model can speak the loop's format")
    return request.codec


def _check_moves(codec: Codec, replies: Sequence[Reply]) -> None:
    """The moves that the scripted model made of it, and many others."""
    rng = random.Random(f"moves {codec.name}")
    read = sum(_comes_back(codec, move) for move in read_moves(codec, replies))
    require(
        read > 0, f"codec {codec.name}: the scripted model can say nothing in it; it must be able to say what its role asks for"
    )
    for _ in range(MOVES):
        _comes_back(codec, any_move(rng))


def read_moves(codec: Codec, replies: Sequence[Reply]) -> list[Move]:
    """Return the moves that a codec reads in replies."""
    made = []
    for reply in replies[:MAX_SOUND]:
        with contextlib.suppress(Exception):  # an unreadable reply is no move; what parse may raise is looked at below
            made.append(codec.parse(reply))
    return made


def _comes_back(codec: Codec, move: Move) -> bool:
    """Whether the codec can say a move. Raises Broken where it does not come back."""
    try:
        reply = codec.render(move)
    except Inexpressible:
        return False
    except Exception as error:  # a codec of the user's own
        raise Broken(
            f"codec {codec.name}: render({_shown(move)}) raised {shown_error(error)}; it may raise Inexpressible only"
        ) from error
    try:
        back = codec.parse(reply)
    except Exception as error:  # WireError too: it rendered this itself
        raise Broken(f"codec {codec.name}: render({_shown(move)}) gave what parse refuses with {shown_error(error)}") from error
    require(back == move, f"codec {codec.name}: {_shown(move)} came back as {_shown(back)}; it must be equal, or Inexpressible")
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
                f"codec {codec.name}: parse({_shown(reply)}) raised {shown_error(error)}; it may raise WireError only"
            ) from error
        require(isinstance(move, KINDS), f"codec {codec.name}: parse({_shown(reply)}) gave a {type(move).__name__}, not a move")


def _shown(value: Move | Reply) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
