"""What every command has in common: a quick start, keys from `.env`, plain or closed streams, and damaged files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from tests.hostile_artefacts import BASELINE, CONFIG, PROFILE, PROGRAM, make_artefacts
from tests.models.recordings import ask, use
from whichloop.cli.flags import settings
from whichloop.cli.main import app
from whichloop.cli.process import lasting_output, load_env
from whichloop.models.fake import FakeModel
from whichloop.runs.config import EVERYDAY, CompareConfig, load_config
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store.trials import TRIALS, read_records


def test_help_and_import_load_nothing_heavy():
    code = """
import sys
import whichloop
loaded = {name for name in sys.modules if name.startswith("whichloop.")} - {"whichloop._lazy", "whichloop._extras"}
assert not loaded, f"import whichloop loads {loaded}"
from whichloop.cli.main import main
sys.argv = ["whichloop", "--help"]
try:
    main()
except SystemExit as left:
    assert not left.code
heavy = {"dspy", "mlflow", "pydantic", "jinja2", "aiohttp",
         "scipy", "statsmodels", "pandas", "numpy", "litellm", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    made = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "compare" in made.stdout
    assert made.stderr == ""


COMMANDS: Any = get_command(app).commands  # type: ignore[attr-defined]  # a group
SHARED = {"as_json": "--json", "verbose": "-v", "quiet": "-q", "runs": "--runs", "allow": "--allow", "setting": "-s"}


def test_every_argument_and_option_says_what_it_is_and_what_several_commands_share_is_typed_alike() -> None:
    for name, parameter in ((name, parameter) for name, command in COMMANDS.items() for parameter in command.params):
        if parameter.name != "help":
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.help.endswith((".", "]")), f"{name} {parameter.name}: {parameter.help}"
        assert SHARED.get(str(parameter.name), parameter.opts[0]) in parameter.opts


def test_each_everyday_setting_has_its_option() -> None:
    flags = {flag for parameter in COMMANDS["compare"].params for flag in parameter.opts}
    assert {flag for name, flag in EVERYDAY.items() if name in CompareConfig.model_fields} <= flags


def test_settings_are_typed_as_they_are_named_and_several_of_one_are_a_list() -> None:
    typed = settings(["alpha=0.1", "provider.attempts=2", "provider.without=streaming", "provider.without=tool_choice"], tasks=3)
    config = load_config(None, {**typed, "models": "openai/x"})
    assert (config.alpha, config.tasks, config.provider.attempts) == (0.1, 3, 2)
    assert config.provider.without == ("streaming", "tool_choice")


CLOSED = f"{sys.executable} -m whichloop compare --loop bare --tasks 2 --profile clean <&- >&- 2>&-"


def test_closed_streams_change_no_exit_code(tmp_path):
    assert subprocess.run(CLOSED, shell=True, cwd=tmp_path, check=False).returncode == 0
    assert len([*tmp_path.glob("runs/*/report.html")]) == 1


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sets is gone after it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def load(folder: Path, content: str | bytes) -> dict[str, str]:
    (folder / ".env").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = set(os.environ)
    with contextlib.chdir(folder):
        load_env()
    return {name: os.environ[name] for name in set(os.environ) - before}


@given(
    st.dictionaries(st.from_regex(r"LB_[A-Z0-9_]{1,8}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_$./+=-]{1,20}", fullmatch=True))
)
def test_what_a_file_names_is_set_as_it_stands(tmp_path_factory, values):
    content = "# keys\n\n" + "".join(f"export {name}={value}\n" for name, value in values.items())
    try:
        assert load(tmp_path_factory.mktemp("env"), content) == values
    finally:
        for name in values:
            os.environ.pop(name, None)


@pytest.mark.usefixtures("environment")
def test_what_is_set_wins_and_the_last_line_of_a_file_too_and_nothing_is_interpolated(tmp_path):
    os.environ["LB_ONE"] = "set"
    file = "LB_ONE=file\nLB_TWO=first\nLB_TWO=${LB_ONE}x\nLB_NONE\nLB_THREE='a b#c'\n"
    assert load(tmp_path, file) == {"LB_TWO": "${LB_ONE}x", "LB_THREE": "a b#c"}
    assert os.environ["LB_ONE"] == "set"


@pytest.mark.usefixtures("environment")
def test_what_cannot_be_read_is_told_without_what_it_holds(tmp_path, caplog):
    assert load(tmp_path, "LB_A=1\nthis is no line sk-secret-123456\n") == {"LB_A": "1"}
    assert "line 2" in caplog.text
    with pytest.raises(ValueError, match="0xff") as caught:
        load(tmp_path, b"LB_B=sk-secret-123456\xff\n")
    assert "secret" not in caplog.text + str(caught.value)


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
    commands = {
        ("compare", "--loop", "bare", "--profile", "flaky-format", "--suite", "arithmetic(size=6)", "-q"): ", seed 0 ",
        ("report", "latest"): ", seed 0 ",
        ("report", "--why", "latest"): "",
        ("list", "loops", "finish"): "?",
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


TAPE = "tape"
ONE_TASK = ("--loop", "bare", "--suite", "arithmetic", "--tasks", "1", "--quiet")
READERS: Mapping[str, tuple[str, ...]] = {
    MANIFEST: ("report", "."),
    TRIALS: ("report", "."),
    BASELINE: ("gate", ".", "--baseline", BASELINE),
    PROGRAM: ("prompts", PROGRAM),
    TAPE: ("compare", *ONE_TASK, "--model", "openai/x", "-s", f"cassette={TAPE}", "-s", "cassette_mode=replay"),
    CONFIG: ("compare", "--config", CONFIG, "--quiet"),
    PROFILE: ("compare", *ONE_TASK, "--profile", PROFILE),
}


def flipped(raw: bytes) -> bytes:
    """Change one bit in the middle, so that TOML is no longer UTF-8."""
    place = len(raw) // 2
    return raw[:place] + bytes([raw[place] ^ 0x80]) + raw[place + 1 :]


DAMAGE: Mapping[str, Callable[[bytes], bytes]] = {
    "a changed bit": flipped,
    "zeros": lambda raw: bytes(len(raw) - 1) + b"\n",
    "another's": lambda raw: b'{"checksum": 1, "config": {}, "arm": [[[[["\xed\xa0\x80"]]]]]}\n',
    "nested": lambda raw: b"[" * 100_000 + b"\n",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one artefact of each kind."""
    folder = make_artefacts(tmp_path_factory.mktemp("runs"))
    use(folder / TAPE, "record", [ask()], FakeModel("42"), name="openai/x")
    return folder


@pytest.mark.parametrize(("name", "damage"), [*zip(READERS, cycle(DAMAGE))])
def test_a_damaged_file_ends_its_command_with_one_line(whichloop: Any, here: Path, whole: Path, name: str, damage: str):
    shutil.copytree(whole, here, dirs_exist_ok=True)
    (trial, *_) = (record.name for record in read_records(here))
    path = next((here / TAPE).rglob("*.jsonl")) if name == TAPE else here / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    ended = whichloop(*(word.format(trial=trial) for word in READERS[name]))
    assert (ended.code, ended.out) == (2, "")
    first, *cures = ended.err.splitlines()
    assert first.startswith("error: ")
    assert all(line.startswith("  ") for line in cures), "what would be right has lines of its own"
    assert re.search(rf"{re.escape(path.name)}\b", first)
    assert "Traceback" not in ended.err
