"""Lines of output before they are printed: a command prints them with styles, Python and notebooks as text."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from typing import Any, Literal

from rich.cells import cell_len

from whichloop.protocol import render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks that turn the writing direction, line separators, half surrogates, invisible tags."""


def terminal_safe(text: str) -> str:
    """Return text that is safe for a terminal: control characters except line feed and tab become their codes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def safe_for_others(text: str) -> str:
    """Return text of the user's own code, such as an exception's, as others may see it: without keys, and safe for a terminal."""
    return terminal_safe(redact(text))


def plain_line(text: str) -> str:
    """Return text made safe as a single line, with every run of white space as one space."""
    return one_line(terminal_safe(text))


def json_safe(value: Any) -> Any:
    """Return a value that JSON can hold; whatever JSON cannot hold becomes text."""
    if isinstance(value, str):
        return render_value(value)
    try:
        return json.loads(canonical_json(value))
    except Exception:  # NaN, a cycle, an object, or whatever a class of the loop's own raises
        return render_value(value)


UNBROKEN = "\u00a0"
"""A space between words that stay on one line."""

Style = Literal["", "bold", "dim", "yellow", "bold magenta"]


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A sentence, which a terminal wraps between words."""

    text: str
    style: Style = ""
    indent: str = ""
    """What stands before each line."""
    hanging: str | None = None
    """What stands before all lines but the first; None: the indent."""


def within_cells(text: str, cells: int) -> str:
    """Return the beginning of a text that takes at most so many cells of a terminal: a wide character takes two."""
    taken = 0
    for end, character in enumerate(text):
        taken += cell_len(character)
        if taken > cells:
            return text[:end]
    return text


def without_middle(text: str, cells: int) -> str:
    """Return a text in at most so many cells, its middle left out where it has more."""
    if cell_len(text) <= cells:
        return text
    head = cells // 2
    return f"{within_cells(text, head)}…{within_cells(text[::-1], cells - head - 1)[::-1]}"


def shortened(text: str, cells: int) -> str:
    """Return a text as one line of at most so many cells, cut at its end between words, with a sign, where it has more."""
    return "".join(_CellWrapper(cells, max_lines=1, placeholder=" …").wrap(" ".join(text.split())))


class _Chunk(str):
    """A part of a line, as long as the cells that it takes."""

    __slots__ = ()

    def __len__(self) -> int:
        return cell_len(str(self))


class _CellWrapper(textwrap.TextWrapper):
    """Wraps text by the cells that it takes on a terminal, not by its characters."""

    def _split(self, text: str) -> list[str]:
        return [_Chunk(chunk) for chunk in super()._split(text)]

    def _handle_long_word(self, reversed_chunks: list[str], cur_line: list[str], cur_len: int, width: int) -> None:
        word = str(reversed_chunks[-1])
        if self.break_long_words:
            head = within_cells(word, width - cur_len) or ("" if cur_line else word[0])
            at_hyphen = head[: head.rfind("-") + 1]
            if self.break_on_hyphens and at_hyphen.strip("-"):
                head = at_hyphen
            if head:
                cur_line.append(_Chunk(head))
                reversed_chunks[-1] = _Chunk(word[len(head) :])
        elif not cur_line:
            cur_line.append(reversed_chunks.pop())


def wrapped_words(text: str, width: int, **options: Any) -> list[str]:
    """Return the lines of a text, wrapped between words at a width in columns, with `UNBROKEN` spaces as spaces.

    No line ends within a word with a hyphen, unless `options`, those of `textwrap.wrap`, say so, or between a number and its
    percent sign, as in `5 %`.
    """
    wrapper = _CellWrapper(width, **{"break_on_hyphens": False, **options})
    lines = wrapper.wrap(re.sub(r"(?<=\d) (?=%)", UNBROKEN, text))
    return [line.replace(UNBROKEN, " ") for line in lines]


def prose_lines(prose: Prose, width: int) -> list[str]:
    """Return the lines of a sentence, wrapped as `wrapped_words` does, and safe for a terminal."""
    return wrapped_words(
        terminal_safe(prose.text),
        width,
        initial_indent=prose.indent,
        subsequent_indent=prose.indent if prose.hanging is None else prose.hanging,
        break_long_words=False,
    )
