"""Errors and remarks of an import in Python's words: `map={'task': 'COLUMN'}` in the place of `--map task=COLUMN`."""

from __future__ import annotations

import re

from whichloop.reports.in_python import map_in_python

_MEANING = re.compile(r"--map '?(\w+)'?:")
_ARMS = re.compile(r"--arm (\w+) --arm (\w+)")
_SCALE = re.compile(r"--scale (-?[\d.]+),(-?[\d.]+)")
_FORMAT = re.compile(r"--format ([\w-]+(?:\|[\w-]+)+)")
_VALUE = re.compile(r"--(scorer|rows|cluster) ('[^']*'|[^\s,;:]+)")
_FLAG = re.compile(r"--(map|arm|model|scorer|rows|scale|cluster|format|name|suite|alpha|margin|errors-as-failures)\b")
_SWITCH = re.compile(r"--(replace)\b")
_PLURALS = {"model": "models"}
"""Flags whose setting has another name in Python."""


def import_words(message: str) -> str:
    """Return a message of an import with settings as `whichloop.import_results` takes them."""
    text = _MEANING.sub(r"map['\1']:", map_in_python(message))
    text = _ARMS.sub(r"arm=['\1', '\2']", text)
    text = _SCALE.sub(r"scale=(\1, \2)", text)
    text = _FORMAT.sub(lambda match: f"format= one of {', '.join(map(repr, match[1].split('|')))}", text)
    text = _VALUE.sub(lambda match: f"{match[1]}={match[2].strip(chr(39))!r}", text)
    text = _SWITCH.sub(r"\1=True", text)
    return _FLAG.sub(lambda match: _PLURALS.get(match[1], match[1].replace("-", "_")), text)
