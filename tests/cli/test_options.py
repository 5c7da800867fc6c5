"""Flags come from the fields of pydantic models: each field has one, and its help is the field's docstring."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from whichloop.cli.catalogue import CATALOGUES, entries, outlines, values_of
from whichloop.cli.main import COMMANDS, GROUPS, HEADINGS, OPTIONS, REST, LazyCommand, app, argument_name, heading_of, main
from whichloop.cli.options import ConfigFlags, OptionGroup, RunChoice, Texts, help_text, with_options
from whichloop.runs.built_in import field_docs
from whichloop.runs.config import (
    FILE_ONLY,
    STRESS_PROFILES,
    BudgetConfig,
    CompareConfig,
    IfAbsent,
    ProviderConfig,
    flag_of,
    load_config,
)


def lazy(name: str) -> LazyCommand:
    group: Any = app
    for word in name.split():
        group = group.commands[word]
    assert isinstance(group, LazyCommand)
    return group


def options(name: str) -> dict[str, Any]:
    """A command's options by flag."""
    return {flag: option for option in lazy(name).load().params for flag in option.opts}


def places(model: type[BaseModel] = CompareConfig, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Every field of a configuration with its docstring, those of its sections too."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from places(field.annotation, (*before, name))
        else:
            yield (*before, name), field, field_docs(model).get(name, "")


def only_in_files(path: tuple[str, ...]) -> bool:
    return ".".join(path) in FILE_ONLY or path[0] in FILE_ONLY


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("list", "frameworks"), "error: there is no list of 'frameworks' here: whichloop frameworks list, or"),
        (("list", "loop"), "error: there is no list of 'loop'; did you mean 'loops'? known: loops, suites, profiles, "),
    ],
)
def test_a_slip_of_the_pen_is_told_with_what_was_meant(typed, told, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["whichloop", *typed])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith(told)


# --- every field ---


def test_every_field_of_a_comparison_has_one_flag_or_is_only_in_files() -> None:
    flags = Counter(flag.name for flag in ConfigFlags().each())
    expected = [flag_of(path) for path, _, _ in places() if not only_in_files(path)]
    assert flags == Counter([*expected, "--program"])  # the short way to name a loop of one kind
    assert set(flags.values()) == {1}
    assert flags.keys() <= options("compare").keys()


@pytest.mark.parametrize(("path", "field", "doc"), [pytest.param(*each, id=".".join(each[0])) for each in places()])
def test_the_help_of_a_flag_is_the_docstring_of_its_field_and_the_default(path: tuple[str, ...], field: Any, doc: str) -> None:
    assert doc.endswith((".", "`.")), "a whole sentence"
    if only_in_files(path):
        return
    option = options("compare")[flag_of(path)]
    text, _, default = option.help.partition(" [default: ")
    assert text == doc
    assert bool(default) == (
        (field.default not in (None, ()) and field.default is not False)
        or any(isinstance(each, IfAbsent) for each in field.metadata)
    )


@pytest.mark.parametrize(
    ("model", "name", "shown"),
    [
        (CompareConfig, "seed", "0"),
        (CompareConfig, "trial_timeout_s", "60"),
        (CompareConfig, "alpha", "0.05"),
        (CompareConfig, "loops", "bare, finish, phased, react_extract, stateless"),
        (CompareConfig, "mlflow", "yes"),
        (CompareConfig, "runs", "runs"),
        (CompareConfig, "tasks", "all"),
        (ProviderConfig, "temperature", "the provider's own"),
    ],
)
def test_a_default_is_shown_as_it_is_typed(model: type[BaseModel], name: str, shown: str) -> None:
    assert help_text(model.model_fields[name], "What it is.") == f"What it is. [default: {shown}]"


@pytest.mark.parametrize(("model", "name"), [(CompareConfig, "data"), (CompareConfig, "real_time"), (BudgetConfig, "calls")])
def test_what_has_no_default_shows_none(model: type[BaseModel], name: str) -> None:
    assert help_text(model.model_fields[name], "What it is.") == "What it is."


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_says_what_it_is_in_a_sentence(name: str) -> None:
    for flag, option in options(name).items():
        text = option.help.partition(" [default: ")[0]
        assert text, f"{name} {flag}"
        assert text[0].isupper() or text.startswith("accuracy, "), f"{name} {flag}: {text}"
        assert text.endswith((".", "]")), f"{name} {flag}: {text}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_arguments_in_upper_case_shows_no_type_of_python_and_breaks_no_word(
    name: str, whichloop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = whichloop(*name.split(), "--help").out
    assert not re.search(r"<[a-z]", printed), "such as <str> or <list[Path]>"
    for param in lazy(name).load().params:
        assert all(word in printed for word in re.split(r"\s+|(?<=-)", param.help or "")), param.name
        if param.param_type_name == "argument":
            shown = argument_name(param)
            assert shown.isupper() or shown == "|".join(CATALOGUES), "in lower case stands only what is typed so"
            assert re.search(rf"^  {re.escape(shown)}(\.\.\.)?(  |$)", printed, re.MULTILINE)
            assert re.search(rf"[\[{{ ]{re.escape(shown)}\b", printed.partition("\n\n")[0])


# --- what a command receives ---


class OwnOptions(OptionGroup):
    place: Annotated[Path, typer.Argument()]
    """Where."""
    names: Texts
    """Which; repeat the option for more."""
    size: Annotated[int, typer.Option("--size", "-s", min=1)] = 3
    """How large."""
    loud: bool = False
    """Be loud."""
    checks: bool = True
    """Check everything."""


def called(*arguments: str, configs: tuple[ConfigFlags, ...] = (ConfigFlags(),)) -> tuple[OwnOptions, dict[str, Any]]:
    """What a command gets that is called so."""
    seen: list[tuple[OwnOptions, dict[str, Any]]] = []

    @with_options(*configs)
    def command(own: OwnOptions, flags: dict[str, Any]) -> None:
        seen.append((own, flags))

    known = typer.Typer()
    known.command()(command)
    done = CliRunner().invoke(known, [*arguments])
    assert done.exit_code == 0, done.output
    return seen[0]


def test_a_command_gets_only_the_flags_that_were_typed() -> None:
    own, flags = called("here")
    assert flags == {}
    assert own == OwnOptions(place=Path("here"), names=[])
    assert load_config(None, flags) == CompareConfig(profiles=STRESS_PROFILES)


def test_flags_arrive_in_the_shape_of_a_configuration_file() -> None:
    typed = ["--loop", "a", "--loop", "b", "--tasks", "4", "--no-mlflow", "--real-time", "--budget-calls", "3"]
    _, flags = called(
        "here", *typed, "--attempts", "2", "--without", "streaming", "--trial-timeout", "1.5", "--runs", "x", "--model", "openai/x"
    )
    assert flags == {
        "loops": ("a", "b"),
        "models": ("openai/x",),
        "tasks": 4,
        "mlflow": False,
        "real_time": True,
        "budget": {"calls": 3},
        "provider": {"attempts": 2, "without": ("streaming",)},
        "trial_timeout_s": 1.5,
        "runs": Path("x"),
    }
    assert load_config(None, flags).trial_timeout_s == 1.5


def test_an_option_group_arrives_as_an_object() -> None:
    own, _ = called("there", "--names", "a", "--names", "b", "-s", "5", "--loud", "--no-checks")
    assert own == OwnOptions(place=Path("there"), names=["a", "b"], size=5, loud=True, checks=False)


def test_a_command_may_take_some_fields_under_other_names_with_other_words() -> None:
    some = ConfigFlags(only=("tasks", "provider.prices"), names={"tasks": "test"}, helps={"tasks": "Test tasks."})
    assert [(flag.name, flag.help.partition(".")[0]) for flag in some.each()] == [
        ("--prices", "TOML file of prices in US dollars per million tokens; they override the prices that ship with DSPy"),
        ("--test", "Test tasks"),
    ]
    assert called("here", "--test", "3", configs=(some,))[1] == {"tasks": 3}
    assert [flag.help.rpartition(" [")[2] for flag in ConfigFlags(only=("seed",), default="as before").each()] == [
        "default: as before]"
    ]


def test_a_flag_that_two_groups_have_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="duplicate parameter name: 'runs'"):

        @with_options(ConfigFlags())
        def command(choice: RunChoice, flags: dict[str, Any]) -> None: ...


# --- commands by name ---


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_summary_is_the_first_line_of_its_docstring(name: str) -> None:
    command = lazy(name)
    assert command.load().help.splitlines()[0] == command.help == COMMANDS[name][1]


def test_every_group_has_commands() -> None:
    assert {name.split()[0] for name in COMMANDS if " " in name} == set(GROUPS)


@pytest.mark.parametrize(
    "arguments", [["--help"], *(pytest.param(words, marks=pytest.mark.slow) for words in (["check", "--help"], ["--version"], []))]
)
def test_help_imports_no_command_and_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from whichloop.cli.main import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "ours = [name for name in sys.modules if name.startswith('whichloop')]\n"
        "print(sorted(name for name in ours if name.startswith('whichloop.cli.')), file=sys.stderr)\n"
        "print(len(ours), {'dspy', 'mlflow', 'numpy', 'rich', 'scipy'} & set(sys.modules), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, rest = ended.stderr.splitlines()[-2:]
    assert modules == "['whichloop.cli.main', 'whichloop.cli.process']"
    count, _, heavy = rest.partition(" ")
    assert int(count) <= 13
    assert heavy == "set()"


HEAVY = (
    "aiohttp",
    "dspy",
    "jinja2",
    "jsonschema",
    "mlflow",
    "numpy",
    "pandas",
    "rich",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
)
"""Modules that take 0.02 s of CPU or more to import."""
STARTS: dict[str, tuple[int, set[str]]] = {
    # a few to spare; `compare` comes first, because the others read its run
    "compare --loop bare --tasks 1 --no-mlflow --quiet": (277, {"jinja2", "jsonschema", "numpy", "rich", "scipy.special"}),
    "list loops": (66, {"rich"}),
    "list suites": (62, {"rich"}),
    "list profiles": (62, {"rich"}),
    "show latest": (90, {"numpy", "rich"}),
    "why latest": (182, {"jsonschema", "numpy", "rich", "scipy.special"}),
    "report latest": (242, {"jinja2", "jsonschema", "numpy", "rich", "scipy.special"}),
}
"""Command → the most modules of ours that it imports, and which of those that take long."""
FEW = [command for command in STARTS if command.startswith(("compare", "show"))]
"""The command that imports the most, and one that reads its run and needs few modules."""
EACH_IN_A_FORK = f"""
import json, os, sys
from whichloop.cli.main import app
for command in json.loads(sys.argv[1]):
    sys.stdout.flush()
    if os.fork():
        assert os.wait()[1] == 0, command
        continue
    sys.stdout = sys.stderr
    try: app(command.split())
    except SystemExit as left: assert not left.code, command
    found = [sum(name.partition(".")[0] == "whichloop" for name in sys.modules), [name for name in {HEAVY} if name in sys.modules]]
    os.write(1, json.dumps([command, *found]).encode() + b"\\n")
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each command is a fork, for speed")
@pytest.mark.parametrize("commands", [FEW, pytest.param([*STARTS], marks=pytest.mark.slow)], ids=["few", "all"])
def test_commands_import_few_modules_and_what_takes_long_only_where_they_need_it(tmp_path: Path, commands: list[str]) -> None:
    script = [sys.executable, "-c", EACH_IN_A_FORK, json.dumps(commands)]
    ended = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"WHICHLOOP_HOME": str(tmp_path)})
    assert ended.returncode == 0, ended.stderr
    for line in ended.stdout.splitlines():
        command, ours, heavy = json.loads(line)
        most, known = STARTS[command]
        assert set(heavy) == known, command
        assert ours <= most, command
    assert len(ended.stdout.splitlines()) == len(commands)


@pytest.mark.parametrize(("what", "most"), [("loops", 20), pytest.param("suites", 14, marks=pytest.mark.slow)])
def test_the_short_list_says_what_the_full_one_says(what: str, most: int) -> None:
    said = [[(type(entry), entry.name, entry.summary) for entry in listed(what)] for listed in (outlines, entries)]
    assert said[0] == said[1]
    assert len(said[0]) > most


@pytest.mark.parametrize("name", ["compare", "optimize", "ablate", "gate", "serve", "import"])
def test_many_options_stand_under_headings_and_each_heading_is_meant(name: str) -> None:
    loaded = lazy(name).load()
    options = [param.opts for param in loaded.params if param.param_type_name == "option"]
    printed = [flags for flags in options if heading_of(flags) == REST]
    assert {flag.lstrip("-") for flags in printed for flag in flags if flag.startswith("--")} <= PRINTED
    text = loaded.make_context(name, [], resilient_parsing=True).get_help()
    assert [text.count(f"\n{heading}:\n") for heading in (*OPTIONS, REST) if f"\n{heading}:" in text] != []
    written = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
    assert sorted(written) == sorted(next(flag for flag in flags if flag.startswith("--")) for flags in [*options, ["--help"]])


PRINTED = {"verbose", "json", "quiet", "junit", "markdown", "help", "summary"}
"""Options that may stand under the heading of what is printed."""


def test_every_command_stands_under_a_heading() -> None:
    tops = {name.split()[0] for name in COMMANDS}
    listed = [name for names in HEADINGS.values() for name in names]
    assert tops <= {*listed}
    assert len(listed) == len({*listed})
    ended = subprocess.run([sys.executable, "-m", "whichloop", "--help"], capture_output=True, text=True, check=True)
    whole = " ".join(ended.stdout.split())
    for name, (_, summary) in COMMANDS.items():
        assert " " in name or summary in whole  # no summary is cut


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("compare --loop re", "react_extract"),
        ("compare --prof", "--profile"),
        ("che", "check"),
        ("compare --suite ar", "arithmetic"),
    ],
)
def test_a_shell_completes_commands_options_and_names(
    typed: str, completed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"COMP_WORDS": f"whichloop {typed}", "COMP_CWORD": str(len(typed.split())), "_WHICHLOOP_COMPLETE": "complete_bash"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["whichloop"])
    with pytest.raises(SystemExit):
        main()
    assert completed in capsys.readouterr().out.split()


def test_an_unknown_command_is_answered_with_the_nearest_one() -> None:
    done = subprocess.run([sys.executable, "-m", "whichloop", "compere"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: No such command 'compere'. Did you mean 'compare'?")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Literal["run", "skip"], ("run", "skip")),
        (Literal["run", "skip"] | None, ("run", "skip", "none")),
        (Literal[True, "auto"], ("true", "auto")),
        (int | None, ()),
        (str, ()),
    ],
)
def test_the_values_of_an_option_are_listed_where_there_are_only_so_many(kind: Any, values: tuple[str, ...]) -> None:
    assert values_of(kind) == values


def test_the_list_of_a_loop_says_which_values_an_option_takes() -> None:
    (phased,) = [entry for entry in entries("loops") if entry.name == "phased"]
    assert {option.name: option.values for option in phased.options}["failed_dependency"] == ("run", "skip", "fail")
