"""Cheats in the tunnel: each breaks a law of `check loop`, and what it gains in a comparison is nothing, or told."""

from __future__ import annotations

import gc
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.checks.loop.altered_loops import Changed
from whichloop.checks.loop import LAWS
from whichloop.checks.shared.law import judged
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops.bare import Bare
from whichloop.models.scripted import Script
from whichloop.protocol import (
    SILENT,
    Loop,
    Message,
    Model,
    Observer,
    Outcome,
    Plan,
    Query,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.plan import resolve
from whichloop.protocol.values import render_value
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

pytestmark = pytest.mark.usefixtures("only_new_memory")

HERE = "tests.checks.loop.test_cheats"
BARE = Bare()
_RECEIPT = re.compile(r"\[(?:r:)?[0-9a-f]{6}\.[0-9a-f]{4}(?::r)?\]")


@dataclass(frozen=True)
class ReceiptsOnly(WrappedLoop):
    """Shows the receipts of results, and nothing of what the tools gave."""

    loop: Loop = BARE

    @property
    def name(self) -> str:
        return "receipts_only"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        def rewritten(request: Request) -> Request:
            return replace(request, messages=tuple(map(_receipts_of, request.messages)))

        return await self.loop.run(query, tools, Changed(model, rewritten), observer)


def _receipts_of(message: Message) -> Message:
    found = _RECEIPT.findall(message.content) if message.role in ("user", "tool") else []
    return replace(message, content=" ".join(found)) if found else message


def with_receipts_again(request: Request, heading: str = "") -> Request:
    """Return a request with the marks of all receipts that it shows, each once, at its end."""
    found = dict.fromkeys(_RECEIPT.findall("\n".join(message.content for message in request.messages)))
    again = Message("user", f"{heading}{' '.join(found)}")
    return replace(request, messages=(*request.messages, again)) if found else request


@dataclass(frozen=True, slots=True)
class FromMemory(WrappedLoop):
    """Finds the plan of its task in the memory of the process and follows it; the model is asked for show, or not at all."""

    loop: Loop = BARE
    asks: bool = False

    @property
    def name(self) -> str:
        return "from_memory"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        plan = plan_of(query)
        if plan is None:
            return await self.loop.run(query, tools, model, observer)
        if self.asks:
            await self.loop.run(query, Toolbox(), model, observer)
        results: dict[str, Any] = {}
        for call in plan.calls:
            seen = await tools.call(ToolCall(call.tool, resolve(call.arguments, results)))
            results[call.id] = _value(_RECEIPT.sub("", seen.data).strip())
        return Outcome(render_value(resolve(plan.answer, results)), StopReason.FINISHED, 0)


def plan_of(query: Query) -> Plan | None:
    """Return the plan of a question that a scripted model in this process follows."""
    return next((it.plan for it in gc.get_objects() if type(it) is Script and it.question == query.text), None)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


HONEST = ("bare", "finish", "phased", "react_extract", "stateless", "microcompact(loop=bare)")


@pytest.mark.parametrize(
    ("cheat", "law", "said"),
    [
        (ReceiptsOnly(), "results", "shows 1 receipts without what the tool gave"),
        (FromMemory(), "own words", "was not asked; a run asks the model"),
        (FromMemory(asks=True), "own words", "the answer is '8', which is right; it comes from the model"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_cheat_breaks_a_law(cheat: Loop, law: str, said: str) -> None:
    check = next(item for item in LAWS if item.name == law)
    found = run_sync(judged(check, cheat, "loop"))
    assert (found.status, said in found.detail) == ("failed", True)
    assert run_sync(judged(check, BARE, "loop")).status == "ok"


def compared(runs: Path, loops: tuple[str, ...], profiles: tuple[str, ...] = ("clean",), tasks: int = 20) -> dict[str, Any]:
    """What a comparison on `events` says of each of these loops, and of none beside another."""
    experiment = prepare(CompareConfig(suite="events", loops=loops, profiles=profiles, tasks=tasks, runs=runs, mlflow=False))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder, paired=False).comparison.to_json()


def test_receipts_without_their_values_are_worth_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, ("bare", f"{HERE}:ReceiptsOnly"), tasks=12)
    honest, cheat = (arm["accuracy"]["value"] for arm in found["arms"])
    assert honest == 1
    assert cheat < 0.2  # tasks without an answer, and those whose results nobody uses


def test_what_is_right_though_no_prompt_showed_it_is_told(tmp_path: Path) -> None:
    """And honest loops are not told."""
    found = compared(tmp_path, (*HONEST, f"{HERE}:FromMemory", f"{HERE}:FromMemory(asks=true)"), ("forgetful",), tasks=4)
    assert not any(arm["right_unseen"] for arm in found["arms"] if HERE not in arm["loop"])
    told = [warning["arms"] for warning in found["warnings"] if warning["code"] == "right though never shown"]
    assert len(told) == 2
    assert all("FromMemory" in arm for (arm,) in told)
