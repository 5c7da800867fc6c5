"""Trajectories in ATIF that go on in other files: Harbor's Terminus 2 begins one where it has summarized its context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopbench.experiments.import_runs.folder_tree import FileTree
from loopbench.experiments.import_runs.foreign_file import parse_json
from loopbench.experiments.import_runs.values import located, mapping

from .atif import CONTINUED, continuation_of, joined, read_trajectory


def whole_trajectory(name: str, first: Mapping[str, Any], tree: FileTree | None) -> tuple[Mapping[str, Any], str]:
    """Return a trajectory with all in which it goes on, and a remark where a part is missing.

    `name`: of its file in the tree. Raises ValueError that names the file that cannot be read.
    """
    document, part, seen = first, name, {name}
    while (part := continuation_of(part, document) or "") and part not in seen:
        seen.add(part)
        if tree is None or part not in tree:
            return document, f"{name}: it goes on in {part}, which is not there"
        document = joined(document, _trajectory(tree, part))
    return document, ""


def _trajectory(tree: FileTree, name: str) -> Mapping[str, Any]:
    raw = tree.read(name)
    with located(name):
        document = mapping(parse_json(raw), "the trajectory")
        read_trajectory(document)  # so that what is wrong with it is said with its name
        return document


def later_parts(tree: FileTree) -> frozenset[str]:
    """Return the names of the files in which the trajectories of others go on. What cannot be read names none."""
    word, found = f'"{CONTINUED}"'.encode(), set[str]()
    for name in tree.names:
        if name.endswith(".json") and word in (raw := tree.read(name)):
            try:
                part = continuation_of(name, parse_json(raw))
            except (ValueError, RecursionError):
                continue
            found |= {part} if part is not None and part != name else set()
    return frozenset(found)
