"""Two trials of one task beside each other, from question to end; the place where they diverge is marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from whichloop.experiments.why.trial import show_command
from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory.trajectory import TracedStep, course, unmatched
from whichloop.text.trace_text import Block, JudgedTrace, blocks

from .document import Piece, SideBySide, SideView

MAX_CHARS = 700
"""Longest text of one piece."""
MAX_PIECES = 40
"""Most pieces of one trial; those at either end, and around the place where the two diverge, are kept."""
_ENDS, _AROUND = 8, 10


def side_by_side(traces: tuple[Trace, Trace], run: str) -> SideBySide:
    """Return two traces of one task as a block. `run`: the run's name for `whichloop show`."""
    first, second = map(course, traces)
    return SideBySide((_side_view(traces[0], first, second, run), _side_view(traces[1], second, first, run)))


def _side_view(trace: Trace, steps: Sequence[TracedStep], other: Sequence[TracedStep], run: str) -> SideView:
    trace_blocks, head = list(blocks(JudgedTrace(trace, judged_again=False))), trace.head
    pieces = list(_pieces(trace_blocks, _block_index(trace, trace_blocks, steps[_divergence_index(steps, other)])))
    scores = ", ".join(f"{name} {value:g}" for name, value in head.scores.items())
    command = show_command(run, f"{head.arm}/{head.task}/{head.repeat}")
    return SideView(head.arm, command, f"{head.stop}; {scores}", tuple(_shortened(pieces)))


def _divergence_index(own: Sequence[TracedStep], other: Sequence[TracedStep]) -> int:
    """Return the index of the first step that the other trial lacks, else of the first at another place there, else of the last."""
    mine, theirs = ([step.signature for step in steps] for steps in (own, other))
    alone = unmatched(theirs, mine)
    moved = (place for place, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two)
    return min(alone) if alone else next(moved, len(own) - 1)


def _block_index(trace: Trace, trace_blocks: Sequence[Block], step: TracedStep) -> int:
    """Return the index of the block that shows a step, after its prompts."""
    if step.event is None:
        return len(trace_blocks) - 1
    before = replace(trace, events=trace.events[: step.event])
    start = len(list(blocks(JudgedTrace(before, judged_again=False)))) - 1  # without its end
    return next((place for place in range(start, len(trace_blocks)) if trace_blocks[place].kind != "prompt"), len(trace_blocks) - 1)


def _pieces(trace_blocks: Sequence[Block], at: int) -> Iterator[Piece]:
    """Yield blocks as pieces; the messages of one request are one piece."""
    prompt: list[Block] = []
    for place, block in enumerate(trace_blocks):
        if block.kind == "head":
            continue  # the question stands above both
        if block.kind == "prompt":
            prompt.append(block)
            continue
        if prompt:
            yield _prompt(prompt)
            prompt = []
        yield Piece(block.kind, block.label, cut(block.text), diverges_here=place == at)
    if prompt:
        yield _prompt(prompt)


def _prompt(messages: Sequence[Block]) -> Piece:
    label = messages[0].label.partition(",")[0]
    texts = (f"{block.label.partition(', ')[2]}: {block.text}" if ", " in block.label else block.text for block in messages)
    return Piece("prompt", f"{label}: prompt", cut("\n\n".join(texts)))


def _shortened(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the pieces at the ends and around the divergence; a note replaces those left out and says how many they are."""
    if len(pieces) <= MAX_PIECES:
        yield from pieces
        return
    at = next((place for place, piece in enumerate(pieces) if piece.diverges_here), 0)
    kept_places = {*range(_ENDS), *range(at - _AROUND, at + _AROUND), *range(len(pieces) - _ENDS, len(pieces))}
    left_out = 0
    for place, piece in enumerate(pieces):
        if place in kept_places:
            if left_out:
                yield Piece("note", "left out", f"{left_out} pieces")
            left_out = 0
            yield piece
        else:
            left_out += 1


def cut(text: str, most: int = MAX_CHARS) -> str:
    """Return the text, or its beginning and its end if it is long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
