"""The tables of docs/suites.md are what the suites are. `python -m tests.docs.test_suites_page --write` renews them: a minute."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median

import pytest

from benchmarks.pages import block, write_block
from whichloop.checks.suite import CHECKS
from whichloop.checks.suite.reference_agents import ORACLE, BaselineResult, ReferenceAgent, baselines, bench, passed, trial
from whichloop.datasets.task import Suite
from whichloop.protocol import run_sync
from whichloop.runs.registry import generated_suites

PAGE = Path(__file__).parents[2] / "docs" / "suites.md"
EVERY = 13
"""The quick test looks at every thirteenth task of every third suite: every twelfth task would be of the same kind."""


SOURCES = generated_suites()
NAMES = sorted(SOURCES)


@cache
def suite(name: str) -> Suite:
    return SOURCES[name].suite(None, 0)


def purpose(name: str) -> str:
    """First sentence of the module's documentation."""
    return (inspect.getdoc(import_module(f"whichloop.datasets.{name}")) or "").splitlines()[0]


def size(name: str) -> list[str]:
    """What a suite is, as cells."""
    tasks = suite(name).tasks
    environment = suite(name).open(tasks[0])
    tools = len(environment.tools)
    environment.close()
    splits = Counter(task.labels["split"] for task in tasks)
    plan = median(len(task.plan.calls) for task in tasks if task.plan is not None)
    parts = " / ".join(str(splits[split]) for split in ("train", "dev", "test"))
    return [f"`{name}`", suite(name).version, str(len(tasks)), f"{plan:g}", str(tools), parts]


def agents(name: str) -> tuple[ReferenceAgent, ...]:
    return (ORACLE, *baselines(suite(name).tasks))


async def _shares(name: str, every: int) -> list[BaselineResult]:
    tasks = suite(name).tasks[::every]
    setting = bench(suite(name), tasks)
    return [passed(agent, [(await trial(agent, task, setting)).record for task in tasks]) for agent in agents(name)]


def shares(name: str, every: int = 1) -> list[float]:
    """What each agent passes, of 1."""
    found = run_sync(_shares(name, every))
    return [one.share.value if one.share is not None else float("nan") for one in found]


def row(name: str) -> str:
    return line([*size(name), *(f"{share:.3f}" for share in shares(name))])


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables() -> str:
    """All that stands between the marks."""
    first = [line(["suite", "what it is for"]), "|---|---|", *(line([f"`{name}`", purpose(name)]) for name in NAMES)]
    heads = ["suite", "version", "tasks", "median plan", "tools", "train / dev / test", *(agent.name for agent in agents(NAMES[0]))]
    second = [line(heads), "|---" * len(heads) + "|", *(row(name) for name in NAMES)]
    return "\n".join([*first, "", *second])


def shown() -> str:
    return block(PAGE, "suites")


def cells(name: str) -> list[str]:
    """Of a suite's line of numbers, as the page has them."""
    lines = [text for text in shown().splitlines() if text.startswith(f"| `{name}` |")]
    assert len(lines) == 2, f"{name} does not stand in both tables: write the page, see the top of this file"
    return [cell.strip() for cell in lines[1].strip("|").split("|")]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_what_a_suite_is_for_and_how_large_it_is(name: str) -> None:
    assert line([f"`{name}`", purpose(name)]) in shown()
    assert cells(name)[:6] == size(name)


@pytest.mark.parametrize("name", NAMES[::3])
def test_a_part_of_the_tasks_agrees_with_what_the_page_says_that_agents_pass(name: str) -> None:
    everything = len(suite(name).tasks)
    looked_at = len(suite(name).tasks[::EVERY])
    for said, share in zip(map(float, cells(name)[6:]), shares(name, EVERY), strict=True):
        solved, in_all = share * looked_at, round(said * everything)
        assert round(solved) <= in_all
        assert looked_at - round(solved) <= everything - in_all


@pytest.mark.slow
def test_the_page_is_what_a_check_of_all_tasks_gives() -> None:
    assert tables() in shown()


def test_the_page_names_every_check_and_every_agent() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in (*(check.name for check in CHECKS), *(agent.name for agent in agents(NAMES[0]))):
        assert f"\n| {name} |" in text


if __name__ == "__main__" and "--write" in sys.argv:
    write_block(PAGE, "suites", tables())
