"""Trajectories in ATIF that go on in other files: Harbor's Terminus 2 begins one where it has summarized its context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from whichloop.experiments.import_runs.folder_tree import MAX_MEMBER_BYTES, FileTree
from whichloop.experiments.import_runs.foreign_file import parse_json
from whichloop.experiments.import_runs.values import located, mapping

from .atif import CONTINUED, continuation_of, joined_trajectory, read_trajectory

MAX_PARTS = 1000
"""Maximum number of files in which one trajectory goes on: one more for each time that an agent has summarized its context."""
MAX_BYTES = MAX_MEMBER_BYTES
"""Maximum size of these files together: that of one file."""


def whole_trajectory(name: str, first: Mapping[str, Any], tree: FileTree | None) -> tuple[Mapping[str, Any], str]:
    """Return a trajectory with all in which it goes on, and a remark where a part is missing, or named again.

    `name`: of its file in the tree. Raises ValueError that names the file that cannot be read, or whose parts are too many or too
    large. A trajectory without parts is returned as it is, and not checked.
    """
    parts, part, seen, size, remark = [first], name, {name}, 0, ""
    while part := continuation_of(part, parts[-1]) or "":
        if part in seen:
            remark = f"{name}: it goes on in {part} again, which is read once"
            break
        if tree is None or part not in tree:
            remark = f"{name}: it goes on in {part}, which is not there"
            break
        seen.add(part)
        raw = tree.read(part)
        size += len(raw)
        if len(parts) > MAX_PARTS or size > MAX_BYTES:
            raise ValueError(f"{name}: it goes on in more than {MAX_PARTS} files or {MAX_BYTES} bytes")
        parts.append(_trajectory(part, raw))
    if len(parts) == 1:
        return first, remark
    with located(name):
        read_trajectory(first)  # so that what is wrong with it is said with its name
    return joined_trajectory(parts), remark


def _trajectory(name: str, raw: bytes) -> Mapping[str, Any]:
    with located(name):
        document = mapping(parse_json(raw), "the trajectory")
        read_trajectory(document)  # so that what is wrong with it is said with its name
        return document


def later_parts(tree: FileTree) -> frozenset[str]:
    """Return the names of the files in which the trajectories of others go on. What cannot be read names none.

    Of files that name each other in a circle, into which no other leads, the one with the shortest name begins it: an agent adds to
    the name of a file to make that of the file in which it goes on.
    """
    follows = dict(_continuations(tree))
    later = set(follows.values())
    reached = set[str]()
    for name in sorted(follows, key=lambda name: (name in later, len(name), name)):  # circles last, after all that leads into them
        later -= set() if name in reached else {name}
        while name in follows and name not in reached:
            reached.add(name)
            name = follows[name]
    return frozenset(later)


def _continuations(tree: FileTree) -> Iterator[tuple[str, str]]:
    """Yield each file's name and that of another one in which its trajectory goes on."""
    word = f'"{CONTINUED}"'.encode()
    for name in tree.names:
        if name.endswith(".json") and word in (raw := tree.read(name)):
            try:
                part = continuation_of(name, parse_json(raw))
            except (ValueError, RecursionError):
                continue
            if part is not None and part != name:
                yield name, part
