"""The table of docs/suites.md is what the suites are. `python -m tests.docs.test_suites_page --write` renews it."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from importlib import import_module
from statistics import median

import pytest

from benchmarks.pages import block, head, row, write_block
from tests.docs.pages import DOCS
from whichloop.runs.registry import generated_suites

PAGE = DOCS / "suites.md"
SOURCES = generated_suites()
HEAD = head("suite", "what it is for", "version", "tasks", "median plan", "tools", "train / dev / test")


def line(name: str) -> str:
    """What a suite is for, by its module's first sentence, and how large it is."""
    suite = SOURCES[name].suite(None, 0)
    environment = suite.open(suite.tasks[0])
    tools = len(environment.tools)
    environment.close()
    purpose = (inspect.getdoc(import_module(f"whichloop.datasets.{name}")) or "").splitlines()[0]
    splits = Counter(task.labels["split"] for task in suite.tasks)
    plan = median(len(task.plan.calls) for task in suite.tasks if task.plan is not None)
    parts = " / ".join(str(splits[split]) for split in ("train", "dev", "test"))
    return row(f"`{name}`", purpose, suite.version, len(suite.tasks), f"{plan:g}", tools, parts)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_page_says_what_a_suite_is_for_and_how_large_it_is(name: str) -> None:
    assert line(name) in block(PAGE, "suites").splitlines()


if __name__ == "__main__" and "--write" in sys.argv:
    write_block(PAGE, "suites", "\n".join([*HEAD, *map(line, sorted(SOURCES))]))
