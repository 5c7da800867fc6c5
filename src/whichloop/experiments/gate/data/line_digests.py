"""The lines of a loop's files in a few characters each, by which the gate knows later which of them changed."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path, PurePosixPath

from whichloop.protocol.digest import digest, short_digest
from whichloop.protocol.files import read_bounded
from whichloop.protocol.names import value_text
from whichloop.protocol.redact import redact
from whichloop.runs.manifest import ArmEntry

CHARS = 2
"""Characters of a line: two lines that differ have the same ones once in 4,096 times, and then beside each other only by chance."""
MAX_SOURCE = 1 << 20
"""Maximum size in bytes of a file whose lines are kept: what a run names may be any file, and source code is far smaller."""


def line_digests(text: str) -> str:
    """Return so many characters for each line of a file; a comment of Python's changes none."""
    return "".join(map(_digest, _without_comments(text)))


def _without_comments(text: str) -> list[str]:
    """Return the lines of a file without Python's comments; as they are where this is no Python."""
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT and row <= len(lines) and lines[row - 1].startswith("#", column):
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        return text.splitlines()
    return lines


def _digest(line: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(line.rstrip().encode("utf-8", "replace")).digest()[:3]).decode()[:CHARS]


def changed_lines(was: str, text: str) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of a file that are new or others than in `was`, its blessed digests; all of a file
    that is new itself, of which these are empty."""
    now = line_digests(text)
    old, new = _lines(was), _lines(now)
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return frozenset(line + 1 for what, _, _, first, end in changes if what != "equal" for line in range(first, end))


def _lines(digests: str) -> list[str]:
    return [digests[at : at + CHARS] for at in range(0, len(digests), CHARS)]


def digests_of_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the lines of these files, name → short digest of its text, as far as they are found as they were: from
    the working directory on, or from where Python imports. Nothing is imported for that.

    A run may come from anywhere, and so may these names: one that leads out of those folders is left out, and so is what is not a
    regular file, or larger than MAX_SOURCE.
    """
    digests = {}
    for name, text_digest in files.items():
        texts = _texts(name)
        text = next((text for text in texts if short_digest(text) == text_digest), None)
        if text is not None:
            digests[name] = line_digests(text)
    return digests


def _texts(name: str) -> Iterable[str]:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        return
    for folder in dict.fromkeys((Path.cwd(), *map(Path, sys.path))):
        try:
            yield io.TextIOWrapper(io.BytesIO(read_bounded(folder / inside, MAX_SOURCE)), encoding="utf-8").read()
        except (OSError, ValueError):
            continue


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """Which changed lines of functions trials came to, and which none did; both sorted."""

    name: str
    """As the baseline calls it."""
    path: str
    """Where it is on this machine."""
    unrun: tuple[int, ...]
    ran: tuple[int, ...]

    @property
    def spans(self) -> Iterator[tuple[int, ...]]:
        """Yield lines that no trial came to, those together that follow one another."""
        for _, each in groupby(enumerate(self.unrun), lambda numbered: numbered[1] - numbered[0]):
            yield tuple(line for _, line in each)


MAX_VALUE = 40
"""Characters of a value that stands as it is; of a longer one there are its beginning and a digest."""
BEGINNING, DIGEST_CHARS = 24, 6


def defaults_of(entry: ArmEntry) -> dict[str, str]:
    """Return field → value, of the fields of an own loop that nobody typed and that no step limit set, secrets taken out.

    Empty for a loop of ours, whose defaults can be looked up, and for one whose configuration is no list of fields.
    """
    if ":" not in entry.loop:
        return {}
    try:
        call = ast.parse(entry.configuration, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    fields = call.keywords if isinstance(call, ast.Call) and not call.args else []
    set_otherwise = entry.options.keys() | entry.own_limits.keys()
    return {
        field.arg: _text(field.value)
        for field in fields
        if field.arg is not None and not field.arg.startswith("_") and field.arg not in set_otherwise
    }


def _text(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        value = ast.unparse(node)
    text = redact(value_text(value))
    return text if len(text) <= MAX_VALUE else f"{text[:BEGINNING]}… ({digest(text)[:DIGEST_CHARS]})"
