"""Profiles that were measured of native calls or of calls in text: which loops they apply to, and which of them each loop meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from whichloop.experiments.compare.caveats import caveats
from whichloop.experiments.compare.extend import Additions, extend
from whichloop.experiments.compare.prepare import prepare, without_formless
from whichloop.experiments.compare.reopen import look_again
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.several_runs import collect, several_doc
from whichloop.experiments.compare.verdict import Decision, verdict
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.gate.baseline import bless
from whichloop.experiments.gate.judge import judge
from whichloop.experiments.why.replay import replayable_run
from whichloop.loops import Bare, Finish, ReactExtract
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.loops.stateless import Stateless
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.models.profiles import Profile, load_profile, measured_forms
from whichloop.programs.program import Program
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import RunError

FORMS = {"finish": "native", "bare": "text"}
MET = {"finish": "native-2024", "bare": "text-2024"}


@pytest.fixture(scope="session")
def measured(record) -> Callable[..., Comparison]:
    """Compares loops of given forms under given profiles: finish and native solve nine tasks of ten, the others one of two."""

    def make(profiles: Sequence[str], forms: Mapping[str, str] = FORMS) -> Comparison:
        arms = [(loop, profile) for loop in forms for profile in profiles]
        infos = [
            ArmInfo(
                f"{loop}/{profile}",
                loop,
                {},
                "scripted",
                profile,
                "s",
                forms[loop],
                MET[loop] if profile == "measured-2024" else "",
            )
            for loop, profile in arms
        ]
        records = [
            record(
                arm=info.arm,
                task=f"t{task}",
                scores={"accuracy": float(task % 10 < (9 if info.loop in ("finish", "native") else 5))},
            )
            for info in infos
            for task in range(60)
        ]
        return compare(records, infos)

    return make


def kinds(comparison: Comparison) -> dict[str, str]:
    return {each.code: each.text for each in caveats(comparison)}


def test_a_profile_applies_to_loops_of_its_own_form_alone(measured):
    found = measured(["native-2024"])
    made = verdict(found)
    assert made.decision is None
    assert (made.row("finish").cells["native-2024"].accuracy is None, made.row("bare").cells["native-2024"].accuracy) == (
        False,
        None,
    )
    assert (made.row("finish").mean("tokens") is None, made.row("bare").mean("tokens")) == (False, None)
    assert kinds(found) == {"profile does not apply": "bare: profile native-2024 was measured of native calls, and does not apply"}


def test_of_several_loops_those_are_judged_that_it_applies_to(measured):
    made = verdict(measured(["text-2024"], {"native": "native", "finish": "text", "bare": "text"}))
    assert made.decision == Decision("Adopt", ("finish",))
    assert made.best == {"text-2024": ("finish",)}


def test_loops_of_two_forms_that_meet_under_no_profile_are_not_decided(measured):
    forms = {"finish": "native", "slow": "native", "bare": "text", "plain": "text"}
    made = verdict(measured(["native-2024", "text-2024"], forms))
    # finish beats slow, and no profile shows it beside the others
    assert made.decision == Decision("Undecided", ("finish", "bare", "plain"))


def test_under_a_profile_by_form_loops_of_both_forms_are_compared_and_what_they_met_is_told(measured):
    found = measured(["measured-2024", "flaky-tools"])
    assert verdict(found).decision == Decision("Adopt", ("finish",))
    assert kinds(found) == {
        "forms of calls differ": "finish and bare: profile measured-2024 has a form for each, and these met native-2024, text-2024"
    }


def test_where_all_loops_fit_and_where_nothing_was_measured_nothing_is_said(measured):
    for profiles, forms in ((["text-2024"], {"finish": "text", "bare": "text"}), (["flaky-tools", "flaky-format"], FORMS)):
        assert kinds(measured(profiles, forms)) == {}


def test_loops_say_how_they_have_calls_written():
    assert (Finish().calls_in, Bare().calls_in, ReactExtract().calls_in, Stateless().calls_in) == ("native", "text", "text", "text")
    assert Bare(decision_format="native").calls_in == RepeatGuard(Finish()).calls_in == "native"
    assert Program("python agent.py").calls_in == "native"


def test_profiles_say_what_they_were_measured_of():
    forms = measured_forms(["clean", "native-2024", "text-2024-median", "measured-2024", "no-such"])
    assert forms == {"native-2024": "native", "text-2024-median": "text"}


# --- profiles by form ---


BY_FORM = """
name = "mine"
[by_form]
native = "native-2024"
[by_form.text]
name = "my-text"
rates = {"wire.fenced" = 0.5}
"""


def test_a_profile_of_one_s_own_names_one_for_each_form_or_holds_it(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(BY_FORM, encoding="utf-8")
    mine = load_profile(str(file))
    assert mine.met_by("native") == load_profile("native-2024")
    assert mine.met_by("text").rates == {"wire.fenced": 0.5}
    assert load_profile("clean").met_by("") == load_profile("clean")
    with pytest.raises(ValueError, match="is met by the form of a loop's calls, and this one's is not known"):
        mine.met_by("")
    file.write_text(mine.to_toml(), encoding="utf-8")
    again = load_profile(str(file))
    assert (again, again.digest, again.effects()) == (mine, mine.digest, mine.effects())


def test_the_digest_of_a_profile_by_form_is_that_of_what_loops_meet():
    native, text = load_profile("native-2024"), load_profile("text-2024")
    made = Profile(name="x", by_form={"native": native, "text": text})
    reworded = Profile(name="x", evidence="a guess", by_form={"native": native.model_copy(update={"sources": {}}), "text": text})
    other = Profile(name="x", by_form={"native": native.model_copy(update={"patience": 9}), "text": text})
    assert made.digest == reworded.digest != other.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[by_form]\nnative = "native-2024"', "by_form: "),
        ('[by_form]\nnative = "nativ-2024"\ntext = "text-2024"', "by_form: unknown profile 'nativ-2024'"),
        ('[by_form]\nnative = "measured-2024"\ntext = "text-2024"', "by_form: "),
        ('patience = 2\n[by_form]\nnative = "clean"\ntext = "clean"', "leave out 'patience'"),
        ('[by_form.native]\nname = "clean"\nforget = 1\n[by_form.text]\nname = "t"', "by_form.native.name: 'clean' is a built-in"),
    ],
)
def test_a_mistake_in_a_profile_by_form_is_told_in_one_line(tmp_path, text, says):
    file = tmp_path / "mine.toml"
    file.write_text(f'name = "mine"\n{text}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine\.toml: ") as raised:
        load_profile(str(file))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    """Runs finish and bare on 12 tasks."""

    def make(*profiles: str) -> Results:
        config = CompareConfig(
            loops=("finish", "bare"),
            profiles=profiles,
            suite="arithmetic(size=12)",
            runs=tmp_path_factory.mktemp("runs"),
            mlflow=False,
        )
        experiment = prepare(config)
        run(experiment, Unwatched())
        return results(experiment.folder)

    return make


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
    again = look_again(column.folder)
    assert again.changes == []
    bare = next(record for record in column.records if record.arm == "bare/measured-2024")
    replayable = replayable_run(column.folder).trial(bare)
    assert replayable.profile == load_profile("text-2024")
    with replayable.opened() as replays:
        assert replays.run(replayable.profile).record.trace_digest == bare.trace_digest
    assert judge(column, bless(column)).outcome == "pass"
    with pytest.raises(RunError, match=r"several profiles cannot be pooled \(native-2024, text-2024\)"):
        fit_run(column.folder)


def test_a_gate_says_that_a_loop_meets_another_form_than_in_the_baseline(tmp_path):
    """A loop that writes its calls in another form now meets other faults, which no seed makes the same."""
    native = CompareConfig(
        loops=("bare(decision_format=native)",),
        profiles=("measured-2024",),
        suite="arithmetic(size=12)",
        runs=tmp_path,
        mlflow=False,
    )
    before, now = prepare(native.model_copy(update={"loops": ("bare",)})), prepare(native)
    for experiment in (before, now):
        run(experiment, Unwatched())
    baseline = bless(results(before.folder))
    assert baseline.arms["bare/measured-2024"].met == "text-2024"
    judged = judge(results(now.folder), baseline)
    assert "met text-2024 → native-2024" in judged.changed["loop"]
    assert not any(reason.code in ("tasks_lost", "tasks_gained", "unchanged") for reason in judged.reasons)


def test_an_extended_run_says_what_its_new_loop_met(ran):
    folder = ran("measured-2024").folder
    extended = extend(folder, Additions(loops=("bare(decision_format=native)",)))
    assert [arm.met for arm in extended.manifest.arms] == ["native-2024", "text-2024", "native-2024"]


def test_several_runs_show_where_a_profile_does_not_apply(ran, column):
    doc = several_doc(collect([column, ran("native-2024")]))
    matrix = doc.tables[0]
    rows = {row[0]: row for row in matrix.texts}
    assert rows["arithmetic, native-2024"][matrix.columns.index("bare")] == "does not apply"
    assert "does not apply" not in rows["arithmetic, measured-2024"]


def test_a_loop_whose_form_is_not_known_is_refused_with_the_cure(tmp_path: Path):
    config = CompareConfig(loops=("phased",), profiles=("measured-2024",), runs=tmp_path, mlflow=False)
    with pytest.raises(ValueError, match=r"phased mixes them, or does not say .*: run it under native-2024 or text-2024"):
        prepare(config)
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_which_no_loop_fits_is_refused_before_it_begins(tmp_path: Path):
    config = CompareConfig(loops=("bare",), profiles=("native-2024",), suite="arithmetic(size=3)", runs=tmp_path, mlflow=False)
    with pytest.raises(ValueError, match="profiles: native-2024 apply to no loop of this run"):
        prepare(config)
    assert list(tmp_path.iterdir()) == []
    assert prepare(config, is_compared=False).trials == 3  # a gate holds a loop to its own baseline


def test_default_loops_without_a_form_are_left_out_with_a_note():
    usual = CompareConfig(profiles=("measured-2024",))
    config, note = without_formless(usual)
    assert config.loops == tuple(loop for loop in usual.loops if loop != "phased")
    assert note == "left out: phased, which has calls in both forms, and measured-2024 takes loops of one form each"
    for kept in (CompareConfig(profiles=("flaky-tools",)), CompareConfig(loops=("phased",), profiles=("measured-2024",))):
        assert without_formless(kept) == (kept, "")
