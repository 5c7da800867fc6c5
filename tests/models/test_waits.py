"""What a provider's failures and limits of our own cost is no time of the loop's."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from whichloop.datasets import arithmetic
from whichloop.datasets.task import Task
from whichloop.models.fake import FakeItem, FakeModel
from whichloop.models.metering import Waits
from whichloop.models.profiles import load_profile
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.recording import Recordings
from whichloop.protocol import Answer, Capabilities, Model, ProviderError, Reply, Request
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import MAX_LOST, TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

PAUSE_S = 0.05
SUITE = arithmetic.load(size=2)


def fake(answer: FakeItem) -> FakeModel:
    return FakeModel(then=answer, name="openai/busy", capabilities=Capabilities(streaming=False))


def busy(refusals: int = 0) -> FakeModel:
    """A model that refuses each request this many times, asking for a pause, and then answers."""
    count = itertools.count(1)

    def answer(request: Request) -> Answer | ProviderError:
        if next(count) % (refusals + 1):
            return ProviderError("429", "rate_limit", status=429, retry_after_s=PAUSE_S)
        return Answer("", "42")

    return fake(answer)


def trial(loop: Any, task: Task, model: Model, timeout_s: float, recordings: Recordings | None = None) -> Any:
    spec = parse_spec(loop)
    arm = Arm("bare", spec, make_loop(spec, 3), "openai/busy", load_profile("clean"))
    setting = TrialContext(SUITE, TrialModels({"openai/busy": model}, recordings), timeout_s)
    return run_trial(Trial(arm, task, 0, 0), setting)


def ran(model: Model, timeout_s: float, recordings: Recordings | None = None, loop: str = "bare") -> Any:
    return asyncio.run(trial(loop, SUITE.tasks[0], model, timeout_s, recordings)).record


def test_a_trial_is_not_timed_out_by_refusals_that_passed() -> None:
    record = ran(RealModel(busy(3), RealOptions(attempts=5)), timeout_s=2 * PAUSE_S)
    assert (record.status, record.stop) == ("scored", "finished")
    assert record.wall_s >= 3 * PAUSE_S
    assert record.seconds <= record.wall_s - 3 * PAUSE_S


def test_a_trial_is_not_timed_out_while_it_waits_for_its_turn() -> None:
    async def slowly(request: Request) -> Answer:
        await asyncio.sleep(1.5 * PAUSE_S)
        return Answer("", "42")

    async def both() -> list[Any]:
        model = RealModel(fake(slowly), RealOptions(most_in_flight=1))
        return await asyncio.gather(*(trial("bare", task, model, 2 * PAUSE_S) for task in SUITE.tasks))

    assert [(done.record.status, done.record.stop) for done in asyncio.run(both())] == [("scored", "finished")] * 2


def test_silence_and_waiting_without_end_end_a_trial_as_errored() -> None:
    async def silence(request: Request) -> Answer:
        await asyncio.sleep(60)
        raise AssertionError("the trial has ended before")

    silent, waits = ran(RealModel(fake(silence)), 2 * PAUSE_S), ran(RealModel(busy(100), RealOptions(attempts=100)), 0.01)
    assert [(record.status, record.stop) for record in (silent, waits)] == [("errored", "timeout")] * 2
    assert silent.wall_s < 30
    assert waits.wall_s >= MAX_LOST * 0.01


def test_what_is_lost_at_the_same_time_counts_once() -> None:
    async def lost() -> float:
        waits = Waits()
        waits.lost(5)
        waits.lost(7)
        with waits.counted():
            waits.lost(6)
        return waits.seconds

    assert 7 <= asyncio.run(lost()) < 8


def test_a_recorded_latency_is_that_of_the_reply_alone(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, "record")
    ran(RealModel(busy(3), RealOptions(attempts=5)), 60, recordings)
    recordings.close(True)
    record = ran(busy(), 60, Recordings(tmp_path, "replay"))
    assert record.status == "scored"
    assert record.seconds < 3 * PAUSE_S


def test_a_trial_that_met_a_providers_failure_is_never_scored_0() -> None:
    """Though later replies came, and the loop ended by a limit of its own."""
    count = itertools.count(1)

    def answer(request: Request) -> Reply | ProviderError:
        """Fail every other request for good, and never answer the question."""
        return ProviderError("500", "server", status=500) if next(count) % 2 else Reply("what?")

    loop = "bare(on_provider_error=observe, max_consecutive_errors=none)"
    record = ran(RealModel(fake(answer), RealOptions(attempts=1)), 5, loop=loop)
    assert (record.status, record.stop) == ("errored", "max_steps")
    assert record.reason.startswith("provider: ")
