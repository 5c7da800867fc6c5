"""The clients on docs/serve.md."""

from __future__ import annotations

import asyncio
import re
import runpy
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import load_profile
from whichloop.models.server import Server
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
DEFAULT = "http://127.0.0.1:8377"
CLIENTS = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
NEEDED = {"ask_openai.py": ("openai",), "ask_anthropic.py": ("anthropic",), "ask_over_mcp.py": ("openai", "mcp")}
"""What each client imports."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server, in an event loop on another thread, as the page's command starts it."""
    trials = SuiteTrials(make_suite(parse_spec("arithmetic(size=3)")), load_profile("clean"))
    loop, told = asyncio.new_event_loop(), threading.Event()
    server = Server(trials, more=trials.more, mcp=trials.open)
    ended = asyncio.Event()

    async def serve() -> None:
        async with server:
            told.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    told.wait()
    yield server.url
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()
    trials.close()


def test_the_page_has_the_clients_that_are_tested_here() -> None:
    assert set(CLIENTS) == set(NEEDED)
    assert {text.count(f'SERVER = "{DEFAULT}"\n') for text in CLIENTS.values()} == {1}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NEEDED)
def test_a_client_of_the_page_solves_its_task(name: str, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in NEEDED[name]:
        pytest.importorskip(package)
    (tmp_path / name).write_text(CLIENTS[name].replace(DEFAULT, address), "utf-8")
    ran = runpy.run_path(str(tmp_path / name), run_name="__main__")
    assert float(capsys.readouterr().out) == make_suite(parse_spec("arithmetic(size=3)")).tasks[0].expected
    if name == "ask_anthropic.py":
        results = [ran["run"](SimpleNamespace(id="c", name="divide", input={"a": 8, "b": b})) for b in (2, 0)]
        assert [result["is_error"] for result in results] == [False, True]
