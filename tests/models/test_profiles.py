"""Fault profiles: the built-in ones do what they say, and a file of the user's own is checked in words that help."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.record import Record
from whichloop.metrics.summary import count_faults
from whichloop.models.profiles import WEAKNESS_KINDS, Clears, Profile, Weakness, built_in_profiles, load_profile
from whichloop.protocol import run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import make_suite
from whichloop.runs.schedule import make_arms, schedule
from whichloop.runs.trial.trial import TrialContext, run_trial

DIGESTS = {
    "bad-network": "5ed3db628bec",
    "clean": "649d4b7b25e3",
    "crossed-calls": "ae2c3580c70c",
    "flaky-format": "20925d81fc01",
    "flaky-mcp": "06646089b100",
    "flaky-tools": "45a8d917254b",
    "forgetful": "c803a6bc5e0f",
    "injected": "ab61ebf50ab9",
    "provider-trouble": "2e89848bca2d",
    "unreliable-tools": "1e320fbe3703",
    "stubborn": "6ec89694ef52",
}
"""They move only with the profile's version."""
MEASURED = [f"{what}-2024{median}" for what in ("measured", "native", "text") for median in ("", "-median")]
BUILT_IN = tuple(sorted([*DIGESTS, *MEASURED, "teachable", "teachable-dates", "teachable-flaky"]))
MET = tuple(name for name in BUILT_IN if not name.startswith("measured-") and not name.endswith("-median"))
"""The profiles that have a column of trials here: the others are made of these, or as these."""
ALWAYS = (
    *("bad-network", "clean", "crossed-calls", "flaky-format", "flaky-tools", "forgetful", "injected", "provider-trouble"),
    *("teachable-flaky", "unreliable-tools"),
)
"""Those of which `make test` has trials: each family of faults, forgetting, and weaknesses beside faults."""
LOOPS = ("bare", "react_extract")


def is_clean(profile: Profile) -> bool:
    return not any((profile.rates, profile.forget, profile.weaknesses, profile.by_form))


def test_the_built_in_profiles_are_these_and_say_of_every_rate_whether_it_was_measured() -> None:
    assert built_in_profiles() == BUILT_IN
    assert len({load_profile(name).digest for name in BUILT_IN}) == len(BUILT_IN)
    assert {name: load_profile(name).digest[:12] for name in DIGESTS} == DIGESTS
    for name in BUILT_IN:
        profile, word = load_profile(name), "measured" if "-2024" in name else "stress"
        assert profile.name == name
        assert profile.description
        assert is_clean(profile) == (name == "clean")
        assert profile.sources.keys() == profile.rates.keys()
        assert {re.split("[:;]", source)[0] for source in profile.sources.values()} <= {word}
        assert profile.evidence.lower().startswith(word) == bool(profile.rates or profile.by_form)


def test_profiles_differ_by_what_they_do_not_by_what_is_said_of_them() -> None:
    told = load_profile("flaky-format")
    assert told.model_copy(update={"evidence": "", "sources": {}, "description": ""}).digest == told.digest
    one = Profile(name="a", rates={"wire.empty": 0.1, "wire.fenced": 0.2})
    assert one.digest == Profile(name="a", rates={"wire.fenced": 0.2, "wire.empty": 0.1}).digest
    assert one.digest != Profile(name="a", rates={"wire.empty": 0.1}).digest


# --- files of the user's own ---


def written(folder: Path, text: str) -> str:
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


OWN = """
name = "mine"
forget = 0.2
patience = 2
rates = {"wire.empty" = 0.25, "tool.hangs" = 0.5}
clears = {never = 0, failed = 0.5}
abilities = {context_tokens = 4000, tool_choice = false}
weaknesses = [{kind = "step", rate = 1, tool = "book"}, {kind = "step", rate = 0.25}]
"""


def test_a_profile_of_one_s_own(tmp_path: Path) -> None:
    name = written(tmp_path, OWN)
    profile = load_profile(name)
    assert profile.rates == {"wire.empty": 0.25, "tool.hangs": 0.5}
    assert profile.clears == Clears(never=0, failed=0.5)
    assert (profile.abilities.context_tokens, profile.abilities.tool_choice) == (4000, False)
    assert profile.weaknesses == (Weakness(kind="step", rate=1, tool="book"), Weakness(kind="step", rate=0.25))
    assert not is_clean(profile)
    written(tmp_path, 'name = "mine"\nforget = 0.3')
    assert load_profile(name).forget == 0.3, "a file that was changed is read anew"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("forgett = 0.1", "forgett: "),
        ("rates = 3", "rates: "),
        ("[clears]\nfailled = 0.1", "clears.failled: "),
        ('[rates]\n"wire.emptee" = 0.1', "rates: .*wire.emptee"),
        ('[rates]\n"wire.empty" = 1.5', "rates.wire.empty: "),
        ('[rates]\n"wire.empty" = nan', "rates.wire.empty: "),
        ('[rates]\n"wire.empty" = 0.6\n"wire.fenced" = 0.6', "rates: .*1.2"),
        ('[sources]\n"wire.empty" = "a guess"', "profile: sources: .*wire.empty"),
        ("[clears]\nfailed = 0.95", "clears: .*must not fall"),
        ("[clears]\nattempts = 0", "clears.attempts: "),
        *((f'[rates]\n"{kind}" = 0.1', "rates: .*weaknesses") for kind in WEAKNESS_KINDS),
        ('[[weaknesses]]\nkind = "units"\nrate = 1', "weaknesses.0.kind: "),
        ('[[weaknesses]]\nkind = "unit"', "weaknesses.0.rate: "),
        ("patience = 0", "patience: "),
    ],
)
def test_a_mistake_is_told_in_one_line_with_file_and_field(tmp_path: Path, text: str, where: str) -> None:
    name = written(tmp_path, f'name = "a"\n{text}')
    with pytest.raises(ValueError, match=f"^{re.escape(name)}: {where}.*$"):
        load_profile(name)


@pytest.mark.parametrize("built_in", BUILT_IN)
def test_a_file_takes_no_name_of_a_built_in_profile_unless_it_says_the_same(tmp_path: Path, built_in: str) -> None:
    name = written(tmp_path, f'name = "{built_in}"\nlatency_s = 12.5')
    with pytest.raises(ValueError, match=rf"mine\.toml: name: '{built_in}'.*$"):
        load_profile(name)
    own = Path(str(resources.files("whichloop.models") / "profiles" / f"{built_in}.toml")).read_text(encoding="utf-8")
    assert load_profile(written(tmp_path, own)) == load_profile(built_in)


def test_an_unknown_profile_is_told() -> None:
    with pytest.raises(ValueError, match=r"^.*'flaky-tool'.*'flaky-tools'.*$"):
        load_profile("flaky-tool")
    with pytest.raises(OSError, match=r"nowhere\.toml"):
        load_profile("nowhere.toml")


# --- in the tunnel: both loops over the default suite ---


@pytest.fixture(scope="module", params=[pytest.param(ALWAYS, id="some"), pytest.param(MET, id="all", marks=pytest.mark.slow)])
def profiles(request: pytest.FixtureRequest) -> tuple[str, ...]:
    names: tuple[str, ...] = request.param
    return names


@pytest.fixture(scope="module")
def records(profiles: tuple[str, ...]) -> dict[str, list[Record]]:
    """Arm → records of 32 tasks."""
    suite = make_suite(parse_spec("arithmetic"))
    config = CompareConfig(loops=LOOPS, profiles=profiles)
    setting = TrialContext(suite)

    async def run() -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for trial in schedule(make_arms(config, suite), suite.tasks[:32], 1, 0):
            found.setdefault(trial.arm.name, []).append((await run_trial(trial, setting)).record)
        return found

    return run_sync(run())


@pytest.mark.thorough
def test_what_is_scheduled_lands_and_is_counted_once(records: dict[str, list[Record]]) -> None:
    """At least 95 % of a profile's faults reach the loop, in every arm; no trial is errored or excluded."""
    for arm, trials in records.items():
        counts = count_faults(trials)
        assert all(record.status == "scored" for record in trials), arm
        fewest = 4 if load_profile(arm.partition("/")[2]).weaknesses else 9  # a weakness shows in the tasks that it can spoil
        assert (counts.scheduled > fewest) == (not arm.endswith("/clean")), arm
        assert not counts.short, arm
        for fault in (fault for record in trials for fault in record.faults):
            assert fault.landed or not (fault.absorbed or fault.recovered)
            assert fault.family == "wire" or not fault.absorbed


def test_under_clean_every_loop_is_right_in_as_few_calls_as_the_plan_has(records: dict[str, list[Record]]) -> None:
    suite = make_suite(parse_spec("arithmetic"))
    longest = {task.id: len(task.plan.calls) for task in suite.tasks if task.plan is not None}
    for loop, more in zip(LOOPS, (1, 2), strict=True):
        for record in records[f"{loop}/clean"]:
            assert record.accuracy == 1
            assert record.lm_calls == longest[record.task] + more
            assert record.tool_calls == longest[record.task]
            assert record.simulated_s == 0


def test_the_same_stumble_meets_every_loop_at_the_same_place_and_without_one_a_trial_is_the_clean_one(records, profiles):
    """What is forgotten depends on the prompt, and so on the loop."""
    common = compared = 0
    for profile in profiles:
        for one, other in zip(*(records[f"{loop}/{profile}"] for loop in LOOPS), strict=True):
            assert one.task == other.task
            left, right = ({f.point: f.kind for f in record.faults if f.kind != "decision.forget"} for record in (one, other))
            common += len(left.keys() & right)
            assert {point: left[point] for point in left.keys() & right} == {point: right[point] for point in left.keys() & right}
        for loop in LOOPS:
            for record, clean in zip(records[f"{loop}/{profile}"], records[f"{loop}/clean"], strict=True):
                if not record.faults:
                    compared += 1
                    assert (record.trace_digest, record.answer) == (clean.trace_digest, clean.answer)
    assert common > 100
    assert compared > 100


@pytest.mark.slow
def test_under_unreliable_tools_as_few_failures_are_recovered_as_published(tmp_path: Path) -> None:
    """ToolMaze (arXiv 2606.05806): 38 % of explicit and 18 % of implicit permanent failures."""
    faults = []
    for suite in ("events(size=60)", "ecommerce(size=60)"):
        settings = CompareConfig(loops=("bare",), profiles=("unreliable-tools",), suite=suite, runs=tmp_path, mlflow=False)
        experiment = prepare(settings)
        run(experiment, Unwatched())
        faults += [fault for record in results(experiment.folder).records for fault in record.faults if fault.landed]
    shares = {}
    for implicit in (False, True):
        own = [fault.recovered for fault in faults if fault.implicit is implicit]
        shares[implicit] = sum(own) / len(own)
    assert shares == pytest.approx({False: 0.38, True: 0.18}, abs=0.06)
