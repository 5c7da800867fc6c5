"""Every generated suite is its committed snapshot, and none changes without a new version.

`python tests/datasets/test_snapshots.py --write [SUITE …]` writes snapshots and `versions.json`; it refuses to write another
content under the same version. A suite that was never released yet is written anew with `--unreleased`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from whichloop.datasets.generating import Source
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import replay
from whichloop.protocol import run_sync
from whichloop.protocol.json_text import canonical_json, digest
from whichloop.runs.registry import generated_suites

VERSIONS = Path(__file__).with_name("versions.json")


SOURCES = generated_suites()
NAMES = sorted(SOURCES)


@cache
def suite_of(name: str) -> Suite:
    return SOURCES[name].suite()


def generated(source: Source, count: int | None = None) -> tuple[Task, ...]:
    """Make the first tasks, of the default seed; as many as there are by default unless `count` says otherwise."""
    return tuple(islice(source.generate(0), count or source.default_size))


async def _texts(suite: Suite) -> list[list[str]]:
    return [[call.text for call in await replay(task, suite)] for task in suite.tasks]


def described(suite: Suite) -> dict[str, str]:
    """Version, digest of what is asked, and digest of all that the tools answer on the way to it."""
    return {"version": suite.version, "digest": suite.digest, "behaviour": digest(run_sync(_texts(suite)))}


@cache
def versions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VERSIONS.read_text(encoding="utf-8")) if VERSIONS.exists() else {}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_snapshot_is_what_the_generator_makes(name: str) -> None:
    source = SOURCES[name]
    tasks = generated(source)
    assert source.snapshot is not None
    assert source.snapshot.read_text(encoding="utf-8").splitlines() == [canonical_json(task.as_dict()) for task in tasks]
    assert suite_of(name).tasks == tasks
    assert len(tasks) >= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_changes_only_with_its_version(name: str) -> None:
    assert described(suite_of(name)) == versions()[name], "bump the suite's version, then write: see the top of this file"


@pytest.mark.parametrize("name", NAMES)
def test_the_first_tasks_are_the_same_for_any_size(name: str) -> None:
    source = SOURCES[name]
    assert source.suite(7, 3).tasks == source.suite(11, 3).tasks[:7]
    assert source.suite(7, 3).tasks != source.suite(7, 4).tasks


@pytest.mark.parametrize(("size", "seed"), [(0, 0), (100_001, 0), (-1, 0), (True, 0), ("3", 0), (3, "x"), (3, 1.5)])
def test_sizes_and_seeds_out_of_range_are_refused(size: Any, seed: Any) -> None:
    for name, source in SOURCES.items():
        with pytest.raises(ValueError, match=rf"^{name}: (size|seed) is "):
            source.suite(size, seed)


def test_a_task_survives_its_way_through_json() -> None:
    for source in SOURCES.values():
        for task in generated(source, 5):
            assert Task.from_dict(json.loads(canonical_json(task.as_dict()))).as_dict() == task.as_dict()


def write(names: list[str], unreleased: bool) -> None:
    known = dict(versions())
    for name in names or NAMES:
        source = SOURCES[name]
        lines = [canonical_json(task.as_dict()) + "\n" for task in generated(source)]
        now = described(replace(source.suite(1), tasks=generated(source)))
        if name in known and known[name] != now and known[name]["version"] == now["version"] and not unreleased:
            sys.exit(f"{name}: the content changed under version {now['version']}; bump the version in its module first")
        assert source.snapshot is not None
        source.snapshot.write_text("".join(lines), encoding="utf-8")
        known[name] = now
        VERSIONS.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", encoding="utf-8")
        print(f"{name}: wrote {len(lines)} tasks to {source.snapshot}, and version {source.version} to {VERSIONS}")


if __name__ == "__main__" and "--write" in sys.argv:
    write([name for name in sys.argv[1:] if not name.startswith("-")], "--unreleased" in sys.argv)
