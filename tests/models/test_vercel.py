"""Vercel's AI SDK, its three providers over four wires: whole trials, single replies and failures. `make test-node` installs it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from whichloop.datasets import arithmetic
from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import load_profile
from whichloop.models.server import Server

HERE = Path(__file__).parent / "vercel"
NODE = shutil.which("node")
WIRES = ("chat", "responses", "messages", "gemini")
RUNS = [f"{wire}, {mode}" for wire in WIRES for mode in ("generate", "stream")]

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(not (HERE / "node_modules" / "ai").is_dir(), reason="the AI SDK is not installed: make test-node"),
]


def told(open_server: Callable[[], Server], script: str, *arguments: str) -> Any:
    """Run a script against a server of its own, and return what it prints."""

    async def whole() -> Any:
        async with open_server() as server:
            command = [str(NODE), script, server.url, *arguments]
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            child = await asyncio.create_subprocess_exec(*command, cwd=HERE, **pipes)
            out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return json.loads(out)

    return asyncio.run(whole())


@cache
def trials() -> dict[str, list[dict[str, Any]]]:
    suite = arithmetic.load()
    served = SuiteTrials(replace(suite, tasks=suite.tasks[:3]), load_profile("clean"))
    try:
        return dict(told(lambda: Server(served, more=served.more), "trials.mjs", *WIRES))
    finally:
        served.close()


@pytest.mark.parametrize("run", RUNS)
def test_it_solves_every_task_with_the_tools_of_the_suite(run: str) -> None:
    found = trials()[run]
    assert [trial["score"] for trial in found] == [1] * 3
    assert all(trial["steps"] > 1 for trial in found)
    assert all(trial["tokens"] > 0 for trial in found)
