"""Fault profiles: the built-in ones do what they say, and a file of the user's own is checked in words that help."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
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
MET = (
    *("bad-network", "clean", "crossed-calls", "flaky-format", "flaky-tools", "forgetful", "injected", "provider-trouble"),
    *("teachable-flaky", "unreliable-tools"),
)
"""Those that have trials here: each family of faults, forgetting, and weaknesses beside faults."""


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
        ('[rates]\n"wire.emptee" = 0.1', "rates: .*wire.emptee"),
        ('[rates]\n"wire.empty" = nan', "rates.wire.empty: "),
        ('[rates]\n"wire.empty" = 0.6\n"wire.fenced" = 0.6', "rates: .*1.2"),
        ('[sources]\n"wire.empty" = "a guess"', "profile: sources: .*wire.empty"),
        ("[clears]\nfailed = 0.95", "clears: .*must not fall"),
        *((f'[rates]\n"{kind}" = 0.1', "rates: .*weaknesses") for kind in WEAKNESS_KINDS),
        ('[[weaknesses]]\nkind = "units"\nrate = 1', "weaknesses.0.kind: "),
    ],
)
def test_a_mistake_is_told_in_one_line_with_file_and_field(tmp_path: Path, text: str, where: str) -> None:
    name = written(tmp_path, f'name = "a"\n{text}')
    with pytest.raises(ValueError, match=f"^{re.escape(name)}: {where}.*$"):
        load_profile(name)


@pytest.mark.parametrize("built_in", ["clean", "flaky-tools", "teachable"])
def test_a_file_takes_no_name_of_a_built_in_profile_unless_it_says_the_same(tmp_path: Path, built_in: str) -> None:
    name = written(tmp_path, f'name = "{built_in}"\nlatency_s = 12.5')
    with pytest.raises(ValueError, match=rf"mine\.toml: name: '{built_in}'.*$"):
        load_profile(name)
    own = Path(str(resources.files("whichloop.models") / "profiles" / f"{built_in}.toml")).read_text(encoding="utf-8")
    assert load_profile(written(tmp_path, own)) == load_profile(built_in)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", MET)
def test_what_is_scheduled_lands_and_is_counted_once(profile: str) -> None:
    """At least 95 % of a profile's faults reach the loop, in every arm; no trial is errored or excluded."""
    suite = make_suite(parse_spec("arithmetic"))
    arms = make_arms(CompareConfig(loops=("bare",), profiles=(profile,)), suite)
    trials = [run_sync(run_trial(trial, TrialContext(suite))).record for trial in schedule(arms, suite.tasks[:12], 1, 0)]
    counts = count_faults(trials)
    assert {record.status for record in trials} == {"scored"}
    assert (counts.scheduled > 0) == (profile != "clean")
    assert not counts.short
    for fault in (fault for record in trials for fault in record.faults):
        assert fault.landed or not (fault.absorbed or fault.recovered)
        assert fault.family == "wire" or not fault.absorbed


@pytest.mark.slow
def test_under_unreliable_tools_as_few_failures_are_recovered_as_published(tmp_path: Path) -> None:
    """ToolMaze (arXiv 2606.05806): 38 % of explicit and 18 % of implicit permanent failures."""
    faults = []
    for suite in ("events(size=400)", "ecommerce(size=400)"):
        settings = CompareConfig(loops=("bare",), profiles=("unreliable-tools",), suite=suite, runs=tmp_path, mlflow=False)
        experiment = prepare(settings)
        run(experiment, Unwatched())
        faults += [fault for record in results(experiment.folder).records for fault in record.faults if fault.landed]
    shares = {}
    for implicit in (False, True):
        own = [fault.recovered for fault in faults if fault.implicit is implicit]
        shares[implicit] = sum(own) / len(own)
    assert shares == pytest.approx({False: 0.38, True: 0.18}, abs=0.08)  # of 290 and 248 faults: 3 standard errors
