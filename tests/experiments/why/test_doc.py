"""What `why` shows of a run: causes by arm beside their base rates in solved trials, examples, pairs, and one next command."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.running import ran as run_of
from whichloop.experiments.compare.results import Results, find_record
from whichloop.experiments.why import doc as doc_of_why
from whichloop.experiments.why import losses
from whichloop.experiments.why.doc import MAX_EXAMPLES, why_doc
from whichloop.experiments.why.losses import LOST_ONLY, BaseRate, losses_explained
from whichloop.metrics.trajectory.divergence import explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.runs.store.trials import Traces
from whichloop.text.doc import Doc, Lines, Table, to_markdown


def tables_of(doc: Doc) -> list[Table]:
    return [block for block in doc.blocks if isinstance(block, Table)]


def lines_of(doc: Doc, label: str, *, detail: bool = True) -> list[str]:
    blocks = [block for block in doc.shown(detail=detail) if isinstance(block, Lines)]
    return [text for block in blocks for name, text in block.items if name == label]


def test_each_cause_stands_beside_the_share_of_solved_trials_that_show_it(found: Results) -> None:
    why = losses_explained(found)
    doc = why_doc(found, why)
    tables = {table.title: table for table in tables_of(doc)}
    for profile in ("flaky-format", "flaky-tools"):
        table = tables[f"arithmetic, {profile}"]
        for place, name in enumerate(table.columns[1:], 1):
            arm = next(arm for arm in why.arms if arm.arm == f"{name}/{profile}")
            cells = {row[0]: row[place] for row in table.texts}
            assert cells.pop("lost") == f"{arm.lost} of {arm.trials}"
            for cause, many in arm.causes.items():
                rate = arm.base_rates.get(cause)
                share = "" if rate is None else f" ({100 * rate.solved / rate.of_solved:.0f} %)"
                assert cells.pop(cause) == f"{many}{'' if arm.stands(cause) else '?'}{share}"
            assert set(cells.values()) <= {"0"}
    rates = tables["Lost trials, and solved ones that show the same"]
    assert rates.detail
    assert len(rates.rows) == sum(len(arm.causes) for arm in why.arms)


def test_every_cause_has_one_example_with_its_command_the_frequent_ones_at_once(found: Results) -> None:
    why = losses_explained(found)
    doc = why_doc(found, why)
    commands = lines_of(doc, "show")
    assert len(lines_of(doc, "show", detail=False)) == min(len(commands), MAX_EXAMPLES)
    assert len(commands) == len({cause for arm in why.arms for cause in arm.causes})
    for command in commands:
        assert not find_record(found, shlex.split(command)[-1]).is_solved
    assert len(lines_of(doc, "Next")) == 1


def test_of_many_arms_each_has_a_row(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    why = losses_explained(found)
    few = tables_of(why_doc(found, why))[:2]
    monkeypatch.setattr(doc_of_why, "MAX_ACROSS", 3)
    for across, down in zip(few, tables_of(why_doc(found, why))[:2], strict=True):
        turned = zip(("loop", *across.columns[1:]), *across.texts, strict=True)
        assert [*map(tuple, (down.columns, *down.texts))] == [*turned]


def test_solved_trials_are_explained_by_the_same_rules(found: Results) -> None:
    traces, shown, solved = Traces(found.folder), Counter[tuple[str, str]](), Counter[str]()
    for record in found.records:
        if record.accuracy >= 1:
            solved[record.arm] += 1
            shown[record.arm, explain(TracedTrial(traces.read(record), record)).cause] += 1
    rated = 0
    for arm in losses_explained(found).arms:
        assert set(arm.base_rates) == set(arm.causes) - set(LOST_ONLY)
        for cause, rate in arm.base_rates.items():
            assert (rate.lost, rate.of_lost) == (arm.causes[cause], arm.lost)
            assert (rate.solved, rate.of_solved, rate.is_sample) == (shown[arm.arm, cause], solved[arm.arm], False)
            rated += 1
    assert rated > 1


def test_of_many_solved_trials_as_many_of_each_arm_are_looked_at(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "MAX_SOLVED", 40)
    monkeypatch.setattr(losses, "MIN_SOLVED", 3)
    rates = [rate for arm in losses_explained(found).arms for rate in arm.base_rates.values()]
    assert {(rate.of_solved, rate.is_sample) for rate in rates} == {(5, True)}


def ran(folder: Path, loops: tuple[str, ...], *profiles: str, tasks: int = 12, **more: Any) -> Results:
    return run_of(folder, loops=loops, profiles=profiles, tasks=tasks, **more)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    loops = ("bare", "react_extract", "finish(parse_retries=0)", "stateless")
    return ran(tmp_path_factory.mktemp("runs"), loops, "flaky-format", "flaky-tools", tasks=12)


def test_a_run_that_lost_nothing_says_so_and_markdown_has_every_block(tmp_path: Path, found: Results) -> None:
    calm = ran(tmp_path, ("bare", "finish"), "clean", tasks=2)
    assert lines_of(why_doc(calm, losses_explained(calm)), "Lost") == ["none"]
    doc = why_doc(found, losses_explained(found))
    written = to_markdown(doc)
    assert all(table.title in written for table in tables_of(doc))
    assert len(re.findall(r"^- \*\*show\*\* ", written, re.MULTILINE)) == len(lines_of(doc, "show"))


def test_without_traces_of_solved_trials_there_is_no_base_rate(tmp_path: Path) -> None:
    (arm,) = losses_explained(ran(tmp_path, ("bare",), "flaky-tools", traces="failures")).arms
    assert arm.causes
    assert not arm.base_rates


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_a_cause_is_in_doubt_only_if_solved_trials_show_it_too(of_lost: int, of_solved: int, data: st.DataObject) -> None:
    lost, solved = data.draw(st.integers(1, of_lost)), data.draw(st.integers(0, of_solved))
    rate = BaseRate(lost, of_lost, solved, of_solved, is_sample=False)
    assert solved > 0 or not rate.is_doubtful
    assert solved / of_solved < lost / of_lost or rate.is_doubtful
    assert BaseRate(7, 24, 26, 50, is_sample=False).is_doubtful
    assert not BaseRate(9, 24, 0, 50, is_sample=False).is_doubtful
