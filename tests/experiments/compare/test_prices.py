"""What loops cost by the trial and by the solved task, crashes beside it, and equivalence: which of them the answer tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.cli.render_answer import answer_lines
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.verdict_old.answer import answer, answer_json
from whichloop.experiments.compare.verdict_old.clustered import defaults_sentence
from whichloop.experiments.compare.verdict_old.few_tasks_verdict import FewTasksVerdict
from whichloop.experiments.compare.verdict_old.matrix import gap_in_words
from whichloop.experiments.compare.verdict_old.prices import Prices
from whichloop.experiments.compare.verdict_old.ties import TieBreaks
from whichloop.experiments.compare.verdict_old.verdicts import Verdicts
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.statistics import Interval, Verdict


@pytest.fixture(scope="session")
def spent(record) -> Callable[..., Comparison]:
    """Compares loops that solve a share of n tasks at a number of tokens each, and crash in some that they do not solve."""

    def make(loops: Mapping[str, tuple[float, int]], crashed: Mapping[str, int] | None = None, n: int = 100) -> Comparison:
        infos, records = [], []
        for loop, (share, tokens) in loops.items():
            infos.append(ArmInfo(f"{loop}/calm", loop, {}, "scripted", "calm", "s"))
            for task in range(n):
                solved = (task * 37 % n) < share * n
                is_crash = not solved and task < (crashed or {}).get(loop, 0)
                records.append(
                    record(
                        arm=f"{loop}/calm",
                        task=f"t{task:03}",
                        scores={"accuracy": float(solved)},
                        input_tokens=tokens,
                        output_tokens=0,
                        **({"stop": "crashed", "reason": "KeyError: x"} if is_crash else {}),
                    )
                )
        return compare(records, infos)

    return make


def first(comparison: Comparison) -> str:
    return answer(comparison).sentences[0]


def test_a_loop_that_solves_little_for_little_is_not_called_cheaper(spent):
    found = spent({"good": (0.9, 300), "early": (0.2, 100)})
    assert first(found) == (
        "Adopt good (300 tokens a trial): better than every other loop; early spends less on a trial (100 tokens against 300), "
        "but whether it does so on a solved task is undecided (500 against 333, paired ratio 1.50 [0.93, 2.22])"
    )
    assert {loop["loop"]: loop["cost_per_solved"] for loop in answer_json(found)["loops"]} == pytest.approx(
        {"good": 300 / 0.9, "early": 500}
    )


def test_where_the_orders_differ_both_are_told(spent):
    said = answer(spent({"good": (0.9, 300), "early": (0.1, 60), "fair": (0.5, 90)})).answer_sentences[0]
    assert said.text.endswith(
        "; fair costs less by the solved task (180 tokens against 333, paired ratio 0.54 [0.43, 0.69]); "
        "early spends less on a trial (60 tokens against 300)"
    )
    assert said.brief.endswith("; fair costs 46 % less by the solved task")


def test_what_costs_less_by_the_solved_task_is_undecided_unless_the_paired_ratio_shows_it(spent):
    said = answer(spent({"good": (0.9, 300), "early": (0.1, 30), "fair": (0.5, 150)}, n=30)).answer_sentences[0]
    assert "; whether fair costs less by the solved task is undecided (300 tokens against 333, paired ratio 0.90 [0." in said.text
    assert said.brief.endswith("; whether fair costs less by the solved task is undecided")
    dear = answer(spent({"good": (0.9, 300), "early": (0.1, 100)})).answer_sentences[0]
    assert "but more on a solved task (1,000 against 333, paired ratio 3.00 [" in dear.text
    assert dear.brief.endswith("; early spends less on a trial, but more on a solved task")


def test_a_loop_is_called_cheaper_only_where_the_pairs_show_it(spent):
    """Every mean says that the second loop costs less; the pairs of costs are given as undecided."""
    for loops in (
        {"good": (0.9, 300), "early": (0.2, 100)},  # cheap because it gives up: its costs are not compared at all
        {"good": (0.9, 300), "fair": (0.5, 90)},
        {"a": (0.7, 110), "b": (0.6, 100)},
    ):
        found = spent(loops, n=10 if "a" in loops else 100)
        pairs = tuple(replace(p, verdict=Verdict("undecided", False)) if p.metric == "tokens" else p for p in found.pairs)
        said = first(replace(found, pairs=pairs))
        assert ("not told apart" in said.partition("; ")[2]) == ("early" not in loops)
        assert not any(word in said for word in ("cheap", "spends less", "costs less", "least"))
        assert said != first(found)


def test_a_loop_that_crashed_is_not_sold_as_cheaper_without_that(spent):
    found = spent({"good": (0.9, 300), "bad": (0.5, 100)}, {"bad": 30})
    crashed = next(loop["crashed"] for loop in answer_json(found)["loops"] if loop["loop"] == "bad")
    assert 0 < crashed <= 30
    assert first(found).endswith(f"; bad is cheaper (100 tokens a trial against 300), and crashed in {crashed} of 100 trials")
    brief = answer(spent({"good": (0.9, 300), "same": (0.9, 300), "bad": (0.5, 100)}, {"bad": 30})).answer_sentences[0].brief
    assert brief.endswith(f"; bad costs 67 % less, and crashed in {crashed} of 100 trials")


def test_a_loop_that_is_named_for_its_price_is_named_with_its_crashes(spent):
    said = first(spent({"dear": (0.92, 300), "cheap": (0.88, 100), "bad": (0.2, 100)}, {"cheap": 50}))
    assert said.startswith("Adopt cheap (100 tokens a trial; crashed in ")
    assert " of 100 trials) or dear (300): " in said


def test_of_loops_that_are_not_told_apart_it_is_undecided_which_costs_the_least_by_the_solved_task(spent):
    said = first(spent({"a": (0.7, 110), "b": (0.6, 100)}, n=10))
    assert said.endswith(
        "; which costs the least by the solved task is undecided; b spends the least on a trial (100 tokens a trial)"
    )


def test_where_nothing_was_solved_there_is_no_price_of_it(spent):
    made = answer_json(spent({"a": (0.0, 110), "b": (0.0, 100)}))
    assert [loop["cost_per_solved"] for loop in made["loops"]] == [None, None]
    assert "inf" not in str(made)


LOOPS = st.dictionaries(st.sampled_from("abcde"), st.tuples(st.floats(0, 1), st.integers(1, 500)), min_size=2, max_size=5)


@settings(max_examples=cases(12))
@given(LOOPS)
def test_only_a_loop_whose_solved_tasks_cost_less_is_called_cheaper(spent, loops):
    made = answer(spent(loops, n=20))
    prices = {row.loop: row.solved_cost for row in made.rows}
    for line in made.sentences[:1]:
        adopted, _, rest = line.partition(": ")
        if adopted.startswith("Adopt ") and " is cheaper (" in rest:
            cheaper = rest.partition(" is cheaper (")[0].split("; ")[-1]
            assert prices[cheaper] < prices[adopted.removeprefix("Adopt ").split(" ")[0].rstrip(",")]


def test_equivalence_is_told_where_it_decides(spent):
    """Verdicts are given here: those of 100 tasks reach the default margin in no run."""
    found = spent({"dear": (0.91, 300), "cheap": (0.9, 100), "bad": (0.2, 400)})
    equal = {"dear/calm", "cheap/calm"}
    pairs = tuple(
        replace(pair, verdict=Verdict("equivalent", True)) if pair.metric == "accuracy" and {pair.a, pair.b} == equal else pair
        for pair in found.pairs
    )
    said = answer(replace(found, pairs=pairs)).answer_sentences[0]
    for text in (said.text, said.brief):
        assert "beat it, and it is equivalent to dear within the margin of 0.02" in text
    assert said.text.startswith("Adopt cheap (100 tokens a trial): ")


def test_what_loops_cost_stays_on_a_narrow_terminal(spent):
    found = spent({"good": (0.9, 12_345), "bad": (0.5, 9_876)})
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=0), settings=SimpleNamespace(repeats=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "title", "title")
        lines = [line.plain for line in answer_lines(Results("x", manifest, (), found), 36)]  # type: ignore[arg-type]
    assert any(line.startswith("good ") and line.endswith("12,345") for line in lines), lines


def test_frameworks_as_they_come_are_told_and_how_they_show_errors():
    def manifest(**configurations: str) -> Any:
        return SimpleNamespace(arms=[SimpleNamespace(loop=loop, configuration=text) for loop, text in configurations.items()])

    as_it_comes = "LangChain(max_steps=6, venv='', tool_errors='default')"
    assert defaults_sentence(manifest(langchain=as_it_comes, finish="Finish(max_steps=6)")) == (
        "langchain runs as installed; langchain(tool_errors=shown) shows the model what a tool raises."
    )
    two = manifest(langchain=as_it_comes, langgraph=as_it_comes)
    assert defaults_sentence(two).startswith("langchain and langgraph run as installed; ")
    assert defaults_sentence(manifest(langchain="LangChain(tool_errors='shown')")) == ""


def test_verdicts_of_no_pairs_say_nothing(spent):
    found = answer(spent({"a": (0.5, 1)}))
    these = FewTasksVerdict(found.on_tasks, (), Prices(found, ()), 0.05)
    assert list(Verdicts(found, (), Prices(found, ()), (), 0.05, TieBreaks(found, (), (), (), ()), these).sentences()) == []


def test_a_shown_difference_of_costs_that_ends_at_0_is_told_as_beyond_it(spent):
    pair = next(each for each in spent({"a": (0.5, 120), "b": (0.5, 100)}).pairs if each.metric == "tokens")
    at_0 = replace(pair, difference=Interval(20.0, 0.0, 40.0, 100))
    assert pair.verdict.word == "worse"
    assert gap_in_words(at_0, "tokens") == "20 [>0, 40]"
    assert gap_in_words(at_0.turned, "tokens") == "-20 [-40, <0]"
    assert gap_in_words(replace(at_0, verdict=Verdict("undecided", False)), "tokens") == "20 [0, 40]"


def test_what_a_cheaper_loop_saves_is_told_with_its_paired_interval(record):
    infos = [
        ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s") for profile in ("calm", "rough") for loop in ("a", "b")
    ]
    records = [
        record(
            arm=info.arm,
            task=f"t{task:02}",
            scores={"accuracy": float(task % 10 < (9 if info.loop == "a" else 4))},
            input_tokens=300 + 20 * (task % 7) if info.loop == "a" else 100 + 10 * (task % 3),
            output_tokens=0,
        )
        for info in infos
        for task in range(60)
    ]
    gap = r"2\d\d \[2\d\d, 2\d\d\]"
    one = first(compare([each for each in records if each.arm.endswith("calm")], infos[:2]))
    assert re.search(rf"\(110 tokens a trial against 358, paired difference {gap}\)", one)
    both = first(compare(records, infos))
    assert re.search(rf"against 358, paired difference {gap} under calm and {gap} under rough\)", both)
