"""What a provider's failures and limits of our own cost is no time of the loop's."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from whichloop.datasets import arithmetic
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


def ran(model: Model, timeout_s: float, recordings: Recordings | None = None) -> tuple[str, str | None, float, float]:
    suite = arithmetic.load(size=1)
    spec = parse_spec("bare")
    arm = Arm("bare", spec, make_loop(spec), "openai/busy", load_profile("clean"))
    setting = TrialContext(suite, TrialModels({"openai/busy": model}, recordings), timeout_s)
    record = asyncio.run(run_trial(Trial(arm, suite.tasks[0], 0, 0), setting)).record
    return record.status, record.stop, record.seconds, record.wall_s


def test_a_trial_is_not_timed_out_by_refusals_that_passed() -> None:
    model = RealModel(busy(3), RealOptions(attempts=5))
    status, stop, seconds, wall_s = ran(model, timeout_s=2 * PAUSE_S)
    assert (status, stop) == ("scored", "finished")
    assert wall_s >= 3 * PAUSE_S
    assert seconds <= wall_s - 3 * PAUSE_S


def test_a_trial_is_not_timed_out_while_it_waits_for_its_turn() -> None:
    async def both() -> list[tuple[str, str | None]]:
        suite = arithmetic.load(size=2)
        spec = parse_spec("bare")
        arm = Arm("bare", spec, make_loop(spec), "openai/busy", load_profile("clean"))
        setting = TrialContext(suite, TrialModels({"openai/busy": model}), 2 * PAUSE_S)
        done = await asyncio.gather(*(run_trial(Trial(arm, task, 0, 0), setting) for task in suite.tasks))
        return [(item.record.status, item.record.stop) for item in done]

    async def slowly(request: Request) -> Answer:
        await asyncio.sleep(1.5 * PAUSE_S)
        return Answer("", "42")

    model = RealModel(fake(slowly), RealOptions(most_in_flight=1))
    assert asyncio.run(both()) == [("scored", "finished")] * 2


def test_silence_still_ends_a_trial_as_errored() -> None:
    async def silence(request: Request) -> Answer:
        await asyncio.sleep(60)
        raise AssertionError("the trial has ended before")

    status, stop, _, wall_s = ran(RealModel(fake(silence)), timeout_s=2 * PAUSE_S)
    assert (status, stop) == ("errored", "timeout")
    assert wall_s < 30


def test_a_trial_that_waits_without_end_ends_as_errored() -> None:
    model = RealModel(busy(100), RealOptions(attempts=100))
    status, stop, _, wall_s = ran(model, timeout_s=0.01)
    assert (status, stop) == ("errored", "timeout")
    assert wall_s >= MAX_LOST * 0.01


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
    status, _, seconds, _ = ran(busy(), 60, Recordings(tmp_path, "replay"))
    assert status == "scored"
    assert seconds < 3 * PAUSE_S


def test_a_trial_that_met_a_providers_failure_is_never_scored_0() -> None:
    """Though later replies came, and the loop ended by a limit of its own."""
    count = itertools.count(1)

    def answer(request: Request) -> Reply | ProviderError:
        """Fail every other request for good, and never answer the question."""
        return ProviderError("500", "server", status=500) if next(count) % 2 else Reply("what?")

    model = RealModel(fake(answer), RealOptions(attempts=1))
    suite = arithmetic.load(size=1)
    spec = parse_spec("bare(on_provider_error=observe, max_consecutive_errors=none)")
    arm = Arm("bare", spec, make_loop(spec, 3), "openai/busy", load_profile("clean"))
    record = asyncio.run(
        run_trial(Trial(arm, suite.tasks[0], 0, 0), TrialContext(suite, TrialModels({"openai/busy": model}), 5))
    ).record
    assert (record.status, record.stop) == ("errored", "max_steps")
    assert record.reason.startswith("provider: ")
