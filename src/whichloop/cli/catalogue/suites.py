"""The list of suites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

from whichloop.datasets.task import Task
from whichloop.protocol.names import Spec
from whichloop.runs.built_in import builtin_names, summary_of
from whichloop.runs.registry import make_suite

from .entry import NEEDED, CatalogueEntry, CatalogueSuite, OptionLine, built_in, plugins

_SPLITS = {"train": 0, "dev": 1, "test": 2}


def entries() -> list[CatalogueEntry]:
    return [*(_entry(name) for name in builtin_names("suite")), *plugins("suite")]


def outlines() -> list[CatalogueEntry]:
    """Return the suites without importing them, which would make their tasks."""
    return [*(CatalogueSuite(name, summary_of("suite", name)) for name in builtin_names("suite")), *plugins("suite")]


def _entry(name: str) -> CatalogueSuite:
    plain = built_in("suite", name)
    head = (name, plain.summary, plain.options)
    try:
        suite = make_suite(Spec(name, {}))
    except ValueError:
        needs = next((need for option in plain.options if (need := _need(option))), "")
        if not needs:  # no importer that lacks its file
            raise
        return CatalogueSuite(*head, needs=needs)
    split_sizes = Counter(str(task.labels["split"]) for task in suite.tasks if task.labels.get("split"))
    splits = {
        split: split_sizes[split] for split in sorted(split_sizes, key=lambda split: (_SPLITS.get(split, len(_SPLITS)), split))
    }
    return CatalogueSuite(*head, "", suite.version, len(suite.tasks), suite.digest[:12], splits, median_plan(suite.tasks))


def _need(option: OptionLine) -> str:
    """Return how an option that an importer needs is typed; empty for other options."""
    if option.name == "data":
        return "--data"
    return f"{option.name}=…" if option.default == NEEDED else ""


def median_plan(tasks: Iterable[Task]) -> float:
    """Return the number of calls of the median plan; 0 if no task has a plan."""
    lengths = [len(task.plan.calls) for task in tasks if task.plan is not None]
    return float(median(lengths)) if lengths else 0.0
