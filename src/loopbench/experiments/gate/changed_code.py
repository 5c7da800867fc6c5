"""Which files of the user's own, of which tasks, tools and scorers are made, have changed since a baseline was blessed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from loopbench.runs.manifest import Manifest
from loopbench.text.counts import listed

from .baseline import Baseline

SUITE_CODE = "the code of your own that the suite is made of"
"""What it is called where nobody knows its files, as an older loopbench wrote the baseline."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Code of the user's own that the tasks are made of, solved with or scored by, and that is another than in the baseline."""

    files: tuple[str, ...]
    """The files that changed, were added or were removed, sorted; empty where nobody knows."""
    apart_from_loops: bool
    """Whether a file among them holds no loop that is judged, nor stands in the package of one: then the loop is not the cause."""

    @property
    def named(self) -> str:
        """Return `loop_tools.py and my_suite.py`, or what the code is called where its files are not known."""
        return listed(list(self.files)) or SUITE_CODE

    @property
    def lead(self) -> str:
        """Return what an outcome has to begin with, since a change of the loop and one of its tools cannot be told apart."""
        return f"{self.named} changed since the baseline, so tools or scorers may be the cause and not the loop"


def code_change(manifest: Manifest, baseline: Baseline) -> CodeChange | None:
    """Return how the code of the suite differs from that of the baseline; None if it does not."""
    was, now = baseline.suite, manifest.suite
    if was.code == now.code:
        return None
    known = bool(was.files or not was.code) and bool(now.files or not now.code)
    every = sorted(was.files.keys() | now.files.keys()) if known else []
    files = tuple(name for name in every if was.files.get(name) != now.files.get(name))
    loops = [*(arm.loop for arm in baseline.arms.values()), *(arm.loop for arm in manifest.arms)]
    options = [arm.options for arm in manifest.arms]
    return CodeChange(files, any(not _may_be_of_a_loop(name, [*loops, *_texts(options)]) for name in files))


def _texts(values: Iterable[Any]) -> list[str]:
    """Return all texts in options: a loop may hold another loop, or a program by its file."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            found += _texts(value.values())
        elif isinstance(value, list | tuple):
            found += _texts(value)
    return found


def _may_be_of_a_loop(file: str, names: Iterable[str]) -> bool:
    """Whether a file holds one of these loops, or stands in its package: `my_loop:MyLoop`, or `my_agent.py:solve` of a program."""
    top = file.split("/", 1)[0].removesuffix(".py")
    return any(top in name.replace("/", ".").replace(":", ".").replace("(", ".").split(".") for name in names)
