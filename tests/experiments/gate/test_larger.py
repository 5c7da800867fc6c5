"""The larger baseline that decides what a gate leaves open, and where none is to be made."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import failing, task
from whichloop.experiments.gate import Baseline, judge
from whichloop.experiments.gate.data.advice import Larger
from whichloop.experiments.gate.larger import MAX_ENLARGED, larger
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.metrics.gate import Bounds, GateLine
from whichloop.metrics.outlook import Chance, MoreRepeats, Outlook


def test_what_is_undecided_names_the_commands_of_a_larger_baseline(baseline, altered, wind):
    judged = judge(altered(failing(task(1))), baseline, path=Path("b.json"))
    assert judged.outcome == "undecided"
    runs = ["--runs", str(wind.folder.parent)]
    (step,) = next_steps(judged)
    assert re.match(r"A baseline of [\d,]+ tasks decides it with a chance of about ", step.say)
    compare, bless_it, gate_it = map(shlex.split, step.commands)
    assert compare[:6] == ["whichloop", "compare", "--loop", "bare", "--loop", "finish"]
    assert re.fullmatch(r"arithmetic\(size=\d+\)", compare[compare.index("--suite") + 1])
    assert compare[compare.index("--repeats") + 1] == "2"
    assert bless_it == ["whichloop", "bless", "latest", *runs, "--output", "b.json"]
    assert gate_it == ["whichloop", "gate", "--baseline", "b.json", *runs]


def own_recipe(baseline: Baseline, repeats: MoreRepeats | None, needed: int = 90, **config: Any) -> Larger:
    """The larger baseline of an undecided line, of a baseline whose tasks stand in a file."""
    of_tasks = {"loops": ["bare"], "suite": "jsonl", "data": "my tasks.jsonl", "tools": "my_tools", "repeats": 2} | config
    outlook = Outlook(2, Chance(24, 48, None, 0.5), Chance(needed, 2 * needed, None, 0.8))
    line = GateLine("bare/clean", "accuracy", 1, 1, Bounds(0, -1, 1), 0.02, 12, 12, 1, 1, 1, "undecided", False, outlook, repeats)
    found = larger([line], baseline.model_copy(update={"config": of_tasks}), ["--runs", "elsewhere"])
    assert found is not None
    return found


def test_an_undecided_gate_of_ones_own_tasks_has_commands_too_and_a_word_on_repeats(baseline):
    found = own_recipe(baseline, MoreRepeats(5, 0.9))
    assert (found.tasks, found.chance, found.whole) == (90, 0.8, True)
    assert found.supply == "Add about 78 tasks to my tasks.jsonl, which has 12."
    assert shlex.join(found.compare) == (
        "whichloop compare --loop bare --suite jsonl --seed 0 --data 'my tasks.jsonl' --tools my_tools --repeats 2 --runs elsewhere"
    )
    assert found.repeats == "With 5 repeats of the same tasks, the chance of a decision is about 90 %."
    few = "More repeats do not decide it: even with 20, the chance is about 30 %."
    assert own_recipe(baseline, MoreRepeats(None, 0.3)).repeats == few
    for unknown in (None, MoreRepeats(None, None)):
        assert own_recipe(baseline, unknown).repeats == "A baseline of 3 repeats shows whether more of them would decide it."


@settings(max_examples=cases(10))
@given(st.integers(13, 2_000))
def test_nobody_is_told_to_write_more_than_ten_times_the_tasks_there_are(baseline, tasks):
    """12 ran: 120 are an advice, and any number is of a suite that makes its tasks, or where the file may have more than ran."""
    found = own_recipe(baseline, None, tasks)
    assert found.out_of_proportion == (tasks > MAX_ENLARGED * 12)
    assert bool(found.supply and found.compare) == (not found.out_of_proportion)
    generated = own_recipe(baseline, None, tasks, suite="arithmetic", data=None)
    assert (generated.suite, generated.out_of_proportion) == (f"arithmetic(size={tasks})", False)
    assert not own_recipe(baseline, None, tasks, tasks=12).out_of_proportion
