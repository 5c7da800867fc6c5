"""Facts that are drawn as a text of a suite's wording says.

`[5-45]` is a drawn number, `[01-12]` one of two digits, `[ABC]` a letter; `[a|b]` is one of these, with `null`, and with the items
of a list by its name: all, or from the tenth on, `[towns:10:]`. `[each]` is the value that has this name. Such parts may stand in a
text. What comes first is done with what follows: `maybe` leaves it out at times, `cents` is a hundredth of it, `text` writes it as
one, `chance` gives yes or no, and the name of a function calls that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .generating import Draw

Names = Mapping[str, Any]
"""What a text may name: lists, functions, and other values."""


def drawn(draw: Draw, said: str, names: Names) -> Any:
    """Draw one fact."""
    kind, rest, parts = _parsed(said)
    if rest and callable(names.get(kind)):
        return names[kind](drawn(draw, rest, names))
    match kind:
        case "maybe":
            return draw.choice((None, drawn(draw, rest, names)))
        case "cents":
            return drawn(draw, rest, names) / 100
        case "text":
            return str(drawn(draw, rest, names))
        case "chance":
            return draw.chance(float(rest))
    values = [_one_of(draw, part, names) if place % 2 else part for place, part in enumerate(parts)]
    return values[1] if parts[::2] == ["", ""] else "".join(map(str, values))


def facts(draw: Draw, said: Mapping[str, str], names: Names) -> dict[str, Any]:
    """Draw facts by their names, one after the other."""
    return {name: drawn(draw, text, names) for name, text in said.items()}


def options(said: str, names: Names) -> Sequence[Any]:
    """Return what a fact is one of, by what stands within the brackets."""
    if said.isalpha() and said.isupper():
        return list(said)
    found: list[Any] = []
    for option in said.split("|"):
        name, *ends = option.split(":")
        if name in names:
            found += list(names[name])[slice(*(int(end) if end else None for end in ends or [""]))]
        else:
            found.append(None if option == "null" else int(option) if option.isdecimal() else option)
    return found


@cache
def _parsed(said: str) -> tuple[str, str, list[Any]]:
    """Return the first word, what follows it, and the parts: every second one stood in brackets."""
    kind, _, rest = said.partition(" ")
    parts: list[Any] = re.split(r"\[(.*?)\]", said)
    for place in range(1, len(parts), 2):
        if span := re.fullmatch(r"(0?)(\d+)-(\d+)", parts[place]):
            parts[place] = (int(span[2]), int(span[3]), len(span[1]))
    return kind, rest, parts


def _one_of(draw: Draw, said: str | tuple[int, int, int], names: Names) -> Any:
    if isinstance(said, tuple):
        low, high, is_padded = said
        return f"{draw.integer(low, high):02}" if is_padded else draw.integer(low, high)
    found = names[said] if said in names else options(said, names)
    return draw.choice(found) if isinstance(found, list | tuple) else found
