"""Runs and traces to fit a profile to."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from whichloop.datasets import arithmetic
from whichloop.experiments.fit_profile.estimates import RateEstimate
from whichloop.experiments.fit_profile.fit import FittedProfile, fit, to_toml
from whichloop.metrics.trace import Trace
from whichloop.models.profiles import Clears, Profile, load_profile
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import FinishedTrial, TrialContext, run_trial

KNOWN = {
    "wire.malformed": 0.02,
    "wire.truncated": 0.03,
    "wire.fenced": 0.03,
    "wire.empty": 0.02,
    "wire.duplicated": 0.02,
    "decision.unknown_tool": 0.03,
    "decision.missing_argument": 0.03,
    "decision.extra_argument": 0.03,
    "decision.wrong_type": 0.03,
    "decision.repeated_call": 0.04,
    "decision.never_finish": 0.05,
    "decision.no_tool": 0.04,
    "provider.rate_limit": 0.02,
    "provider.timeout": 0.02,
    "provider.dropped": 0.01,
    "tool.raises": 0.04,
    "tool.hangs": 0.03,
    "tool.flaky": 0.03,
}
LOOPS = ("bare", 'bare(decision_format="native")', "react_extract", "finish")


def known(**changes: Any) -> Profile:
    values: dict[str, Any] = {"name": "known", "rates": KNOWN, "clears": Clears(never=0.1)}
    return Profile(**(values | changes))


def run(loops: Sequence[str], profile: Profile, *, size: int, seed: int = 0, repeats: int = 2) -> list[FinishedTrial]:
    """Trials of the first arithmetic tasks; in the order of the schedule."""
    suite = arithmetic.load(size=size)
    setting = TrialContext(suite)
    specs = [parse_spec(loop) for loop in loops]
    arms = [Arm(str(spec), spec, make_loop(spec, suite.max_tool_steps), "scripted", profile) for spec in specs]
    trials = [Trial(arm, task, repeat, seed) for repeat in range(repeats) for task in suite.tasks for arm in arms]

    async def all_of_them() -> list[FinishedTrial]:
        return [await run_trial(trial, setting) for trial in trials]

    return asyncio.run(all_of_them())


@cache
def known_run(loop: str) -> tuple[FinishedTrial, ...]:
    """A run under known rates; the same draws meet each loop."""
    return tuple(run([loop], known(), size=40))


def traces(done: Sequence[FinishedTrial]) -> list[dict[str, Any]]:
    return [json.loads(item.trace) for item in done]


def fit_json(traces: Iterable[Any], **options: Any) -> FittedProfile:
    """Fit to traces as JSON, each with the client's retries beside its events."""
    return fit(((Trace.from_json(data), data.get("retries", {})) for data in traces), **options)


def fitted_to(done: Sequence[FinishedTrial], **options: Any) -> FittedProfile:
    return fit_json(traces(done), timed=False, paired=True, **options)


def holds(found: RateEstimate, rate: float) -> bool:
    return found.interval is not None and found.interval.low - 1e-12 <= rate <= found.interval.high + 1e-12


def ask(reply: str = "", *, move: Any = None, role: str = "decide", **more: Any) -> dict[str, Any]:
    made = {"event": "ask", "role": role, "same": 0, "messages": [{"role": "user", "content": "Q"}], "tokens": [10, 5]}
    if "error" not in more:
        made["reply"] = reply
    return made | ({"move": move} if move else {}) | more


def calling(tool: str = "add", **arguments: Any) -> dict[str, Any]:
    move = {"move": "act", "thought": "", "calls": [{"name": tool, "arguments": arguments}]}
    return ask(json.dumps({"tool": tool, **arguments}), move=move)


def ran(tool: str = "add", error: str = "", data: str = "7", **arguments: Any) -> dict[str, Any]:
    made = {"event": "tool", "tool": tool, "arguments": arguments, "status": "error" if error else "success", "data": data}
    return made | ({"error_type": error} if error else {})


def answer(value: str = "7") -> dict[str, Any]:
    return ask(json.dumps({"final_answer": value}), move={"move": "answer", "thought": "", "value": value})


def refused(kind: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return ask(error={"kind": kind, "message": message}, **more)


def trace(*events: dict[str, Any], task: str = "t1", repeat: int = 0, **more: Any) -> dict[str, Any]:
    return {"arm": "a", "task": task, "repeat": repeat, "events": list(events), **more}


def counts(*made: Mapping[str, Any], **options: Any) -> dict[str, tuple[float, float]]:
    """Kind → struck and points, of the kinds that struck."""
    rates = fit_json(made, **options).rates
    return {kind: (found.count, found.points) for kind, found in rates.items() if found.count}


def read_back(fitted: FittedProfile) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made.toml"
        file.write_text(to_toml(fitted), encoding="utf-8")
        return load_profile(str(file))
