"""Accuracy with templates as units stands beside accuracy with tasks as units, and decides nothing unless the suite says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whichloop.datasets import arithmetic
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import accuracy_interval

TEMPLATES = 12
ARMS = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in "ab"]


def records(template: str, cluster: str = "") -> list[Record]:
    """Tasks of one template have one fate in arm a, and all fail in arm b."""
    return [
        Record(
            arm=arm, suite="s", suite_digest="x", task=f"t{task}", repeat=0, seed=0, status="scored",
            calls={"decide": 1}, scores={"accuracy": float(arm == "a" and task % TEMPLATES < 8)},
            template=template.format(task % TEMPLATES), cluster=cluster.format(task % TEMPLATES),
        )
        for arm in "ab" for task in range(10 * TEMPLATES)
    ]  # fmt: skip


def test_both_intervals_stand_side_by_side_and_tasks_decide() -> None:
    found, plain = compare(records("{}"), ARMS), compare(records(""), ARMS)
    arm, pair = found.arms[0], found.pairs[0]
    names = [str(task % TEMPLATES) for task in range(10 * TEMPLATES)]
    wanted = accuracy_interval([[float(int(name) < 8)] for name in names], names)
    assert arm.summary.over_templates == replace(wanted, n=TEMPLATES, units=None)
    assert pair.over_templates is not None
    assert pair.over_templates.n == TEMPLATES
    assert pair.over_templates.low < pair.difference.low
    assert pair.over_templates.high > pair.difference.high
    assert pair == replace(plain.pairs[0], over_templates=pair.over_templates)
    assert pair.to_json()["over_templates"] == pair.over_templates.as_dict()
    assert arm.to_json()["over_templates"] == arm.summary.over_templates.as_dict()


def test_as_many_templates_as_clusters_are_other_units_all_the_same() -> None:
    """Twelve clusters of ten tasks in a row, and twelve templates that are asked in turn."""
    found = compare([replace(one, cluster=f"c{int(one.task[1:]) // 10}") for one in records("{}")], ARMS)
    only = compare([replace(one, template="", cluster=one.template) for one in records("{}")], ARMS)
    clustered = only.arms[0].summary.accuracy
    assert clustered is not None
    assert found.arms[0].summary.over_templates == replace(clustered, n=TEMPLATES, units=None)
    assert found.pairs[0].over_templates == replace(only.pairs[0].difference, n=TEMPLATES, units=None)


def test_arms_that_name_the_templates_of_their_tasks_differently_have_no_second_interval_of_a_pair() -> None:
    """Two sources may have the same tasks' names for other tasks: what would be one unit of both is not known."""
    shifted = [replace(one, template=f"{int(one.task[1:]) // 10}") if one.arm == "b" else one for one in records("{}")]
    found = compare(shifted, ARMS)
    assert [arm.summary.over_templates.n for arm in found.arms if arm.summary.over_templates] == [TEMPLATES, TEMPLATES]
    assert found.pairs[0].over_templates is None


@pytest.mark.parametrize(("template", "cluster"), [("", ""), ("one", ""), ("{}", "{}"), ("{}", "other {}")])
def test_no_second_interval_where_it_would_say_the_same_or_nothing(template: str, cluster: str) -> None:
    found = compare(records(template, cluster), ARMS)
    assert found.arms[0].summary.over_templates is None
    assert found.pairs[0].over_templates is None


def test_a_suite_whose_templates_are_clusters_makes_them_the_units() -> None:
    suite = arithmetic.load()
    task = suite.tasks[0]
    assert suite.cluster_of(task) == ""
    assert replace(suite, templates="clusters").cluster_of(task) == task.labels["template"]
