"""Every ablation that the guide lists can be typed, is another loop than its preset, and solves clean tasks where it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import make_loop
from whichloop.runs.store.trials import read_records

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loops.md"
LISTED = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0].split("\n")[:-1]
COSTS = {  # even in clean air
    "bare(instructions=none)": "the model is never told of the tools",
    "microcompact(keep=2, loop=finish)": "what was cleared has to be asked for again",
    "phased(plan=false)": "each round makes only the calls that wait for no other",
}


def test_the_guide_lists_ablations_of_every_loop() -> None:
    assert len(set(LISTED)) == len(LISTED) > 40
    names = {"bare", "finish", "guarded", "microcompact", "phased", "provider_retry", "react_extract", "repeat_guard", "stateless"}
    assert {parse_spec(text).name for text in LISTED} == names


@pytest.mark.parametrize("text", LISTED)
def test_an_ablation_is_another_loop_than_its_preset(text: str) -> None:
    spec = parse_spec(text)
    changed = make_loop(spec)
    if "loop" not in spec.options:
        assert changed != make_loop(parse_spec(spec.name))
    assert str(spec) == text


@pytest.mark.thorough
def test_in_clean_air_an_ablation_solves_what_its_preset_solves(tmp_path: Path) -> None:
    config = CompareConfig(loops=tuple(LISTED), suite="arithmetic(size=2)", profiles=("clean",), runs=tmp_path, mlflow=False)
    experiment = prepare(config)
    run(experiment, Unwatched())
    scores: dict[str, list[float]] = {}
    for record in read_records(experiment.folder):
        scores.setdefault(record.arm.removesuffix("/clean"), []).append(record.accuracy)
    imperfect = {arm for arm, found in scores.items() if sum(found) < len(found)}
    assert len(scores) == len(LISTED)
    assert imperfect <= COSTS.keys()
    assert "bare(instructions=none)" in imperfect
