"""The lines of a loop's files in a few characters each, by which the gate knows later which of them changed."""

from __future__ import annotations

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

from whichloop.protocol.digest import short_digest
from whichloop.protocol.files import read_bounded

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
