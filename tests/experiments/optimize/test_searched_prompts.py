"""What a search tried stands in a table with what each score is of, and a program that the budget cut off is named."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.optimize.written import LEFT, A, B, Write
from tests.sealing import reseal
from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd
from whichloop.experiments.optimize.manifest import CANDIDATES
from whichloop.experiments.optimize.result import optimization_result
from whichloop.experiments.optimize.searched_prompts import OTHER_ROLLOUTS, comparing_words, programs_table
from whichloop.experiments.optimize.tables import verdicts
from whichloop.experiments.optimize.tried import RolledOut, SearchTasks, TriedProgram, cut_off, other_rollouts
from whichloop.runs.config import BudgetConfig
from whichloop.runs.store.files import RunError, read_manifest_json, write_manifest_json
from whichloop.runs.typed_budgets import typed_limits

CUT = replace(A, changes={"status": "budget", "reason": "100 calls", "after": {"d1": 1.0, "d2": 0.0}}, left=(("d2", 1.0),))

# The sentence.

SCORES = st.dictionaries(st.sampled_from([f"d{n}" for n in range(6)]), st.sampled_from([0.0, 0.5, 1.0]))
AFTER = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6)


def end_of(status: str, after: dict[str, float]) -> SearchEnd:
    spent = SearchCost(20, 100, 9_000, 0.5)
    return SearchEnd("bare", status, "", "k", 1, 3, {}, after, spent, SearchCost(), SearchCost())  # type: ignore[arg-type]


def tried(dev: dict[str, float], spent: SearchCost, *, is_kept: bool = False) -> TriedProgram:
    return TriedProgram(Candidate(2, "last", {}, {}, dev), spent, is_kept, SearchTasks(3, 6))


@given(SCORES, AFTER, st.sampled_from(["budget", "finished", "failed"]), st.booleans())
def test_a_program_is_named_only_if_the_budget_cut_it_off_and_it_was_ahead(dev, after, status, is_kept):
    kept = {f"d{n}": score for n, score in enumerate(after)}
    program = tried(dev, SearchCost(len(dev), 5 * len(dev)), is_kept=is_kept)
    line = cut_off(end_of(status, kept), [program], "last", BudgetConfig(calls=100))
    lead = sum(score - kept[task] for task, score in dev.items())
    assert bool(line) == (status == "budget" and not is_kept and len(dev) < 6 and lead > 0)
    assert cut_off(end_of(status, kept), [program], "another", BudgetConfig(calls=100)) == ""


@given(st.integers(1, 10**6), st.integers(1, 30), st.integers(1, 400), st.integers(1, 10**9), st.floats(1e-4, 1e3, allow_nan=False))
def test_the_budget_that_is_named_pays_for_what_is_missing_and_for_little_more(calls, rollouts, spent, tokens, dollars):
    budget = BudgetConfig(calls=calls, tokens=tokens, dollars=dollars)
    program = tried({"d0": 1.0}, SearchCost(rollouts, spent, 10 * spent, 0.001 * spent))
    line = cut_off(end_of("budget", {"d0": 0.0}), [program], "last", budget)
    found = re.search(r"a new run with --budget (\S+) is likely to finish it$", line)
    assert found is not None
    (typed,) = shlex.split(found[1])
    named = BudgetConfig(**typed_limits(typed))
    each = 5 * spent / rollouts
    for name, limit, used, factor in (("calls", calls, 100, 1), ("tokens", tokens, 9_000, 10), ("dollars", dollars, 0.5, 0.001)):
        needed = max(limit, used) + factor * each
        assert needed * (1 - 1e-9) <= getattr(named, name) <= 1.1 * needed + 1e-6


def test_the_sentence_says_what_the_program_had_solved_and_stands_in_verdict_and_json(write: Write) -> None:
    found = optimization_result(write(CUT, B))
    line = (
        "bare: the budget ended the search before program 4 had run all 2 dev tasks; it had solved 1 of the 1 that it ran, "
        "the kept program 0 of these; a new run with --budget 110calls is likely to finish it"
    )
    assert verdicts(found)[-1] == line
    assert [design["cut_off"] for design in found.to_json()["designs"]] == [line, ""]


# The table.


def test_each_program_has_a_row_with_what_its_scores_are_of(write: Write) -> None:
    table = programs_table(optimization_result(write(CUT)))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["program"] for row in rows] == ["0", "3", "4"]
    assert [row["solved on dev"] for row in rows] == ["0 of 2", "1 of 2", "1 of 1, 1 not run"]
    assert {row["solved on train"] for row in rows} == {"1 of 1, 3 not run"}
    assert [row["what is new in it"] for row in rows] == [
        "(the design's own)",
        "decide: Better., 1 line of the old instructions gone",
        f"decide: {LEFT.splitlines()[1]}",
    ]
    assert [row["kept"] for row in rows] == ["", "kept", ""]
    assert [(row["rollouts"], row["LM calls"]) for row in rows] == [("3", "9"), ("0", "0"), ("1", "3")]


COSTS = st.builds(SearchCost, st.integers(1, 5), st.integers(0, 50), st.integers(0, 900))


@given(st.dictionaries(st.sampled_from("abcdef"), COSTS), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_every_rollout_stands_in_some_row(spent, digests):
    rows = [
        TriedProgram(Candidate(n, digest, {}), spent.get(digest, SearchCost()), False, SearchTasks(3, 6))
        for n, digest in enumerate(sorted(digests))
    ]
    others = other_rollouts(RolledOut(spent, ""), rows)
    total = sum((row.spent for row in rows), others)
    assert (total.trials, total.calls) == (sum(cost.trials for cost in spent.values()), sum(cost.calls for cost in spent.values()))


def test_rollouts_of_programs_that_do_not_count_have_a_row_of_their_own(write: Write) -> None:
    folder = write(CUT)
    path = folder / "designs/1-bare" / CANDIDATES
    data = json.loads(path.read_text(encoding="utf-8"))
    data["candidates"][-1]["counts"] = False
    path.write_text(json.dumps(data), encoding="utf-8")
    reseal(path)
    table = programs_table(optimization_result(folder))
    assert [row[1:2] + row[5:] for row in table.rows[2:]] == [("–", "1", "3", OTHER_ROLLOUTS)]


def test_json_has_the_programs_in_numbers(write: Write) -> None:
    (design,) = optimization_result(write(CUT)).to_json()["designs"]
    assert [
        (row["program"], row["kept"], row["dev_solved"], row["dev_scored"], row["dev_tasks"]) for row in design["programs"]
    ] == [
        (0, False, 0.0, 2, 2),
        (3, True, 1.0, 2, 2),
        (4, False, 1.0, 1, 2),
    ]


@pytest.mark.parametrize("text", ["{}", '{"candidates": [1]}', '{"candidates": [{"number": 0}]}'])
def test_a_file_of_programs_that_cannot_be_read_is_named(write: Write, text: str) -> None:
    folder = write(A)
    path = folder / "designs/1-bare" / CANDIDATES
    path.write_text(text, encoding="utf-8")
    reseal(path)
    with pytest.raises(RunError, match=re.escape(str(path))):
        optimization_result(folder)


# The command.


def test_the_command_compares_both_prompts_as_the_test_did_from_where_the_search_was_begun(write: Write) -> None:
    folder = write(A)
    made = read_manifest_json(folder)
    compare = {
        "repeats": 2,
        "runs": "my runs",
        "profiles": ["teachable"],
        "models": ["scripted"],
        "suite": "arithmetic",
        "tasks": 60,
    }
    made["config"]["compare"] = compare
    write_manifest_json(folder, made)
    found = optimization_result(folder)
    assert comparing_words(found, found.designs[0]) == [
        *("whichloop", "compare", "--loop", "bare", "--loop", "bare@my runs/run/designs/1-bare/optimized.json"),
        *("--profile", "teachable", "--suite", "arithmetic", "-s", "split=test", "--tasks", "60", "--repeats", "2"),
    ]
    made["config"]["compare"] = compare | {"base_url": "https://models.example"}
    write_manifest_json(folder, made)
    found = optimization_result(folder)
    assert comparing_words(found, found.designs[0]) == ()  # an address may be secret
    assert json.dumps(found.to_json(), allow_nan=False)
