"""What the short answer says of agents whose results were imported: the differences behind the verdict, and which are worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from loopbench.experiments.compare.answer import answer
from loopbench.experiments.compare.best_against_others import best_against_others
from loopbench.metrics.arm_info import IMPORTED, ArmInfo
from loopbench.metrics.comparison import Comparison, compare
from loopbench.text.numbers import hundredths, interval, interval_of


@pytest.fixture(scope="session")
def imported(record):
    """Compares agents by the tasks that each solved of those it has."""

    def make(solved: Mapping[str, Sequence[float]], profile: str = IMPORTED, cluster_of: int = 0) -> Comparison:
        infos = [ArmInfo(arm, arm, {}, "unknown", profile, "s") for arm in solved]
        records = [
            record(
                arm=arm,
                task=f"t{task:03}",
                scores={"accuracy": score},
                cluster=f"c{task % cluster_of}" if cluster_of else "",
                unknown=("tokens", "faults"),
            )
            for arm, scores in solved.items()
            for task, score in enumerate(scores)
        ]
        return compare(records, infos)

    return make


def shares(*numbers: int, n: int = 60) -> dict[str, list[float]]:
    return {name: [float(task * 37 % n < many) for task in range(n)] for name, many in zip("abcdefg", numbers, strict=False)}


def test_the_best_minus_each_other_agent_is_told_with_intervals_and_tasks(imported):
    found = imported(shares(20, 50, 45))
    pairs = {(pair.a, pair.b): pair for pair in found.pairs if pair.metric == "accuracy"}
    near, far = pairs["b", "c"].difference, pairs["a", "b"].turned.difference
    (told,) = best_against_others(answer(found), found)
    assert told.text == f"In accuracy b minus c: {interval(near, 3)}, a: {interval(far, 3)}; paired over 60 common tasks"
    assert told.brief == f"b minus c: {interval_of(near, hundredths)}, a: {interval_of(far, hundredths)} (60 common tasks)"
    said = answer(found).said
    assert said[1] == told
    assert [each.text for each in said if not each.may_be_left_out][-1] == "Worse: a"


def test_tasks_that_differ_from_pair_to_pair_and_clusters_are_told(imported):
    solved = shares(20, 50, 45)
    solved["c"] = solved["c"][:40]
    (told,) = best_against_others(answer(found := imported(solved)), found)
    assert " on 40, " in told.text
    assert told.text.endswith(" on 60; paired over so many common tasks")
    (told,) = best_against_others(answer(found := imported(shares(20, 50, 45), cluster_of=12)), found)
    assert told.text.endswith("paired over 60 common tasks in 12 clusters")


def test_of_many_agents_the_nearest_are_told(imported):
    (told,) = best_against_others(answer(found := imported(shares(10, 20, 30, 40, 50, 55))), found)
    assert told.text.startswith("In accuracy f minus e: ")
    assert ", c: " in told.text
    assert ", and 2 others; paired" in told.text


def test_two_agents_have_their_own_sentence_and_loops_of_ours_none(imported):
    for found in (imported(shares(20, 50)), imported(shares(20, 50, 45), "calm")):
        assert not [*best_against_others(answer(found), found)]
    two = answer(imported(shares(20, 50)))
    assert two.sentences[1].startswith("b minus a: 0.500 [")
    (worse,) = (each for each in answer(imported(shares(20, 50, 45), "calm")).said if each.text == "Worse: a")
    assert worse.may_be_left_out
