"""What a run is called where nobody named it: what was compared, the most accurate loop first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.reports.html.page import MAX_LOOPS, compared
from whichloop.runs.manifest import ArmEntry, Manifest


def made(record, accuracies: dict[str, float], profiles=("p",), model: str = "scripted") -> Results:
    """A run whose loops have these accuracies on ten tasks."""
    infos = [ArmInfo(f"{loop}/{profile}", loop, {}, model, profile, "s") for profile in profiles for loop in accuracies]
    records = [
        record(arm=info.arm, task=f"t{task}", scores={"accuracy": float(task < 10 * accuracies[info.loop])})
        for info in infos
        for task in range(10)
    ]
    arms = [ArmEntry(arm=info.arm, loop=info.loop, options={}, model=model, profile=info.profile) for info in infos]
    config = {"repeats": 1, "alpha": 0.05, "margin": 0.02}
    manifest = Manifest.model_validate(
        {
            "created": "now",
            "config": config,
            "seed": 0,
            "versions": {},
            "suite": {"name": "s", "version": "1", "digest": "d", "tasks": 10},
            "profiles": {},
            "arms": [arm.model_dump() for arm in arms],
            "packages": {},
            "python": "",
            "platform": "",
        }
    )
    return Results(None, manifest, tuple(records), compare(records, infos))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("accuracies", "profiles", "said"),
    [
        ({"a": 0.5, "b": 0.9, "c": 0.7}, ("p", "q"), "b vs c, a · s · p, q"),
        ({"a": 0.5}, ("p",), "a · s · p"),
    ],
)
def test_the_most_accurate_loop_comes_first(record, accuracies, profiles, said):
    assert compared(made(record, accuracies, profiles)) == said


def test_of_many_loops_the_title_says_how_many(record):
    loops = {f"l{number:02}": 1 - number / 20 for number in range(12)}
    said = compared(made(record, loops))
    shown = MAX_LOOPS - 1
    assert said == f"l00 vs {', '.join(list(loops)[1 : shown + 1])} and {11 - shown} others · s · p"


def test_a_real_model_is_named_once_and_has_no_faults(record):
    found = made(record, {"a": 0.5, "b": 0.9}, ("clean",), "openai/gpt-4o")
    arms = [replace(arm, info=replace(arm.info, arm=f"{arm.info.loop}/openai/gpt-4o")) for arm in found.comparison.arms]
    found = replace(found, comparison=replace(found.comparison, arms=tuple(arms), pairs=()))
    assert compared(found) == "b vs a · s · openai/gpt-4o"
