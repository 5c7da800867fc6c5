"""A line of `trials.jsonl` in two parts: what trials that went alike have in common, and the numbers of the trial's own."""

from __future__ import annotations

import re

OwnFields = tuple[int, int, float, float, int, int, int, int, int, int]
"""Repeat, seed, wall_s, started_at, attempt, and the five numbers of `trace_at`."""
UNTRACED = (-1, 0, 0, 0, 0)
"""In the place of `trace_at` where there is no trace."""

_NUMBER = rb"-?\d{1,15}\.\d{1,40}(?:e-\d\d)?"
_REPEAT = b',"repeat":'
_FIRST = re.compile(rb'(\d{1,9}),"seed":(-?\d{1,18}),')
_WALL = b',"wall_s":'
_LAST = re.compile(
    rb'(%b)(,"simulated_s":%b),"started_at":(%b),"attempt":(\d{1,9}),'
    rb'"trace_at":(?:null|\[(\d{1,18}),(\d{1,18}),(\d{1,18}),(\d{1,18}),(\d{1,18})\])(,"unknown":.*)' % ((_NUMBER,) * 3),
    re.DOTALL,
)
"""What follows `_WALL` in a line as a journal writes it. The quotes in both are those of JSON, because a text's are escaped."""


def parted(line: bytes) -> tuple[bytes, OwnFields] | None:
    """Return both parts of a line without its checksum; None for one that does not look as a journal writes it."""
    head, _, rest = line.partition(_REPEAT)
    first, (body, _, end) = _FIRST.match(rest), rest.rpartition(_WALL)
    last = _LAST.fullmatch(end)
    if first is None or last is None:
        return None
    wall_s, simulated_s, started_at, attempt, *place, behind = last.groups()
    common = b"\n".join((head, body[first.end() :], simulated_s, behind))
    at = UNTRACED if place[0] is None else map(int, place)
    return common, (int(first[1]), int(first[2]), float(wall_s), float(started_at), int(attempt), *at)
