"""What the demonstrations in a prompt show: calls with their arguments, answers, and what is said besides, in any wire format.

A call is a tool's name and next to it a JSON object that the tool takes as its arguments; a list of tools is not a call. Read as
text and as JSON within JSON, because every design writes its calls in a way of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from whichloop.protocol import Message
from whichloop.protocol.json_text import Json
from whichloop.protocol.receipts import MARK

_DEEPEST = 40
"""Levels of JSON, and of texts within JSON, that are looked into."""
_WINDOW = 200
"""Characters before a JSON object in which its tool's name is looked for."""
_BETWEEN = r"(?i:(?:\W+\w*(?:arg|param|input|tool|name|function|call)\w*)*)\W*\Z"
"""What stands between a tool's name and its arguments: marks, and words that say that arguments come."""
_DIGITS = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(rf"(?<![\w.]){_DIGITS}(?!\w)")
_RECEIPT = re.compile(rf"(?:(?<![\w.])(?P<number>{_DIGITS})\s*)?(?:{MARK.pattern})")
_STATED = re.compile(r"(?:answer|response)\b[ \t#\]\[:=>*\"']*\n?[ \t]*(-?[\d.,]+)[ \t]*(?=[\"<]|\Z|\n)", re.IGNORECASE)
_FOR_ANSWERS = re.compile(r"(?:answer|response)\Z", re.IGNORECASE)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class DemonstrationContent:
    """What some texts show."""

    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Tool and arguments."""
    numbers: set[float] = field(default_factory=set)
    """Numbers in prose: neither an argument nor a result."""
    results: set[float] = field(default_factory=set)
    """Numbers before a receipt's mark, or in JSON that is not a call."""
    answers: list[Any] = field(default_factory=list)
    """Values stated as an answer: numbers, or text as it stands there."""


def texts_of(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return all that messages show: native calls as JSON, and a reply that is nothing but a number as the answer that it is."""
    texts = []
    for message in messages:
        is_answer = message.role == "assistant" and is_plain_number(message.content)
        texts.append(f"Answer: {message.content}" if is_answer else message.content)
        texts += [json.dumps({"name": call.name, "arguments": call.arguments}) for call in message.calls]
    return tuple(texts)


@lru_cache(maxsize=128)
def read_demonstrations(texts: tuple[str, ...], tools: frozenset[str]) -> DemonstrationContent:
    """Read what texts show of calls of these tools, and beside them."""
    reader = _Reader(tools)
    for text in texts:
        reader.read_text(text, 0)
    return reader.content


def is_plain_number(value: object) -> bool:
    """Whether a value is a number, or text that is one in digits."""
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Reader:
    """One walk through texts."""

    def __init__(self, tools: frozenset[str]) -> None:
        self.tools = tools
        self.content = DemonstrationContent()
        names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
        self._called = re.compile(rf"(?<!\w)({names})(?!\w){_BETWEEN}") if tools else None

    def read_text(self, text: str, depth: int) -> None:
        start = 0
        for match in re.finditer(r"[\[{]", text):
            if match.start() < start:
                continue
            try:
                value, end = _DECODER.raw_decode(text, match.start())
            except ValueError:
                continue
            except RecursionError:  # nor will what stands a level below be read; trying each takes seconds
                break
            self._read_prose(text[start : match.start()])
            tool = self._tool_before(text[max(0, match.start() - _WINDOW) : match.start()])
            if tool is not None and isinstance(value, dict):
                self.content.calls.append((tool, value))
            else:
                self._read_value(value, depth)
            start = end
        self._read_prose(text[start:])

    def _tool_before(self, text: str) -> str | None:
        match = self._called.search(text) if self._called is not None else None
        return None if match is None else match.group(1)

    def _read_prose(self, text: str) -> None:
        self.content.answers.extend(match.group(1) for match in _STATED.finditer(text))
        for match in _RECEIPT.finditer(text):
            _add(self.content.results, match["number"])
        for match in _NUMBER.finditer(_RECEIPT.sub(" ", text)):
            _add(self.content.numbers, match.group())

    def _read_value(self, value: object, depth: int) -> None:
        """Read all of a JSON value, texts within it included."""
        if depth >= _DEEPEST:
            return
        if isinstance(value, str):
            self.read_text(value, depth + 1)
        elif isinstance(value, list):
            for item in value:
                self._read_value(item, depth + 1)
        elif isinstance(value, dict):
            self._read_object(value, depth)
        elif not isinstance(value, bool):
            _add(self.content.results, value)

    def _read_object(self, value: Mapping[str, object], depth: int) -> None:
        called = next((item for item in value.values() if isinstance(item, str) and item in self.tools), None)
        for key, item in value.items():
            arguments = _as_object(item) if called is not None else None
            if called is not None and arguments is not None:
                self.content.calls.append((called, arguments))
            else:
                self._read_value(item, depth + 1)
            if _FOR_ANSWERS.search(key) and not isinstance(item, dict | list):
                self.content.answers.append(item)


def _add(numbers: set[float], value: Any) -> None:
    """Add what is a number, or text that is one."""
    try:
        number = float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, OverflowError):  # None; a whole number beyond any float
        return
    if math.isfinite(number):
        numbers.add(rounded(number))


def _as_object(value: object) -> Mapping[str, Json] | None:
    """Return an object, also one written as JSON text; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def numbers_of(arguments: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield names and values of the arguments that are numbers other than 0."""
    for name, value in arguments.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value and abs(value) < _HUGE:
            yield name, rounded(float(value))


def rounded(number: float) -> float:
    """Round to twelve significant digits, because computed numbers are compared."""
    return float(f"{number:.12g}")


_HUGE = 1e300
