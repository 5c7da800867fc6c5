"""Two trials of one task beside each other, from question to end, with the place marked where they part."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopbench.metrics.trace import Trace
from loopbench.metrics.trajectory.trajectory import TracedStep, course, unmatched
from loopbench.text.trace_text import Block, blocks

from .document import Piece, SideBySide, SideView

MAX_CHARS = 700
"""Of one piece."""
MAX_PIECES = 40
"""Of one trial; those at either end, and around the place where the two part, are kept."""
_ENDS, _AROUND = 8, 10


def side_by_side(traces: tuple[Mapping[str, Any], Mapping[str, Any]], run: str) -> SideBySide:
    """Two traces of the same task. `run`: the name that `loopbench show` takes. Raises ValueError for what is no trace."""
    first, second = (course(Trace.from_json(trace)) for trace in traces)
    return SideBySide((_course(traces[0], first, second, run), _course(traces[1], second, first, run)))


def _course(trace: Mapping[str, Any], own: Sequence[TracedStep], other: Sequence[TracedStep], run: str) -> SideView:
    found = list(blocks(trace))
    at = _place(trace, found, own[_parting(own, other)])
    pieces = list(_pieces(found, at))
    arm = str(trace["arm"])
    trial = f"{arm}/{trace['task']}/{trace['repeat']}"
    scores = ", ".join(f"{name} {value:g}" for name, value in trace["scores"].items())
    return SideView(arm, show_command(run, trial), f"{trace['stop']}; {scores}", tuple(_shortened(pieces)))


def show_command(run: str, trial: str) -> str:
    """To be pasted into a shell; `trial`: ARM/TASK/REPEAT."""
    return f"loopbench show {shlex.quote(run)} {shlex.quote(trial)}"


def _parting(own: Sequence[TracedStep], other: Sequence[TracedStep]) -> int:
    """Index of the first step that the other course does not have, else of the first that stands elsewhere there; else the end."""
    mine, theirs = ([step.signature for step in steps] for steps in (own, other))
    alone = unmatched(theirs, mine)
    moved = (place for place, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two)
    return min(alone) if alone else next(moved, len(own) - 1)


def _place(trace: Mapping[str, Any], found: Sequence[Block], step: TracedStep) -> int:
    """Index of the block that tells of a step: behind its prompts."""
    if step.event is None:
        return len(found) - 1
    before = {**trace, "events": trace["events"][: step.event]}
    start = len(list(blocks(before))) - 1  # without its end
    return next((place for place in range(start, len(found)) if found[place].kind != "prompt"), len(found) - 1)


def _pieces(found: Sequence[Block], at: int) -> Iterator[Piece]:
    """Blocks as pieces; what was asked in one request is one, however many messages it has."""
    prompt: list[Block] = []
    for place, block in enumerate(found):
        if block.kind == "head":
            continue  # the question stands above both
        if block.kind == "prompt":
            prompt.append(block)
            continue
        if prompt:
            yield _prompt(prompt)
            prompt = []
        yield Piece(block.kind, block.label, cut(block.text), parts_here=place == at)
    if prompt:
        yield _prompt(prompt)


def _prompt(messages: Sequence[Block]) -> Piece:
    label = messages[0].label.partition(",")[0]
    said = (f"{block.label.partition(', ')[2]}: {block.text}" if ", " in block.label else block.text for block in messages)
    return Piece("prompt", f"{label}: prompt", cut("\n\n".join(said)))


def _shortened(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces at the ends and around the mark; one in place of those left out says how many they are."""
    if len(pieces) <= MAX_PIECES:
        yield from pieces
        return
    at = next((place for place, piece in enumerate(pieces) if piece.parts_here), 0)
    kept = {*range(_ENDS), *range(at - _AROUND, at + _AROUND), *range(len(pieces) - _ENDS, len(pieces))}
    left_out = 0
    for place, piece in enumerate(pieces):
        if place in kept:
            if left_out:
                yield Piece("note", "left out", f"{left_out} pieces")
            left_out = 0
            yield piece
        else:
            left_out += 1


def cut(text: str, most: int = MAX_CHARS) -> str:
    """Its beginning and its end, where it is long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
