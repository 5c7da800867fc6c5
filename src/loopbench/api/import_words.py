"""Errors and remarks of an import in Python's words: `map={'task': 'COLUMN'}` in the place of `--map task=COLUMN`."""

from __future__ import annotations

import re

from loopbench.reports.in_python import map_in_python

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
    """Return a message of an import with settings as `loopbench.import_results` takes them."""
    said = _MEANING.sub(r"map['\1']:", map_in_python(message))
    said = _ARMS.sub(r"arm=['\1', '\2']", said)
    said = _SCALE.sub(r"scale=(\1, \2)", said)
    said = _FORMAT.sub(lambda match: f"format= one of {', '.join(map(repr, match[1].split('|')))}", said)
    said = _VALUE.sub(lambda match: f"{match[1]}={match[2].strip(chr(39))!r}", said)
    said = _SWITCH.sub(r"\1=True", said)
    return _FLAG.sub(lambda match: _PLURALS.get(match[1], match[1].replace("-", "_")), said)
