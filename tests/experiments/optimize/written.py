"""The run directory of an optimization, written by hand: what its search and its test would have left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.sealing import reseal
from whichloop.experiments.optimize.candidates import (
    ENDED,
    PROGRAM,
    ROLLOUTS,
    Candidate,
    JsonLinesLog,
    SearchCost,
    SearchEnd,
    log_digest,
    plain,
)
from whichloop.experiments.optimize.config import AGAIN
from whichloop.metrics.record import Record
from whichloop.protocol import Program, Prompt, program_digest
from whichloop.runs.store.files import read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import TrialWriter

OWN = program_digest({"decide": Prompt("Own.", {}, {})})
TASKS = 60


@dataclass(frozen=True)
class Written:
    """A design as it is written down."""

    design: str
    before: int
    """Test tasks solved of 60."""
    after: int
    instructions: str = "Better."
    status: str = "finished"
    changes: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[tuple[str, float], ...] = ()
    """Dev tasks that one more program had run when the search ended, and its scores."""

    @property
    def digest(self) -> str:
        return program_digest(program_of(self.instructions))

    @property
    def ended(self) -> SearchEnd:
        more: dict[str, Any] = {
            "search": SearchCost(20, 60, 6_000),
            "proposals": SearchCost(0, 5, 500),
            "evaluation": SearchCost(2, 6, 600),
        }
        more |= {"before": {"d1": 0.0, "d2": 0.0}, "after": {"d1": 1.0, "d2": 0.0}}
        ended: dict[str, Any] = {"design": self.design, "status": "finished", "reason": "", "digest": self.digest, "chosen": 3}
        found = SearchEnd(**ended, candidates=(), **more)
        found = replace(found, **self.changes)
        return replace(found, candidates=tuple(candidates_of(self, found)))


LEFT = "Own.\nAnd <b>better</b> still."
"""The instructions of a program that the budget kept from being scored on all dev tasks."""
A, B = Written("bare", 20, 50), Written("finish", 30, 32)
Write = Callable[..., Path]


def manifest(designs: tuple[Written, ...]) -> dict[str, Any]:
    budget = {"calls": 100, "tokens": None, "dollars": None, "seconds": None}
    listed = [
        {"design": item.design, "folder": f"designs/{place}-{item.design}", "loop": item.design, "options": {}, "program": OWN}
        for place, item in enumerate(designs, 1)
    ]
    splits: dict[str, Any] = {name: {"tasks": n, "digest": name} for name, n in (("train", 4), ("dev", 2))}
    made = {"kind": "optimization", "created": "2025-01-01T00:00:00+00:00", "seed": 0, "versions": {"record": 1}}
    made |= {"config": {"compare": {"repeats": 1}, "search": {"budget": budget}}, "profiles": {"clean": "p"}, "designs": listed}
    made |= {"suite": {"name": "s", "version": "1", "digest": "d", "tasks": 66, "max_tool_steps": 3}}
    made |= {"optimizer": {"name": "COPRO", "options": {}, "spec": "COPRO"}, "packages": {}, "python": "3.11", "platform": "Linux"}
    return made | {"splits": splits | {"test": {"tasks": TASKS, "digest": "t", "opened": None}}}


def program_of(instructions: str) -> Program:
    return {"decide": Prompt(instructions, {}, {})}


def candidates_of(design: Written, end: SearchEnd) -> list[Candidate]:
    """The programs that a design tried: its own, the kept one, and what was left unfinished."""
    own, kept = ("Own.", end.before), (design.instructions, end.after)
    tried = {0: own, end.chosen: kept} | ({4: (LEFT, dict(design.left))} if design.left else {})
    return [_candidate(number, program_of(text), dev) for number, (text, dev) in tried.items()]


def _candidate(number: int, program: Program, dev: Mapping[str, float]) -> Candidate:
    return Candidate(number, program_digest(program), program, {"r1": 1.0}, dev)


def rollout(program: str, task: str, *, beyond: bool = False) -> dict[str, Any]:
    spent = plain(SearchCost(1, 3, 300))
    return {"key": [program, task, 0, None], "record": {}, "calls": [], "feedback": "", "spent": spent, "beyond": beyond}


def write_design(folder: Path, design: Written) -> None:
    folder.mkdir(parents=True)
    log = JsonLinesLog(folder / ROLLOUTS)
    for task in ("d1", "d2"):
        log.append(rollout(OWN, task))
    for task, _ in design.left:
        log.append(rollout(program_digest(program_of(LEFT)), task))
    log.append(rollout(OWN, "d1", beyond=True))
    log.close()
    program = {"decide": {"signature": {"instructions": design.instructions}, "demos": []}, "whichloop": {"loop": design.design}}
    (folder / PROGRAM).write_text(json.dumps(program), encoding="utf-8")
    reseal(folder / PROGRAM)
    (folder / ENDED).write_text(json.dumps(plain(design.ended)), encoding="utf-8")
    reseal(folder / ENDED)


def record(arm: str, task: int, solved: int, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "repeat": 0, "seed": 0, "status": "scored", "stop": "finished"}
    values |= {"calls": {"decide": 2}, "input_tokens": 190, "output_tokens": 10, "started_at": 1.0}
    return Record(arm=arm, task=f"t{task}", scores={"accuracy": float(task < solved)}, **(values | changes))


def write_test(
    folder: Path,
    designs: tuple[Written, ...],
    tasks: int = TASKS,
    margin: float = 0.02,
    after_tokens: int = 190,
    spread: int = 0,
    **changes: Any,
) -> None:
    """Write the test of these designs, old and new prompts, or as `again` the old ones alone, with one task less solved.

    `after_tokens`: of a task's input with new prompts, on average; `spread`: by how many each task has more or less.
    """
    is_again = folder.name == AGAIN
    folder.mkdir()
    arms = [(f"{item.design}/clean", item, item.before - is_again) for item in designs]
    arms += [] if is_again else [(f"{item.design}@{PROGRAM}/clean", item, item.after) for item in designs]
    listed = [
        {"arm": name, "loop": item.design, "options": {}, "model": "scripted", "profile": "clean"}
        | ({"program": item.digest} if PROGRAM in name else {})
        for name, item, _ in arms
    ]
    settings = {"repeats": 1, "alpha": 0.05, "margin": margin}
    comparison = manifest(designs) | {"seed": int(is_again), "config": settings, "arms": listed}
    comparison |= {"suite": {"name": "s", "version": "1", "digest": "d", "tasks": TASKS}}
    write_manifest_json(folder, {name: value for name, value in comparison.items() if name != "kind"})
    with TrialWriter(folder) as journal:
        for task in range(tasks):
            for name, _, solved in arms:
                tokens = after_tokens + (spread if task % 2 else -spread) if PROGRAM in name else 190
                journal.append(record(name, task, solved, input_tokens=tokens, **changes), b"")


def opened(folder: Path, designs: tuple[Written, ...]) -> None:
    made = read_manifest_json(folder)
    made["splits"]["test"]["opened"] = {
        "at": "2025-01-01T01:00:00+00:00",
        "programs": {item.design: item.digest for item in designs},
        "rollouts": {item["design"]: log_digest(folder / item["folder"] / ROLLOUTS) for item in made["designs"]},
    }
    write_manifest_json(folder, made)
