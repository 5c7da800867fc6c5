"""Hostile replies through the five designs: whatever a model writes, a run ends with a stop reason that the design declares.

python benchmarks/hostile_replies.py [--replies N | --minutes M] [--workers N] [--write]

The count goes on from benchmarks/hostile_replies.json, which is written after each block: interrupt the command and start it again
whenever you like. A block is drawn by its number alone. A run that raises, or ends otherwise than declared, is printed with the
number of its block and its place in it; the command then ends with exit code 1. --write renews the table in docs/loop-laws.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pages import head, write_block
from whichloop.checks.loop.random_moves import any_move, any_reply, any_value, busy, done, say
from whichloop.protocol import Capabilities, Chunk, Loop, NativeCall, Outcome, Query, Reply, Request, Tool, Toolbox
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


@dataclass(slots=True)
class HostileModel:
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

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))

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

    def add(self, other: DesignCount) -> None:
        self.replies += other.replies
        self.characters += other.characters
        self.runs += other.runs
        self.stops = dict(sorted((Counter(self.stops) + Counter(other.stops)).items()))
        self.slowest_s = max(self.slowest_s, other.slowest_s)


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The outcome of one block."""

    number: int
    designs: dict[str, DesignCount]
    breaches: list[str]
    peak_mb: int


@cache
def loops(design: str) -> tuple[Loop, ...]:
    return tuple(make_loop(parse_spec(text), MAX_TOOL_STEPS) for text in SPECS[design])


def block(number: int) -> BlockResult:
    """Run each design against replies drawn by the number of the block."""
    designs, breaches = {design: DesignCount() for design in SPECS}, []
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for design, count in designs.items():
            for place in range(RUNS):
                if breach := asyncio.run(one_run(design, random.Random(f"{number}/{design}/{place}"), count)):
                    breaches.append(f"block {number}, {design}, run {place}: {breach}")
    finally:
        logging.disable(before)
    return BlockResult(number, designs, breaches, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


async def one_run(design: str, rng: random.Random, count: DesignCount) -> str:
    """Run a design once and count it; return what was wrong, in words, or an empty text."""
    loop, model = rng.choice(loops(design)), HostileModel(rng, rng.choice((0.1, 0.3, 1.0)))
    began = time.process_time()
    try:
        left: Any = await loop.run(Query("What is 2 + 2?", schema=rng.choice(SCHEMAS)), toolbox(rng), model)
    except Exception as error:  # that none leaves `run` is what is tested
        return f"{type(error).__name__}: {error}"[:300]
    count.add(DesignCount(model.replies, model.chars, 1, {str(left.stop): 1}, time.process_time() - began))
    if not isinstance(left, Outcome) or left.stop not in loop.stops:
        return f"an outcome that the design does not declare: {left!r}"[:300]
    return ""


# --- counting on ---


def known() -> tuple[int, dict[str, DesignCount], int]:
    """Return the next block, the counts and the largest memory so far, in MB."""
    if not STATE.exists():
        return 0, {design: DesignCount() for design in SPECS}, 0
    state = json.loads(STATE.read_text(encoding="utf-8"))
    return state["next_block"], {name: DesignCount(**counts) for name, counts in state["designs"].items()}, state["peak_mb"]


def keep(next_block: int, designs: Mapping[str, DesignCount], peak_mb: int) -> None:
    """Write the state, whole or not at all."""
    state = {"next_block": next_block, "peak_mb": peak_mb, "designs": {name: asdict(count) for name, count in designs.items()}}
    draft = STATE.with_suffix(".new")
    draft.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    draft.replace(STATE)


def count_on(replies: int, seconds: float, workers: int, after_each: Callable[[], None]) -> list[str]:
    """Run blocks until there are enough replies or the time is over; return the breaches."""
    number, designs, peak = known()
    until, breaches = time.monotonic() + seconds, list[str]()
    with ProcessPoolExecutor(workers, max_tasks_per_child=20) as pool:
        while sum(count.replies for count in designs.values()) < replies and time.monotonic() < until and not breaches:
            for result in pool.map(block, range(number, number + workers)):
                for name, count in result.designs.items():
                    designs[name].add(count)
                breaches += result.breaches
                number, peak = result.number + 1, max(peak, result.peak_mb)
            if breaches:
                break  # once they are mended, the same blocks come again
            keep(number, designs, peak)
            after_each()
            print(f"{number} blocks, {sum(count.replies for count in designs.values()):,} replies", file=sys.stderr)
    return breaches


def table() -> Iterator[str]:
    """Yield the lines of the table in the docs."""
    _, designs, peak = known()
    yield from head("design", "replies", "characters", "runs", "stops", "slowest run, s of CPU")
    for name, count in designs.items():
        stops = ", ".join(f"{stop} {times:,}" for stop, times in count.stops.items())
        yield f"| `{name}` | {count.replies:,} | {count.characters:,} | {count.runs:,} | {stops} | {count.slowest_s:.1f} |"
    total = sum(count.replies for count in designs.values())
    yield ""
    yield f"{total:,} hostile replies in all; no run without a declared stop. At most {peak:,} MB of memory."


def write_page() -> None:
    """Put the table into the docs."""
    write_block(PAGE, "hostile", "\n".join(table()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    breaches = count_on(given.replies, given.minutes * 60, given.workers, write_page if given.write else lambda: None)
    print("\n".join([*table(), *breaches]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
