"""What each command takes, and that its help is quick, short and in plain words."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from whichloop.cli.flags import settings
from whichloop.cli.main import app
from whichloop.runs.config import EVERYDAY, CompareConfig, load_config, typed_words

COMMANDS: Any = get_command(app).commands  # type: ignore[attr-defined]  # a group
SHARED = {"as_json": "--json", "verbose": "-v", "quiet": "-q", "runs": "--runs", "allow": "--allow", "setting": "-s"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_says_what_it_is(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.name != "help":
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.help.endswith((".", "]")), f"{name} {parameter.name}: {parameter.help}"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_several_commands_share_is_typed_alike(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.name in SHARED:
            assert SHARED[parameter.name] in parameter.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_and_a_page(name: str, whichloop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = whichloop(name, "--help").out.splitlines()
    assert len(printed) <= 45
    assert all(len(line) <= 80 for line in printed)


def test_each_everyday_setting_has_its_option() -> None:
    flags = {flag for parameter in COMMANDS["compare"].params for flag in parameter.opts}
    assert {flag for name, flag in EVERYDAY.items() if name in CompareConfig.model_fields} <= flags


def test_commands_import_few_modules_for_their_help() -> None:
    """What takes long to import is imported by the function that needs it."""
    code = (
        "import sys; from whichloop.cli.main import app\n"
        "heavy = {'dspy', 'mlflow', 'pandas', 'numpy', 'pydantic', 'scipy', 'jinja2', 'aiohttp'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


# --- settings ---


def test_settings_are_typed_as_they_are_named_and_several_of_one_are_a_list() -> None:
    typed = settings(["alpha=0.1", "provider.attempts=2", "provider.without=streaming", "provider.without=tool_choice"], tasks=3)
    config = load_config(None, {**typed, "models": "openai/x"})
    assert (config.alpha, config.tasks, config.provider.attempts) == (0.1, 3, 2)
    assert config.provider.without == ("streaming", "tool_choice")


@pytest.mark.parametrize(
    "name", [name for name in CompareConfig.model_fields if name not in ("provider", "budget", "trial_budget")]
)
def test_words_of_a_command_give_a_setting_its_value(name: str) -> None:
    assert typed_words(name, "x")[0] in ("-s", EVERYDAY.get(name))
    if name not in EVERYDAY:
        assert typed_words(name, True) == ["-s", f"{name}=true"]
