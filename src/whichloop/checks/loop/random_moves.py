"""What models say: moves and replies of all kinds, valid and invalid; the random ones are drawn with a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from whichloop.models.faults import spoiled_forms
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Inexpressible, NativeCall, Reply, Request, Role, ToolCall
from whichloop.protocol.moves import Act, Answer, Codec, Completion, Move, PlanTask, Recovery, Tasks, Text, Understanding

ANSWER_TEXT = "forty-two"
Strategy = Literal["retry", "alternative_tool", "skip", "fail"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


def say(codec: Codec | None, options: Sequence[Move]) -> Reply:
    """Return a reply with the first move that the codec can render; prose if it can render none."""
    for move in options:
        try:
            return (codec or NATIVE).render(move)
        except Inexpressible:
            continue
    return Reply("I cannot say this in the format asked for.")


def busy(request: Request, serial: int, tool: str = "dig") -> tuple[Move, ...]:
    """Return the moves of a model that never finishes, in order of preference: one call whose argument `hole` is `serial`."""
    last = answers("I stop here.")
    match request.role:
        case Role.DECIDE | Role.SELECT:
            call = ToolCall(tool, {"hole": serial})
            return (Act(f"Dig hole {serial}.", (call,)), Act("", (call,)), *last)
        case Role.PLAN:
            tasks = tuple(PlanTask(f"t{index}", f"Dig hole {serial} at corner {index}.") for index in range(3))
            return (Tasks(tasks, "Dig."), Tasks(tasks), *last)
        case Role.REFLECT | Role.VALIDATE:
            more = "There is more to dig."
            return (Completion(False, more, ("more holes",)), Completion(False, more), Completion(False), *last)
        case Role.UNDERSTAND:
            return (Understanding("dig holes", (tool,)), Understanding("dig holes"), *last)
        case Role.RECOVER:
            return (Recovery("skip", None, "It does not matter."), Recovery("skip"), *last)
        case Role.CONFIRM:
            return (Completion(True, "It is asked for."), Completion(True), *last)
        case Role.ANSWER:
            return last
    return (Text(f"Hole {serial} is on its way."), *last)


def done(request: Request, serial: int) -> tuple[Move, ...]:
    """Return the moves of a model that has the answer."""
    match request.role:
        case Role.REFLECT | Role.VALIDATE | Role.CONFIRM:
            return (Completion(True, "All is known."), Completion(True))
        case Role.PLAN:
            return (Tasks((), "Nothing is left to do."), Tasks(()))
        case Role.SELECT:
            return (Act("", ()),)
        case Role.DECIDE | Role.ANSWER:
            return answers("All is known.")
    return busy(request, serial)


def answers(thought: str, value: str = ANSWER_TEXT) -> tuple[Move, ...]:
    """Return an answer in the variants of the formats: with confidence, without, without a value, as prose."""
    with_value = (Answer(thought, value), Answer(thought, value, 0.9))
    return (*with_value, Answer(thought), Answer(thought, None, 0.9), Answer("", value), Text(value))


WORDS = (
    *("", " ", "a", "finish", "__finish__", "final_answer", "Ünïcödé – 漢字 🙂", "line\nbreak\r\nand\ttab", "\u2028\u0085\x0b"),
    *("\x00\x1b\x7f", "\"quoted\" 'twice' \\ back", "<tag attr='1'>&amp;</tag> ]]>", "[[ ## next_thought ## ]]\nno"),
    *("```json\n{}\n```", "{'a': 1}", '{"final_answer": "x"}', "null", "True", "0123", "1e999", " spaced ", "x" * 500),
)


def any_move(rng: random.Random) -> Move:
    """Return a random move with odd texts and values everywhere."""
    return rng.choice(_MAKERS)(rng)


def any_call(rng: random.Random) -> ToolCall:
    return ToolCall(any_word(rng), {any_word(rng): any_value(rng) for _ in range(rng.randrange(4))})


def any_word(rng: random.Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.6 else "".join(rng.choices("ab é9_<{[\"'\\\n&#:漢", k=rng.randrange(9)))


def any_value(rng: random.Random, depth: int = 3) -> object:
    """Return a JSON value, or sometimes one that JSON cannot represent."""
    match rng.randrange(9 if depth else 6):
        case 0:
            return any_word(rng)
        case 1:
            return rng.choice((0, -1, 7, 2**70, -(10**30)))
        case 2:
            return rng.choice((0.5, -0.0, 1e300, 1e-9, float("inf")))
        case 3:
            return rng.choice((True, False, None))
        case 4:
            return rng.choice(((1, 2), {1: 2}, {1, 2}, b"bytes", object()))
        case 5:
            return rng.choice(("plain", 3, "text with words"))
        case 6:
            return [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {any_word(rng): any_value(rng, depth - 1) for _ in range(rng.randrange(4))}


def _confidence(rng: random.Random) -> float | None:
    return rng.choice((None, None, 0.0, 0.25, 0.9, 1.0))


def _random_words(rng: random.Random) -> tuple[str, ...]:
    return tuple(any_word(rng) for _ in range(rng.randrange(3)))


_MAKERS: tuple[Callable[[random.Random], Move], ...] = (
    lambda rng: Act(any_word(rng), tuple(any_call(rng) for _ in range(rng.choice((1, 1, 1, 0, 2, 3))))),
    lambda rng: Answer(any_word(rng), any_value(rng), _confidence(rng)),
    lambda rng: Answer(any_word(rng), any_word(rng)),
    lambda rng: Answer(any_word(rng)),
    lambda rng: Understanding(any_word(rng), _random_words(rng)),
    lambda rng: Tasks(
        tuple(
            PlanTask(any_word(rng), any_word(rng), rng.choice(("use_tools", "reason")), _random_words(rng))
            for _ in range(rng.randrange(4))
        ),
        any_word(rng),
    ),
    lambda rng: Completion(rng.random() < 0.5, any_word(rng), _random_words(rng), _confidence(rng)),
    lambda rng: Recovery(rng.choice(STRATEGIES), any_call(rng) if rng.random() < 0.5 else None, any_word(rng)),
    lambda rng: Text(any_word(rng)),
)


_BROKEN: tuple[str, ...] = (
    *("", "null", "[]", "3", '"text"', "{", '{"a": }', '{"thought": NaN}', "[" * 20_000, '{"a":' * 20_000, "9" * 5_000),
    *('{"tool_name": ' + "9" * 5_000 + "}", "<a>" * 2_000, "\ud800 lone", "\x00\x01\x02", "x" * 100_000),
    *("[[ ## completed ## ]]", "[[ ##  ## ]]", '{"final_answer": null, "tool_name": [], "arguments": 3}'),
)


def any_reply(rng: random.Random, sound: Reply) -> Reply:
    """Return a random reply; `sound` is a valid one to damage."""
    match rng.randrange(6):
        case 0:
            return spoiled_forms(f"wire.{rng.choice(('malformed', 'truncated', 'fenced', 'empty', 'duplicated'))}", sound)[0]
        case 1:
            return Reply(rng.choice(_BROKEN))
        case 2:
            return Reply(rng.randbytes(rng.randrange(60)).decode("latin-1"))
        case 3:
            names, texts = ("dig", "jam", "odd", "finish", "__finish__"), (*_BROKEN, '{"hole": 1}', "{}")
            calls = []
            for _ in range(rng.randrange(1, 4)):
                name = rng.choice((*names, any_word(rng)))
                calls.append(NativeCall(rng.choice(("", "call_0", "call_1")), name, rng.choice(texts)))
            return Reply(rng.choice(("", "Now then.", any_word(rng))), tuple(calls), None, "tool_calls")
        case 4:
            text = sound.text  # one piece removed and another repeated
            at, to = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
            repeat = rng.randrange(len(text) + 1)
            cut = tuple(replace(call, arguments=call.arguments[: rng.randrange(len(call.arguments) + 1)]) for call in sound.calls)
            return Reply(text[:at] + text[to:] + text[repeat : repeat + 40], cut)
    return Reply(f"{any_word(rng)}{sound.text}{any_word(rng)}", sound.calls, None, rng.choice(("stop", "length", "content_filter")))
