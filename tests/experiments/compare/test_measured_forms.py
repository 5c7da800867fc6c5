"""Profiles that were measured of native calls and of calls in text are not pooled, and the answer says which loop each one fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from loopbench.experiments.compare.answer import answer
from loopbench.loops import Bare, Finish, ReactExtract
from loopbench.loops.repeat_guard import RepeatGuard
from loopbench.loops.stateless import Stateless
from loopbench.metrics.arm_info import ArmInfo
from loopbench.metrics.comparison import Comparison, compare
from loopbench.models.profiles import measured_forms

FORMS = {"finish": "native", "bare": "text"}


@pytest.fixture(scope="session")
def measured(record) -> Callable[[Sequence[str]], Comparison]:
    """Compares finish, which solves nine tasks of ten, and bare, which solves one of two, under given profiles."""

    def make(profiles: Sequence[str], forms: dict[str, str] = FORMS) -> Comparison:
        arms = [(loop, profile) for loop in FORMS for profile in profiles]
        infos = [ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s", forms[loop]) for loop, profile in arms]
        records = [
            record(arm=info.arm, task=f"t{task}", scores={"accuracy": float(task % 10 < (9 if info.loop == "finish" else 5))})
            for info in infos
            for task in range(60)
        ]
        return compare(records, infos)

    return make


def test_each_form_is_judged_by_itself(measured):
    lines = answer(measured(["native-2024", "text-2024"])).sentences
    adopted = [line for line in lines if "Adopt finish" in line]
    assert [line.partition(":")[0] for line in adopted] == ["Under native-2024", "Under text-2024"]
    assert not any("together" in line for line in lines)
    assert lines[-1] == (
        "native-2024 was measured of native calls, as finish writes them; text-2024 was measured of calls in text, as bare writes "
        "them: each profile is judged by itself, and nothing is pooled, because they are of different replies"
    )


def test_a_loop_of_another_form_is_named_beside_a_single_measured_profile(measured):
    lines = answer(measured(["native-2024", "flaky-tools"])).sentences
    assert any(line.startswith("Over both profiles together") for line in lines)
    assert lines[-1] == (
        "native-2024 was measured of native calls, as finish writes them; bare writes calls in text, of which no profile here was"
    )


def test_where_all_loops_fit_and_where_nothing_was_measured_nothing_is_said(measured):
    for profiles, forms in ((["text-2024"], {"finish": "text", "bare": "text"}), (["flaky-tools", "flaky-format"], FORMS)):
        assert not any("was measured of" in line for line in answer(measured(profiles, forms)).sentences)


def test_loops_say_how_they_have_calls_written():
    assert (Finish().calls_in, Bare().calls_in, ReactExtract().calls_in, Stateless().calls_in) == ("native", "text", "text", "text")
    assert Bare(decision_format="native").calls_in == RepeatGuard(Finish()).calls_in == "native"


def test_profiles_say_what_they_were_measured_of():
    forms = measured_forms(["clean", "native-2024", "text-2024", "no-such"])
    assert forms == {"native-2024": "native", "text-2024": "text"}
