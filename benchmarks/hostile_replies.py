"""Hostile replies through the five designs: whatever a model writes, a run ends with a stop reason that the design declares.

python benchmarks/hostile_replies.py [--replies N | --minutes M] [--workers N] [--write]

The count goes on from benchmarks/hostile_replies.json, which is written after each block: interrupt the command and start it again
whenever you like. A block is drawn by its number alone. A run that raises, or ends otherwise than declared, is printed with the
number of its block and its place in it; the command then ends with exit code 1. --write renews the table in docs/loop-laws.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pages import arguments_of, head, row, write_block
from whichloop.checks.loop.random_moves import any_move, any_reply, any_value, busy, done, say
from whichloop.protocol import Capabilities, Loop, NativeCall, Outcome, Query, Reply, Request, Tool, Toolbox
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

STATE = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "loop-laws.md"
RUNS = 40
"""Runs of each design in a block."""
MAX_TOOL_STEPS = 4
MAX_CHARS = 5_000_000
"""Length of the longest replies; the draw is even in the logarithm, and most replies are short."""
SPECS: Mapping[str, tuple[str, ...]] = {
    "bare": ("bare", "bare(decision_format=fields)", "bare(decision_format=native)"),
    "finish": ("finish", "finish(forced_finish=xml)", "finish(forced_finish=tool_choice)"),
    "phased": ("phased",),
    "react_extract": ("react_extract",),
    "stateless": ("stateless", "stateless(validate_output=true)"),
}
SCHEMAS: tuple[Any, ...] = (
    None,
    {"type": "integer"},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}}},
    {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}, "b": {"type": "string"}}}},
    },
)
PIECES = (
    *"{}[]<>\"'\\/:,#`&-_ \n\t\x00",
    *("1", "9e", "null", "true", "\ud800", "\u2028", "é", "</a>", "<a>", "<b>", "<tree>", "</tree>", "<item>", "</item>"),
    *("<output>", "</output>", "<output a='", "<![CDATA[", "]]>", "&#x", "&lt;", "```", "```json\n", '{"a":'),
    '{"tool_name": "add", "arguments": ',
    *("Thought: ", "\nTool: add\n", "\nArguments: {", "\nAnswer: ", "[[ ## ", " ## ]]\n", "[[ ## answer ## ]]\n", "finish"),
    *("__finish__", "[[ ## reasoning ## ]]\n", "[[ ## reasoning_output ## ]]\n", "[[ ## next_tool_args ## ]]\n"),
    *("[[ ## completed ## ]]", "unknown"),
)


# --- the model and the tools ---


@dataclass
class HostileModel(StreamsWhole):
    """Writes replies that are sound, damaged, or made of pieces of all formats."""

    rng: random.Random
    hostility: float
    """Share of the replies that are not sound: runs get further with fewer of them."""
    requests: int = 0
    replies: int = 0
    """Hostile ones only."""
    chars: int = 0
    name: str = "hostile"
    capabilities: Capabilities = field(default=Capabilities())

    async def complete(self, request: Request) -> Reply:
        self.requests += 1
        moves = (busy(request, self.requests, "add"), done(request, self.requests), (any_move(self.rng),))
        sound = say(request.codec, self.rng.choice(moves))
        if self.rng.random() >= self.hostility:
            return sound
        reply = self._hostile(sound)
        self.replies += 1
        self.chars += len(reply.text) + sum(len(call.arguments) for call in reply.calls)
        return reply

    def _hostile(self, sound: Reply) -> Reply:
        """Return a sound reply damaged, or pieces of formats in its place, in a call, or in the middle of it."""
        rng = self.rng
        kind = rng.randrange(6)
        if kind <= 2:
            return any_reply(rng, sound)
        text = pieces(rng)
        if kind == 3:
            return Reply(text)
        if kind == 4:
            return Reply("", (NativeCall("1", rng.choice(("add", "__finish__")), text),), None, "tool_calls")
        at = rng.randrange(len(sound.text) + 1)
        return Reply(sound.text[:at] + text + sound.text[at:], sound.calls)


def pieces(rng: random.Random) -> str:
    """Return pieces of formats, in any order or one to four of them again and again."""
    chars = int(MAX_CHARS ** (rng.random() ** 3))
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=min(chars, 400)))
    unit = "".join(rng.choices(PIECES, k=rng.randrange(1, 5)))
    return unit * (chars // len(unit) + 1)


def toolbox(rng: random.Random) -> Toolbox:
    """Return two tools: one gives anything, the other raises."""

    def add(a: Any = None, b: Any = None) -> Any:
        """Add two numbers."""
        return any_value(rng)

    def odd(a: Any = None) -> Any:
        """Fail."""
        raise rng.choice((ValueError, KeyError, SystemExit, RecursionError))(pieces(rng)[:1000])

    return Toolbox([Tool.from_function(add, blocking=False), Tool.from_function(odd, blocking=False)])


# --- blocks ---


@dataclass(slots=True)
class DesignCount:
    """What became of a design's runs so far."""

    replies: int = 0
    characters: int = 0
    runs: int = 0
    stops: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0
    """CPU time of the slowest run."""

    def __add__(self, other: DesignCount) -> DesignCount:
        stops = dict(sorted((Counter(self.stops) + Counter(other.stops)).items()))
        replies, characters, runs = self.replies + other.replies, self.characters + other.characters, self.runs + other.runs
        return DesignCount(replies, characters, runs, stops, max(self.slowest_s, other.slowest_s))


@dataclass(slots=True)
class Count:
    """What became of all blocks so far, or of one."""

    next_block: int = 0
    peak_mb: int = 0
    designs: dict[str, DesignCount] = field(default_factory=lambda: {design: DesignCount() for design in SPECS})

    def __add__(self, other: Count) -> Count:
        designs = {name: count + other.designs[name] for name, count in self.designs.items()}
        return Count(max(self.next_block, other.next_block), max(self.peak_mb, other.peak_mb), designs)

    @property
    def replies(self) -> int:
        return sum(count.replies for count in self.designs.values())

    @classmethod
    def kept(cls) -> Count:
        """Return what was counted so far."""
        if not STATE.exists():
            return cls()
        state = json.loads(STATE.read_text(encoding="utf-8"))
        return cls(**state | {"designs": {name: DesignCount(**count) for name, count in state["designs"].items()}})

    def keep(self) -> None:
        """Write it, whole or not at all."""
        draft = STATE.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        draft.replace(STATE)

    def table(self) -> Iterator[str]:
        """Yield the lines of the table in the docs."""
        yield from head("design", "replies", "characters", "runs", "stops", "slowest run, s of CPU")
        for name, count in self.designs.items():
            stops = ", ".join(f"{stop} {times:,}" for stop, times in count.stops.items())
            counts = map("{:,}".format, (count.replies, count.characters, count.runs))
            yield row(f"`{name}`", *counts, stops, f"{count.slowest_s:.1f}")
        yield ""
        said = "hostile replies in all; no run without a declared stop. At most"
        yield f"{self.replies:,} {said} {self.peak_mb:,} MB of memory."


@cache
def loops(design: str) -> tuple[Loop, ...]:
    return tuple(make_loop(parse_spec(text), MAX_TOOL_STEPS) for text in SPECS[design])


def block(number: int) -> tuple[Count, list[str]]:
    """Run each design against replies drawn by the number of the block; return the count and what was wrong."""
    found, breaches, before = Count(number + 1), list[str](), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for design in SPECS:
            for place in range(RUNS):
                one, breach = asyncio.run(one_run(design, random.Random(f"{number}/{design}/{place}")))
                found.designs[design] += one
                breaches += [f"block {number}, {design}, run {place}: {breach}"] if breach else []
    finally:
        logging.disable(before)
    found.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found, breaches


async def one_run(design: str, rng: random.Random) -> tuple[DesignCount, str]:
    """Run a design once; return its count and what was wrong, in words, or an empty text."""
    loop, model = rng.choice(loops(design)), HostileModel(rng, rng.choice((0.1, 0.3, 1.0)))
    began = time.process_time()
    try:
        left: Any = await loop.run(Query("What is 2 + 2?", schema=rng.choice(SCHEMAS)), toolbox(rng), model)
    except Exception as error:  # that none leaves `run` is what is tested
        return DesignCount(), f"{type(error).__name__}: {error}"[:300]
    count = DesignCount(model.replies, model.chars, 1, {str(left.stop): 1}, time.process_time() - began)
    is_declared = isinstance(left, Outcome) and left.stop in loop.stops
    return count, "" if is_declared else f"an outcome that the design does not declare: {left!r}"[:300]


def count_on(replies: int, seconds: float, workers: int, writes: bool) -> list[str]:
    """Run blocks until there are enough replies or the time is over; return the breaches."""
    counted, until = Count.kept(), time.monotonic() + seconds
    with ProcessPoolExecutor(workers, max_tasks_per_child=20) as pool:
        while counted.replies < replies and time.monotonic() < until:
            made = list(pool.map(block, range(counted.next_block, counted.next_block + workers)))
            if breaches := [breach for _, found in made for breach in found]:
                return breaches  # once they are mended, the same blocks come again
            for one, _ in made:
                counted += one
            counted.keep()
            if writes:
                write_block(PAGE, "hostile", "\n".join(counted.table()))
            print(f"{counted.next_block} blocks, {counted.replies:,} replies", file=sys.stderr)
    return []


def main() -> int:
    parser = arguments_of(__doc__)
    parser.add_argument("--replies", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    breaches = count_on(given.replies, given.minutes * 60, given.workers, given.write)
    print("\n".join([*Count.kept().table(), *breaches]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
