"""`bare` with everything recorded, as in ours.py, before the model that the other programs have: no plan, no receipts, no faults.

python benchmarks/reading.py TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from measure import measured, typed
from ours import REPEATS, counted
from questions import next_call

from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.protocol import Capabilities, Chunk, Reply, Request, Usage
from whichloop.runs.config import CompareConfig
from whichloop.runs.trial_models import TrialModels

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
    n, latency_ms, flights = typed()
    with tempfile.TemporaryDirectory() as folder:
        config = CompareConfig(
            loops=("bare",),
            suite=f"sums:load(size={n // REPEATS})",
            repeats=REPEATS,
            concurrency=flights,
            mlflow=False,
            runs=Path(folder) / "runs",
        )
        ready = asking(Reader(latency_ms / 1000), prepare(config))
        measured(n, latency_ms, flights, lambda: counted(ready))
