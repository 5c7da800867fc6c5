"""Profiles that were measured of native calls or of calls in text: which loops they apply to, and which of them each loop meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.running import ran as run_of
from whichloop.experiments.compare.caveats import caveats
from whichloop.experiments.compare.reopen import look_again
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare
from whichloop.experiments.compare.verdict import Decision, verdict
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.gate.baseline import bless
from whichloop.experiments.gate.judge import judge
from whichloop.experiments.why.replay import replays_of, unchanged_run
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.models.profiles import load_profile
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import manifest_changes
from whichloop.runs.store.files import RunError

FORMS = {"finish": "native", "bare": "text"}
MET = {"finish": "native-2024", "bare": "text-2024"}


def kinds(comparison: Comparison) -> dict[str, str]:
    return {each.code: each.text for each in caveats(comparison)}


@pytest.fixture(scope="module")
def column(ran: Callable[..., Results]) -> Results:
    return ran("measured-2024")


def test_each_loop_has_the_trials_of_the_profile_that_it_met(ran, column):
    apart = ran("native-2024", "text-2024")
    assert apart.comparison.pooled == ()
    assert {arm.loop: arm.met for arm in column.manifest.arms} == MET
    assert {arm["loop"]: arm["met"] for arm in column.to_json()["arms"]} == MET
    traces = {(record.arm, record.task): record.trace_digest for record in apart.records}
    for record in column.records:
        loop = record.arm.partition("/")[0]
        assert record.trace_digest == traces[f"{loop}/{MET[loop]}", record.task]


def test_such_a_run_is_resumed_extended_replayed_and_gated(column):
    again, today = look_again(column.folder)
    assert manifest_changes(again.manifest, today) == []
    bare = next(record for record in column.records if record.arm == "bare/measured-2024")
    with asyncio.Runner() as runner:
        replays = replays_of(unchanged_run(column.folder), bare, runner)
        assert replays.profile == load_profile("text-2024")
        assert replays.run(replays.profile).record.trace_digest == bare.trace_digest
    assert judge(column, bless(column)).outcome == "pass"
    with pytest.raises(RunError, match=r"several profiles cannot be pooled \(native-2024, text-2024\)"):
        fit_run(column.folder)


@pytest.fixture(scope="session")
def measured(record) -> Callable[..., Comparison]:
    """Compares loops of given forms under given profiles: finish and native solve nine tasks of ten, the others one of two."""

    def make(profiles: Sequence[str], forms: Mapping[str, str] = FORMS) -> Comparison:
        infos, records = [], []
        for loop, profile in product(forms, profiles):
            arm, met = f"{loop}/{profile}", MET[loop] if profile == "measured-2024" else ""
            infos.append(ArmInfo(arm, loop, {}, "scripted", profile, "s", forms[loop], met))
            solved = 9 if loop in ("finish", "native") else 5
            records += [record(arm=arm, task=f"t{task}", scores={"accuracy": float(task % 10 < solved)}) for task in range(60)]
        return compare(records, infos)

    return make


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    """Runs finish and bare, or other loops, on 12 tasks."""

    def make(*profiles: str, loops: Sequence[str] = ("finish", "bare")) -> Results:
        settings: dict[str, Any] = {"loops": loops, "profiles": profiles, "suite": "arithmetic(size=12)"}
        return results(run_of(tmp_path_factory.mktemp("runs"), is_compared=False, **settings).folder)

    return make


TOLD_FORMS = "finish and bare: profile measured-2024 has a form for each, and these met native-2024, text-2024"
VERDICTS = [
    (
        ["native-2024"],
        FORMS,
        None,
        {"profile does not apply": "bare: profile native-2024 was measured of native calls, and does not apply"},
    ),
    (
        ["text-2024"],
        {"native": "native", "finish": "text", "bare": "text"},
        Decision("Adopt", ("finish",)),
        {"profile does not apply": "native: profile text-2024 was measured of calls in text, and does not apply"},
    ),
    (["measured-2024", "flaky-tools"], FORMS, Decision("Adopt", ("finish",)), {"forms of calls differ": TOLD_FORMS}),
    (["text-2024"], {"finish": "text", "bare": "text"}, Decision("Adopt", ("finish",)), {}),
    (["flaky-tools", "flaky-format"], FORMS, Decision("Adopt", ("finish",)), {}),
]


@pytest.mark.parametrize(("profiles", "forms", "decision", "told"), VERDICTS)
def test_loops_are_compared_under_profiles_that_apply_to_them_and_what_does_not_is_told(measured, profiles, forms, decision, told):
    found = measured(profiles, forms)
    assert (verdict(found).decision, kinds(found)) == (decision, told)


def test_what_does_not_apply_has_no_number_and_loops_that_meet_under_no_profile_are_not_decided(measured):
    made = verdict(measured(["native-2024"]))
    assert [made.row(loop).cells["native-2024"].accuracy is None for loop in FORMS] == [False, True]
    assert [made.row(loop).mean("tokens") is None for loop in FORMS] == [False, True]
    forms = {"finish": "native", "slow": "native", "bare": "text", "plain": "text"}
    apart = verdict(measured(["native-2024", "text-2024"], forms))
    assert apart.decision == Decision("Undecided", ("finish", "bare", "plain"))  # finish beats slow alone


@pytest.mark.parametrize(
    ("loop", "profile", "said"),
    [
        ("phased", "measured-2024", r"phased mixes them, or does not say .*: run it under native-2024 or text-2024"),
        ("bare", "native-2024", "profiles: native-2024 apply to no loop of this run"),
    ],
)
def test_a_run_in_which_no_loop_fits_is_refused_before_it_begins(tmp_path: Path, loop: str, profile: str, said: str):
    config = CompareConfig(loops=(loop,), profiles=(profile,), suite="arithmetic(size=3)", runs=tmp_path, mlflow=False)
    with pytest.raises(ValueError, match=said):
        prepare(config)
    assert list(tmp_path.iterdir()) == []
    if loop == "bare":
        assert prepare(config, is_compared=False).trials == 3  # a gate holds a loop to its own baseline
