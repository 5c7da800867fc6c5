"""Which files of the user's own have changed since a baseline was blessed: of tasks, tools and scorers, and of the loops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from whichloop.experiments.gate.data.baseline import Baseline, BaselineArm
from whichloop.experiments.gate.data.line_digests import FollowedFile
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import render_value
from whichloop.runs.manifest import ArmEntry, Manifest
from whichloop.text.numbers import listed_names

SUITE_CODE = "the code of your own that the suite is made of"
"""What it is called where nobody knows its files, as an older whichloop wrote the baseline."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Code of the user's own that the tasks are made of, solved with or scored by, and that is another than in the baseline."""

    files: tuple[str, ...]
    """The files that changed, were added or were removed, sorted; empty where nobody knows."""
    apart_from_loops: bool
    """Whether no loop that is judged is made of a file among them: then the loop is not the cause."""

    @property
    def named(self) -> str:
        """Return `loop_tools.py and my_suite.py`, or what the code is called where its files are not known."""
        return listed_names(list(self.files)) or SUITE_CODE

    @property
    def lead(self) -> str:
        """Return what an outcome has to begin with, since a change of the loop and one of its tools cannot be told apart."""
        return f"{self.named} changed since the baseline, so tools or scorers may be the cause and not the loop"


def code_change(manifest: Manifest, baseline: Baseline) -> CodeChange | None:
    """Return how the code of the suite differs from that of the baseline, with what it imports; None if it does not."""
    was, now = baseline.suite, manifest.suite
    imported = other_files(was.imports, now.imports) if was.imports is not None and now.imports is not None else ()
    if was.code == now.code and not imported:
        return None
    files_are_known = bool(was.files or not was.code) and bool(now.files or not now.code)
    files = tuple(sorted({*other_files(was.files, now.files), *imported})) if files_are_known else ()
    of_loops = _may_be_of_a_loop(manifest, baseline)
    return CodeChange(files, any(not of_loops(name) for name in files))


def other_files(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that changed, were added or were removed, sorted."""
    return tuple(name for name in sorted(was.keys() | now.keys()) if was.get(name) != now.get(name))


def other_loop_files(was: BaselineArm, now: ArmEntry) -> tuple[str, ...]:
    """Return the files of a loop, what it imports included, that are others than in the baseline; none where a side lists none."""
    return other_files(was.files, now.files) if was.files and now.files else ()


def _may_be_of_a_loop(manifest: Manifest, baseline: Baseline) -> Callable[[str], bool]:
    """Return what says whether a file may be one that a loop is made of: by the lists of the loops' files; where a loop of the
    user's own has none in the baseline, by its name."""
    before, after = baseline.arms.values(), manifest.arms
    listed_files = {name for files in (*(arm.files for arm in before), *(arm.files for arm in after)) for name in files}
    unlisted = [arm for arm in before if not arm.files]
    names = [*(arm.loop for arm in unlisted), *_texts(arm.options for arm in unlisted)]
    if unlisted:
        names += [*(arm.loop for arm in after), *_texts(arm.options for arm in after)]
    return lambda file: file in listed_files or _is_named_for(file, names)


def _texts(values: Iterable[Any]) -> list[str]:
    """Return all texts in options: a loop may hold another loop, or a program by its file."""
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            texts += _texts(value.values())
        elif isinstance(value, list | tuple):
            texts += _texts(value)
    return texts


def _is_named_for(file: str, names: Iterable[str]) -> bool:
    """Whether a file holds one of these loops, or stands in its package: `my_loop:MyLoop`, or `my_agent.py:solve` of a program."""
    top = file.split("/", 1)[0].removesuffix(".py")
    return any(top in name.replace("/", ".").replace(":", ".").replace("(", ".").split(".") for name in names)


MAX_VALUE_CHARS = 40
"""Characters of a value that are shown."""


def changed_fields(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return `rates.wire.empty 0.2, not 0.1`, and so on; empty where one of the two is not known or they are the same."""
    if not was or not now:
        return ""
    old, new = dict(_fields(was)), dict(_fields(now))
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return listed_names([f"{name} {_value(new, name)}, not {_value(old, name)}" for name in names])


def _fields(profile: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a profile, those of its sections by `section.field`."""
    for name, value in profile.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", inner) for part, inner in value.items())
        else:
            yield name, value


def _value(fields: Mapping[str, Any], name: str) -> str:
    return shortened(render_value(fields[name]), MAX_VALUE_CHARS) if name in fields else "none"


def lines_of_functions(code: CodeType) -> frozenset[int]:
    """Return the lines of all functions of a module that hold code, without those that begin a function."""
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED)
    lines = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno} if is_function else set()
    inside = (lines_of_functions(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(lines).union(*inside)


def unrun_in_words(files: Iterable[FollowedFile]) -> Iterator[str]:
    """Yield `no trial ran the changed lines 41–43 and 58 of my_loop.py, so nothing is known of what they do` for each file."""
    for file in files:
        if file.unrun:
            spans = listed_names([f"{span[0]}–{span[-1]}" if len(span) > 1 else str(span[0]) for span in file.spans])
            which, do = (f"line {spans}", "it does") if len(file.unrun) == 1 else (f"lines {spans}", "they do")
            yield f"no trial ran the changed {which} of {file.name}, so nothing is known of what {do}"
