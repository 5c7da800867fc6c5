"""A loop of ours with everything recorded: schedule, metering, traces, journal on disk.

python benchmarks/ours.py LOOP TRIALS LATENCY_MS IN_FLIGHT

TRIALS must be a multiple of REPEATS. As LOOP, `reader` is `bare` before the model that the others have: no plan, no receipts.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from measure import measured, typed
from questions import next_call

from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.metrics.record import Record
from whichloop.protocol import Capabilities, Chunk, Reply, Request, Usage
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.trial_models import TrialModels

REPEATS = 4
"""Of each task, as a run has them that is to show anything: its plan is replayed once, for what the scripted model goes by."""


class Counting(Unwatched):
    """Right answers and model calls."""

    def __init__(self) -> None:
        self.right = 0
        self.calls = 0

    def finished(self, record: Record) -> None:
        self.right += record.accuracy == 1
        self.calls += record.lm_calls


def counted(experiment: Experiment) -> tuple[int, int]:
    counts = Counting()
    run(experiment, counts)
    return counts.right, counts.calls


_RESULT = re.compile(r'"data": "(\d+)"')


class Reader:
    """Reads the sums and the tools' results off the messages."""

    name = "reader"
    capabilities = Capabilities()

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s

    async def complete(self, request: Request) -> Reply:
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        shown = "\n".join([message.content for message in request.messages])
        results = [int(data) for data in _RESULT.findall(shown)]
        call = next_call(shown, results)
        move = {"final_answer": str(results[-1])} if call is None else {"tool_name": call[0], "arguments": call[1]}
        return Reply(json.dumps(move), usage=Usage(100, 10))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def asking(model: Reader, experiment: Experiment) -> Experiment:
    """The same experiment with a model of one's own, which is no scripted one: its requests are metered as a provider's are."""
    arms = tuple(replace(arm, model=model.name) for arm in experiment.arms)
    return replace(experiment, arms=arms, trial_models=TrialModels(real={model.name: model}))


if __name__ == "__main__":
    name = sys.argv[1]
    n, latency_ms, flights = typed()
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "slow.toml"
        profile.write_text(f'name = "slow"\nlatency_s = {latency_ms / 1000}\n')
        is_reader = name == "reader"
        ready = prepare(
            CompareConfig(
                loops=("bare" if is_reader else name,),
                suite=f"sums:load(size={n // REPEATS})",
                repeats=REPEATS,
                profiles=("clean" if is_reader else str(profile),),
                concurrency=flights,
                real_time=not is_reader,
                mlflow=False,
                runs=Path(folder) / "runs",
            )
        )
        ready = asking(Reader(latency_ms / 1000), ready) if is_reader else ready
        measured(n, latency_ms, flights, lambda: counted(ready))
