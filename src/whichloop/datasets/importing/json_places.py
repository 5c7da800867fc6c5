"""In which line of a JSON text each of its values stands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
Path = tuple[str | int, ...]


class LinesOfJson:
    """The lines of a text that holds one valid JSON value, by the paths of the values in it."""

    def __init__(self, text: str) -> None:
        self._lines = _lines(text)

    def at(self, path: Path) -> int:
        """Return the line of a value, of its key where it has one; of what would hold it, where it is missing."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def _lines(text: str) -> Mapping[Path, int]:
    lines: dict[Path, int] = {(): 1}
    path: list[str | int] = []
    """The path of the value that comes next, or has just been read."""
    is_key, line, read_to = False, 1, 0
    kinds: list[str] = []
    for token in _TOKEN.finditer(text):
        line += text.count("\n", read_to, token.start())
        read_to = token.start()
        word = token.group()
        if word in ("}", "]"):
            kinds.pop()
            path.pop()
        elif word == ":":
            is_key = False
        elif word == ",":
            is_key = kinds[-1] == "{"
            if not is_key:
                path[-1] = int(path[-1]) + 1
        elif is_key:
            path[-1] = json.loads(word)
            lines[tuple(path)] = line
        else:
            lines.setdefault(tuple(path), line)
            if word in ("{", "["):
                kinds.append(word)
                path.append("" if word == "{" else 0)
                is_key = word == "{"
    return lines
