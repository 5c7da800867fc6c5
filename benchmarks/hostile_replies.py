"""Hostile replies through the five designs: whatever a model writes, a run ends with a stop reason that the design declares.

python benchmarks/hostile_replies.py [--replies N] [--write]

The count goes on from benchmarks/hostile_replies.json, which is written after each block: interrupt the command and start it again
whenever you like. A block is drawn by its number alone. A run that raises, or ends otherwise than declared, is printed with the
number of its block and its place in it; the command then ends with exit code 1. --write renews the table in docs/loop-laws.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pages import arguments_of, head, row, write_block
from whichloop.checks.loop.random_moves import any_move, any_reply, any_value, busy, done, say
from whichloop.protocol import Capabilities, NativeCall, Outcome, Query, Reply, Request, Tool, Toolbox
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


@dataclass
class HostileModel(StreamsWhole):
    """Writes replies that are sound, damaged, or made of pieces of all formats."""

    rng: random.Random
    hostility: float
    """Share of the replies that are not sound: runs get further with fewer of them."""
    requests: int = 0
    replies: int = 0
    """Hostile ones only."""
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


class Run(NamedTuple):
    """What became of one run."""

    design: str
    replies: int
    stop: str
    cpu_s: float


@dataclass
class Count:
    """What became of all blocks so far, as it is kept."""

    next_block: int = 0
    peak_mb: int = 0
    designs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By design the numbers of `replies`, `runs`, by stop of `stops`, and the CPU time of the slowest run."""

    def add(self, run: Run) -> None:
        its = self.designs.setdefault(run.design, {"replies": 0, "runs": 0, "stops": {}, "slowest_s": 0.0})
        its["replies"] += run.replies
        its["runs"] += 1
        its["stops"] = dict(sorted((its["stops"] | {run.stop: its["stops"].get(run.stop, 0) + 1}).items()))
        its["slowest_s"] = max(its["slowest_s"], run.cpu_s)

    @property
    def replies(self) -> int:
        return sum(count["replies"] for count in self.designs.values())

    @classmethod
    def kept(cls) -> Count:
        """Return what was counted so far."""
        return cls(**json.loads(STATE.read_text(encoding="utf-8"))) if STATE.exists() else cls()

    def keep(self) -> None:
        """Write it, whole or not at all."""
        draft = STATE.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        draft.replace(STATE)

    def table(self) -> Iterator[str]:
        """Yield the lines of the table in the docs."""
        yield from head("design", "replies", "runs", "stops", "slowest run, s of CPU")
        for name, count in self.designs.items():
            stops = ", ".join(f"{stop} {times:,}" for stop, times in count["stops"].items())
            counts = (f"{count[each]:,}" for each in ("replies", "runs"))
            yield row(f"`{name}`", *counts, stops, f"{count['slowest_s']:.1f}")
        yield ""
        said = "hostile replies in all; no run without a declared stop. At most"
        yield f"{self.replies:,} {said} {self.peak_mb:,} MB of memory."


def block(number: int) -> tuple[list[Run], list[str], int]:
    """Run each design against replies drawn by the block's number; return the runs, what was wrong, and the most memory in MB."""
    logging.disable(logging.CRITICAL)
    runs, breaches = list[Run](), list[str]()
    for design in SPECS:
        for place in range(RUNS):
            try:
                runs.append(asyncio.run(one_run(design, random.Random(f"{number}/{design}/{place}"))))
            except Exception as error:  # that none leaves `run` is what is tested
                breaches.append(f"block {number}, {design}, run {place}: {type(error).__name__}: {error}"[:400])
    return runs, breaches, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def one_run(design: str, rng: random.Random) -> Run:
    """Run a design once. Raises AssertionError for an outcome that the design does not declare."""
    loop = make_loop(parse_spec(rng.choice(SPECS[design])), MAX_TOOL_STEPS)
    model = HostileModel(rng, rng.choice((0.1, 0.3, 1.0)))
    began = time.process_time()
    left: Any = await loop.run(Query("What is 2 + 2?", schema=rng.choice(SCHEMAS)), toolbox(rng), model)
    if not isinstance(left, Outcome) or left.stop not in loop.stops:
        raise AssertionError(f"an outcome that the design does not declare: {left!r}")
    return Run(design, model.replies, str(left.stop), time.process_time() - began)


def main() -> int:
    parser = arguments_of(__doc__)
    parser.add_argument("--replies", type=int, default=10_000_000)
    given = parser.parse_args()
    count, workers, breaches = Count.kept(), os.cpu_count() or 1, list[str]()
    with ProcessPoolExecutor(workers, max_tasks_per_child=20) as pool:
        while count.replies < given.replies and not breaches:
            for runs, wrong, peak_mb in list(pool.map(block, range(count.next_block, count.next_block + workers))):
                breaches += wrong
                for one in runs:
                    count.add(one)
                count.peak_mb = max(count.peak_mb, peak_mb)
            if not breaches:  # once they are mended, the same blocks come again
                count.next_block += workers
                count.keep()
                if given.write:
                    write_block(PAGE, "hostile", "\n".join(count.table()))
                print(f"{count.next_block} blocks, {count.replies:,} replies", file=sys.stderr)
    print("\n".join([*Count.kept().table(), *breaches]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
