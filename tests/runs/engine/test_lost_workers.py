"""What is said of a worker that is lost: how many trials it had under way, and not what happened to them on an earlier one."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.runs.engine.job import SeenLines
from whichloop.runs.engine.pool import Pool
from whichloop.runs.engine.pool_worker import ArmDeaths, Order, PoolWorker


def pool_that_says(said: list[str]) -> Pool:
    """A pool that has just lost its only worker."""
    pool = object.__new__(Pool)
    pool._waiting_orders, pool._alone_orders, pool._workers, pool._reserved = deque(), deque(), [], None
    pool._arm_deaths, pool._stopped, pool._idle_deaths = ArmDeaths(), "", 0
    job: Any = SimpleNamespace(lines=SeenLines({}))
    made: Any = SimpleNamespace(workers=1)
    progress: Any = SimpleNamespace(noted=said.append)
    pool._job, pool._links, pool._progress = job, made, progress
    return pool


async def said_of(share: int, deaths: list[int]) -> str:
    """What is said of a worker that ran so many trials at once, and had orders that so many workers had died of before."""
    trial: Any = SimpleNamespace(arm=SimpleNamespace(name="a"), key=("a", "t", 0))
    link: Any = SimpleNamespace(name="worker 7")
    done = asyncio.get_running_loop().create_future
    orders = {number: Order(number, trial, b"", done(), earlier) for number, earlier in enumerate(deaths)}
    said: list[str] = []
    pool_that_says(said)._replace_lost(PoolWorker(link, share, orders), "killed")
    return said[-1]


@given(share=st.integers(1, 4), deaths=st.lists(st.integers(0, 1), min_size=1, max_size=6))
def test_the_trials_that_the_worker_had_begun_are_counted_and_no_others(share: int, deaths: list[int]) -> None:
    begun = min(share, len(deaths))
    runs = "the trial that it had under way runs again" if begun == 1 else f"{begun} trials that it had under way run again"
    assert asyncio.run(said_of(share, deaths)) == f"worker 7 died (killed); {runs}"


@pytest.mark.parametrize("deaths", [[0, 1, 1]])
def test_a_trial_that_another_worker_died_of_had_not_begun_here(deaths: list[int]) -> None:
    assert asyncio.run(said_of(1, deaths)).endswith("; the trial that it had under way runs again")
