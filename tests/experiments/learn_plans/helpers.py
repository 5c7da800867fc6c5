"""Runs to learn from, and tools that give all kinds of things."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.datasets.validity import replay
from whichloop.experiments.compare.run import Experiment, run
from whichloop.experiments.learn_plans.learn import LearnedSuite, learn_suite
from whichloop.experiments.learn_plans.plan_from_trace import leaves
from whichloop.metrics.record import Record
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool
from whichloop.protocol.json_text import canonical_json, sha256
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import write_manifest
from whichloop.runs.new_manifest import manifest_of
from whichloop.runs.schedule import make_arms
from whichloop.runs.store.trials import each_record

DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")


def ran(folder: Path, suite: Suite, loops: Sequence[str] = ("bare",), **config: Any) -> Path:
    """The folder of a run of loops on a suite that has no name on the command line."""
    values: dict[str, Any] = {"mlflow": False, "concurrency": 8} | config
    made = CompareConfig(loops=tuple(loops), **values)
    run_folder = folder / f"run-{len(list(folder.iterdir()))}"
    run_folder.mkdir()
    arms = make_arms(made, suite)
    manifest = manifest_of(made, suite, suite.tasks, arms)
    write_manifest(run_folder, manifest)
    experiment = Experiment(run_folder, made, suite, tuple(suite.tasks), arms, manifest)
    assert run(experiment, Unwatched()) == ""
    return run_folder


def learned(folder: Path, suite: Suite, **how: Any) -> LearnedSuite:
    return learn_suite(folder, CompareConfig(), suite, **how)


def replanned(suite: Suite, found: LearnedSuite) -> Suite:
    return Suite(suite.name, suite.version, found.tasks, suite.open)


# --- tools that give all kinds of things, each a function of its arguments ---


def _token(*parts: object) -> str:
    return f"id-{sha256(repr(parts))[:10]}"


def record(key: str) -> dict[str, Any]:
    """A record with what belongs to it."""
    return {"key": key, "owner": {"id": _token("owner", key)}, "parts": [_token("part", key, n) for n in range(3)], "open": True}


def count(key: str, other: str = "") -> int:
    """How many there are, a number of six digits or more."""
    return 100_000 + int(sha256(f"{key}/{other}")[:8], 16)


def label(key: str, number: float = 0) -> str:
    """A label."""
    return _token("label", key, float(number))


def sheet(key: str):
    """A sheet, as a text that is JSON and does not say so."""
    return json.dumps({"sheet": _token("sheet", key), "total": count(key, "sheet")})


@dataclass
class Card:
    """What a tool gives that is no JSON."""

    code: str
    number: int


def card(key: str) -> Card:
    """A card, an object."""
    return Card(_token("card", key), count(key, "card"))


HONEST = (record, count, label, card)
"""Tools whose return types say what they give."""
FUNCTIONS = {function.__name__: function for function in (*HONEST, sheet)}
TOOLS = tuple(Tool.from_function(function, blocking=False) for function in FUNCTIONS.values())
SHOWN: Mapping[str, Any] = {"sheet": json.loads, "card": dataclasses.asdict}


@st.composite
def plans(draw: st.DrawFn, names: Sequence[str]) -> tuple[Plan, Any]:
    """A plan whose arguments are values of earlier results, and its answer: what a model that reads them would do."""
    calls: list[PlannedCall] = []
    known: list[tuple[Any, Any]] = []
    made: set[str] = set()
    for number in range(draw(st.integers(1, 6))):
        tool = draw(st.sampled_from(names))
        given: dict[str, Any] = {}
        real: dict[str, Any] = {}
        wanted = {"record": (str,), "count": (str, str), "label": (str, float), "sheet": (str,), "card": (str,)}[tool]
        for name, kind in zip(("key", "number" if tool == "label" else "other"), wanted, strict=False):
            fitting = [item for item in known if isinstance(item[1], str if kind is str else int)]
            if fitting and draw(st.sampled_from((True, False))):
                given[name], real[name] = draw(st.sampled_from(fitting))
            else:
                literal = draw(st.sampled_from(["red", "green", "blue"])) if kind is str else draw(st.integers(0, 99))
                given[name] = real[name] = literal
        key = canonical_json([tool, real])
        if key in made:
            continue
        made.add(key)
        calls.append(PlannedCall(f"c{number}", tool, given, f"Goal {number} of this."))
        raw = FUNCTIONS[tool](**real)
        is_walked = isinstance(raw, dict | list)
        for path, leaf in leaves(SHOWN[tool](raw) if tool in SHOWN else raw):
            if not isinstance(leaf, bool):
                known.append((Ref(f"c{number}", path) if is_walked or not path else leaf, leaf))
    answer, expected = draw(st.sampled_from(known))
    return Plan(tuple(calls), answer), expected


def suite_of(planned: Sequence[tuple[Plan, Any]]) -> Suite:
    tasks = tuple(
        Task(f"t{number}", Query(f"Question {number}: which one of red, green and blue?"), expected, "exact", plan)
        for number, (plan, expected) in enumerate(planned)
    )
    return Suite("made up", "1", tasks, lambda _: StatelessEnvironment(TOOLS))


def without_plans(suite: Suite) -> Suite:
    return replace(suite, tasks=tuple(replace(task, plan=None, no_plan="nobody wrote one") for task in suite.tasks))


def calls_of(task: Task, suite: Suite) -> set[str]:
    return {canonical_json([call.tool, dict(call.arguments)]) for call in asyncio.run(replay(task, suite))}


slow = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HONEST_NAMES = [function.__name__ for function in HONEST]


def read(folder: Path) -> list[Record]:
    return list(each_record(folder))
