"""What the short answer says of agents whose results were imported: the differences behind the verdict, and which are worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from whichloop.experiments.compare.verdict_old.answer import answer, best_against_others
from whichloop.experiments.compare.verdict_old.warned import crashed, warned
from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.record import Record
from whichloop.text.numbers import interval


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
    over = "paired over 60 common tasks, 98.3 % intervals for 3 pairs"
    assert told.text == f"In accuracy b minus c: {interval(near, 3)}, a: {interval(far, 3)}; {over}"
    assert near.low <= 0 <= near.high
    assert far.low > 0
    said = answer(found).answer_sentences
    assert said[1] == told
    assert [each.text for each in said if not each.may_be_left_out][-1] == "Worse: a"


def test_tasks_that_differ_from_pair_to_pair_and_clusters_are_told(imported):
    solved = shares(20, 50, 45)
    solved["c"] = solved["c"][:40]
    (told,) = best_against_others(answer(found := imported(solved)), found)
    assert " on 40, " in told.text
    assert told.text.endswith(" on 60; paired over so many common tasks, 98.3 % intervals for 3 pairs")
    (told,) = best_against_others(answer(found := imported(shares(20, 50, 45), cluster_of=12)), found)
    assert told.text.endswith("paired over 60 common tasks in 12 clusters, 98.3 % intervals for 3 pairs")


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
    (worse,) = (each for each in answer(imported(shares(20, 50, 45), "calm")).answer_sentences if each.text == "Worse: a")
    assert worse.may_be_left_out


def test_a_terminal_says_of_agents_what_the_page_and_a_program_say(imported):
    for solved in (shares(20, 50, 45), shares(20, 50), shares(30, 31, 29)):
        said = answer(imported(solved)).answer_sentences
        assert said
        assert not any(each.brief for each in said)


def test_where_all_others_are_worse_a_narrow_terminal_does_not_say_it_twice(imported):
    said = answer(imported(shares(10, 58, 20))).answer_sentences
    assert "better than every other agent" in said[0].text
    assert [each.may_be_left_out for each in said if each.text.startswith("Worse: ")] == [True]


def test_the_crashes_of_all_agents_are_one_line_the_most_frequent_first(record):
    def tried(arm: str, task: int, many: int) -> Record:
        ended = {"stop": "crashed", "reason": "Timeout"} if task < many else {}
        made: Record = record(arm=arm, task=f"t{task:02}", scores={"accuracy": float(task >= many)}, cost_usd=0.1, **ended)
        return made

    crashes = {"a": 1, "b": 0, "c": 9, "d": 3}
    records = [tried(arm, task, many) for arm, many in crashes.items() for task in range(20)]
    partly = [replace(each, unknown=("cost_usd",)) if each.task == "t19" else each for each in records]
    found = compare(partly, [ArmInfo(arm, arm, {}, "unknown", IMPORTED, "s") for arm in crashes])
    line = "Crashed: 9 of the 20 trials of c, 3 of the 20 of d and 1 of the 20 of a (13 × Timeout)"
    assert crashed(found.arms) == [line]
    assert crashed([arm for arm in found.arms if arm.info.arm == "d"]) == ["Crashed: 3 of the 20 trials of d (3 × Timeout)"]
    assert crashed([arm for arm in found.arms if arm.info.arm == "b"]) == []
    told = warned(found)
    assert sorted(told) == sorted([line, *(f"Warning: {each}" for each in found.warnings)])
    assert told.index(line) == len(told) - 2  # costs that are not known weigh less
    assert "cost is known" in told[-1]
