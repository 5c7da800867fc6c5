"""Output in an encoding that lacks characters of ours, such as dashes in ASCII: no command ends for them."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import BareMachine
from whichloop.cli.process import lasting_output

LACKING = {
    "the stream is ASCII": {"PYTHONIOENCODING": "ascii"},
    "so is the locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.fixture
def in_ascii(whichloop, monkeypatch):
    """Runs a command whose standard output is ASCII, and gives its exit code and what it wrote."""

    def call(*arguments: str) -> tuple[int, str]:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        with monkeypatch.context() as within:
            within.setattr(sys, "stdout", stream)
            code = whichloop(*arguments).code
        stream.seek(0)
        return code, stream.read()

    return call


def test_no_command_ends_for_a_character_that_stdout_lacks(in_ascii):
    small = ["--profile", "flaky-format", "--suite", "arithmetic(size=20)", "-q"]
    commands = {
        ("compare", "--loop", "bare", "--loop", "finish", *small): ", seed 0 ",
        ("report", "latest"): ", seed 0 ",
        ("report", "latest", "-v"): ", seed 0 ",
        ("report", "--why", "latest"): "",
        ("report", "--size", "latest"): "",
        ("list", "loops", "finish"): "?",
        ("compare", "--loop", "finish", "--vary", "parse_retries=0,2", *small): "",
    }
    for command, shown in commands.items():
        code, said = in_ascii(*command)
        assert code == 0, command
        assert shown in said


@pytest.mark.parametrize("text", ["plain\n", "0.1 – 0.2\n"])
def test_a_reader_that_left_is_no_failure_whatever_characters_the_stream_lacks(text, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as pipe:
        stream = io.TextIOWrapper(pipe, encoding="ascii", write_through=True)
        monkeypatch.setattr(sys, "stdout", stream)
        with lasting_output():
            assert sys.stdout.write(text) == len(text)
            print(text)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["the stream is ASCII", pytest.param("so is the locale", marks=pytest.mark.slow)])
def test_a_process_that_may_write_ascii_alone_ends_as_any_other(here, kind):
    environment = {**BareMachine(here).environment(), **LACKING[kind]}
    command = [sys.executable, "-m", "whichloop", "list", "loops", "finish"]
    ended = subprocess.run(command, cwd=here, env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.isascii()
