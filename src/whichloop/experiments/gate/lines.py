"""The changed lines of a loop that no trial ran: a baseline has the lines of its files in a few characters each."""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path, PurePosixPath
from types import CodeType

from whichloop.experiments.compare.run import Experiment
from whichloop.protocol.files import read_bounded
from whichloop.protocol.json_text import short_digest
from whichloop.runs.code_digests import loop_files
from whichloop.runs.engine.job import SeenLines

CHARS = 2
"""Characters of a line: two lines that differ have the same ones once in 4,096 times, and then beside each other only by chance."""
MAX_SOURCE = 1 << 20
"""Maximum size in bytes of a file whose lines are kept: what a run names may be any file, and source code is far smaller."""


def line_digests(text: str) -> str:
    """Return so many characters for each line of a file; a comment of Python's changes none."""
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT and row <= len(lines) and lines[row - 1].startswith("#", column):
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        lines = text.splitlines()
    each = (hashlib.sha256(line.rstrip().encode("utf-8", "replace")).digest()[:3] for line in lines)
    return "".join(base64.urlsafe_b64encode(digest).decode()[:CHARS] for digest in each)


def changed_lines(was: str, text: str) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of a file that are new or others than in `was`, its blessed digests."""
    now = line_digests(text)
    old, new = ([digests[at : at + CHARS] for at in range(0, len(digests), CHARS)] for digests in (was, now))
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return frozenset(line + 1 for what, _, _, first, end in changes if what != "equal" for line in range(first, end))


def digests_of_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the lines of these files, name → short digest of its text, as far as they are found as they were: from
    the working directory on, or from where Python imports. Nothing is imported for that.

    A run may come from anywhere, and so may these names: one that leads out of those folders is left out, and so is what is not a
    regular file, or larger than MAX_SOURCE.
    """
    found = {name: next((text for text in _texts(name) if short_digest(text) == digest), None) for name, digest in files.items()}
    return {name: line_digests(text) for name, text in found.items() if text is not None}


def _texts(name: str) -> Iterable[str]:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        return
    for folder in dict.fromkeys((Path.cwd(), *map(Path, sys.path))):
        try:
            yield io.TextIOWrapper(io.BytesIO(read_bounded(folder / inside, MAX_SOURCE)), encoding="utf-8").read()
        except (OSError, ValueError):
            continue


def with_lines_watched(experiment: Experiment, blessed: Mapping[str, str], lines: Mapping[str, str]) -> Experiment:
    """Return an experiment that is yet to run such that it tells which lines of the loops' changed files its trials come to.

    `blessed`: file of a blessed loop → its digest; `lines`: file → digests of its lines.
    """
    watched = {
        name: file.path
        for arm in experiment.arms
        for name, file in loop_files(arm.loop).items()
        if file.digest != blessed.get(name) and (name in lines or name not in blessed)
    }
    return replace(experiment, lines=SeenLines(watched)) if watched else experiment


def unrun_lines(experiment: Experiment, lines: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return file → the changed lines of functions that no trial of an ended experiment came to, as `41` or `41–43`.

    Nothing of a file of which no line was seen, as where the loop runs in a process of its own.
    """
    seen, unrun = experiment.lines, {}
    for name, path in seen.files.items() if seen is not None and seen.is_whole else ():
        try:
            text = path.read_text(encoding="utf-8")
            code = compile(text, str(path), "exec", dont_inherit=True)
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        assert seen is not None
        if ran := seen.of(name):
            changed = _lines_of_functions(code) & changed_lines(lines.get(name, ""), text)
            unrun[name] = tuple(_spans(changed - ran))
    return {name: spans for name, spans in unrun.items() if spans}


def _lines_of_functions(code: CodeType) -> frozenset[int]:
    """Return the lines of all functions of a module that hold code, without those that begin a function."""
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED)
    lines = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno} if is_function else set()
    return frozenset(lines).union(*(_lines_of_functions(each) for each in code.co_consts if isinstance(each, CodeType)))


def _spans(lines: Iterable[int]) -> Iterable[str]:
    for _, each in groupby(enumerate(sorted(lines)), lambda numbered: numbered[1] - numbered[0]):
        span = [line for _, line in each]
        yield str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}"
