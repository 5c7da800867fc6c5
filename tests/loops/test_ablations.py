"""Every ablation listed here can be typed, is another loop than its preset, and solves clean tasks where it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import make_loop
from whichloop.runs.store.trials import read_records

LISTED = """
bare(decision_format=fields)
bare(decision_format=native)
bare(fences=read)
bare(validate_arguments=false)
bare(check_types=true)
bare(max_consecutive_errors=none)
bare(list_tools_in_error=false)
bare(error_type_in_text=false)
bare(instructions=none)
bare(keep_bad_replies=false)
bare(on_provider_error=observe)
finish(forced_finish=off)
finish(forced_finish=tool_choice)
finish(forced_finish=xml)
finish(parse_retries=0)
finish(typed_output=false)
finish(retries_consume_steps=false)
finish(finish_with_tools=ask_again)
finish(list_tools_in_error=true)
finish(parallel_tools=true)
phased(reflect=false)
phased(plan=false)
phased(understand=false)
phased(failed_dependency=skip)
phased(failed_dependency=fail)
phased(tool_layout=agent)
react_extract(extract=false)
react_extract(on_parse_error=observe)
react_extract(on_unknown_tool=finish)
react_extract(overflow_attempts=0)
react_extract(tell_extract=true)
stateless(enable_error_recovery=false)
stateless(response_style=none)
stateless(response_style=detailed)
stateless(validate_output=true)
stateless(told_max_iterations=3)
stateless(finish_with_tools=run_first)
stateless(finish_with_tools=ask_again)
stateless(constrain_names=true)
stateless(history_as=messages)
stateless(execution_mode=parallel)
repeat_guard(loop=bare, stop_at=5)
repeat_guard(loop="finish(parallel_tools=true)")
microcompact(keep=2, loop=finish)
guarded(loop=bare)
guarded(loop=phased, tools=needed)
guarded(loop=finish, results=plain, writes=confirmed)
provider_retry(attempts=2, loop=finish)
""".strip().splitlines()
COSTS = {  # even in clean air
    "bare(instructions=none)": "the model is never told of the tools",
    "microcompact(keep=2, loop=finish)": "what was cleared has to be asked for again",
    "phased(plan=false)": "each round makes only the calls that wait for no other",
}


def test_there_are_ablations_of_every_loop() -> None:
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
