"""Prompts as registered texts, and the board that says which candidate is the best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.entities.model_registry import PromptVersion

from tests.reports.mlflow.optimization.helpers import (
    DESIGNS,
    TASKS,
    Made,
    candidate_of,
    client_of,
    end_of,
    models_of,
    own_program,
    tell,
    tracker_of,
    trial,
)
from whichloop.experiments.optimize.candidates import Candidate, SearchCost
from whichloop.experiments.optimize.manifest import (
    DesignEntry,
    OptimizationManifest,
    OptimizerEntry,
    SearchedSuite,
    SplitEntry,
)
from whichloop.protocol import Prompt, program_digest
from whichloop.reports.mlflow.artifacts import as_template, prompt_name, prompt_text
from whichloop.reports.mlflow.board import SearchBoard

IN_ONE_FORK = "the optimization that is logged once"

# MLflow's own, at its first store
pytestmark = pytest.mark.thorough


@given(st.text(st.sampled_from("{}%#-\"'\\\r\nax_ +")) | st.text())
def test_a_registered_text_is_no_template_and_formats_to_itself(text: str) -> None:
    version = PromptVersion("name", 1, as_template(text))
    assert version.variables == set()
    assert version.format() == text


@given(st.text(max_size=100), st.text(max_size=100))
def test_every_design_and_predictor_has_a_prompt_name_of_its_own(one: str, other: str) -> None:
    names = {prompt_name(design, predictor) for design in (one, other) for predictor in (one, other)}
    assert len(names) == (1 if one == other else 4)
    for name in names:
        assert all(char.isascii() and (char.isalnum() or char in "_.-") for char in name)


def test_a_prompt_s_text_shows_instructions_and_demonstrations() -> None:
    text = prompt_text(Prompt("Do.", {"query": str}, {"reply": str}, ({"query": "1?", "reply": {"a": [1]}},)))
    assert text == 'Do.\n\nExample 1:\n\n```text\nquery: 1?\nreply: {"a": [1]}\n```'
    assert prompt_name("react_extract", "react") == "whichloop.react_extract.react"


# --- what the board says ---

STEPS = st.lists(st.tuples(st.integers(0, 8), st.sampled_from(TASKS), st.sampled_from([0.0, 0.5, 1.0])), max_size=40)
PROGRAM_OF_ONE = {"p": Prompt("", {}, {"reply": str})}
ONE_DESIGN = OptimizationManifest(
    config={"compare": {"repeats": 1}, "search": {"budget": {}, "amortize": 1}},
    seed=0,
    versions={},
    suite=SearchedSuite(name="s", version="1", digest="d"),
    profiles={},
    optimizer=OptimizerEntry(spec="GEPA", name="GEPA", options={}),
    designs=(DesignEntry(design="x", folder="x", loop="x", options={}, program=""),),
    splits={"train": SplitEntry(tasks=5, digest="a"), "dev": SplitEntry(tasks=len(TASKS), digest="b")},
    packages={},
    python="3.11",
    platform="Linux",
)


@given(STEPS)
@settings(max_examples=200)
def test_the_best_is_the_first_of_the_highest_scored_on_all_dev_tasks(steps: list[tuple[int, str, float]]) -> None:
    made = SearchBoard(Path(), ONE_DESIGN)
    dev: dict[int, dict[str, float]] = {}
    order: list[int] = []
    ever: set[int] = set()
    for calls, (number, task, score) in enumerate(steps, 1):
        if number not in dev:
            order.append(number)
        dev.setdefault(number, {})[task] = score
        made.rolled_out(
            "x", Candidate(number, str(number), PROGRAM_OF_ONE, {}, dict(dev[number])), trial(task, score), SearchCost(1, calls)
        )
        found = made.designs["x"]
        means = {number: sum(scores.values()) / 3 for number, scores in dev.items() if len(scores) == 3}
        expected = min(means, key=lambda number: (-means[number], number), default=None)
        assert found.best == expected
        if expected is not None:
            ever.add(expected)
            assert found.bests[max(found.bests)] == means[expected]
    assert list(made.designs["x"].rows) == order


def test_a_prompt_too_long_for_the_registry_is_left_out_and_named(made: Made) -> None:
    design = DESIGNS[1]
    (name,) = own_program(design)
    program = {name: replace(own_program(design)[name], instructions="x" * 100_001)}
    kept = Candidate(1, program_digest(program), program)
    ended = replace(end_of(design)[0], chosen=1, digest=kept.digest)
    with tracker_of(made, "long") as tracker:
        tell(tracker, [("began", (design, candidate_of(design, 0))), ("ended", (design, ended, kept))])
        tracker.flush()
    client = client_of(made)
    (run,) = client.search_runs([client.get_experiment_by_name("long").experiment_id], "tags.`whichloop.kind` = 'design'")
    assert run.data.tags["whichloop.not_registered"] == f"too long for MLflow's prompt registry: {name}"
    assert models_of(client, run).keys() == {"own", "optimized"}
