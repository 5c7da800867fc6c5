"""A loop or a program that crashes in every trial, or never asks its model, is a mistake that no command passes over, though the
other arms are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import whichloop as package

LOOPS = """
from whichloop.loops import Bare

class Boom(Bare):
    name = "boom"

    async def run(self, query, toolbox, model, *args, **kwargs):
        raise KeyError('no such key')
"""
SETTING_THAT_CRASHES = LOOPS.replace(
    "raise KeyError('no such key')",
    """if self.max_consecutive_errors == 2:
            raise KeyError('no such key')
        return await super().run(query, toolbox, model, *args, **kwargs)""",
)
SILENT_LOOP = LOOPS.replace("raise KeyError('no such key')", "return Outcome('42', StopReason.FINISHED, 0)").replace(
    "import Bare\n", "import Bare\nfrom whichloop.protocol import Outcome, StopReason\n"
)
PROGRAM = "def solve(question, tools):\n    raise KeyError('no such key')\n"
QUICK = ["--suite", "arithmetic(size=3)", "-q", "--profile", "clean"]
SMALL_SEARCH = [
    "--train",
    "3",
    "--dev",
    "3",
    "--tasks",
    "3",
    "--repeats",
    "1",
    "--optimizer",
    "LabeledFewShot",
    "--budget",
    "60calls",
]
CRASHES = {"loop": ["--loop", "own_loops:Boom"], "function": ["--program", "own.py:solve"], "command": ["--program", "sh own.sh"]}


@pytest.fixture
def own_code(here: Path) -> None:
    (here / "own_loops.py").write_text(LOOPS)
    (here / "own.py").write_text(PROGRAM)
    (here / "own.sh").write_text("echo 'no such key' >&2; exit 3\n")


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("kind", ["loop", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("function", "command"))])
def test_an_arm_that_always_crashes_is_told_first_and_ends_with_4_beside_healthy_ones(whichloop, kind):
    ended = whichloop("compare", *CRASHES[kind], "--loop", "bare", "--loop", "finish", *QUICK)
    (warning,) = [line for line in ended.out.splitlines() if "every trial crashed" in line]
    assert warning.startswith("Warning ")
    assert "no such key" in warning
    assert ended.code == 4
    again = whichloop("report", "latest", "--json")
    said = json.loads(again.out)
    assert again.code == 4
    assert said["warnings"][0]["code"] == "always crashed"
    assert said["warnings"][0]["text"] in warning
    assert said["invalid"] is False  # the verdict on the two others holds
    (dead,) = said["dead_arms"]
    assert (dead["cause"], said["warnings"][0]["text"].startswith(dead["arm"])) == ("crashed", True)
    assert [{pair["a"], pair["b"]} for pair in said["pairs"][:1]] == [{"bare/clean", "finish/clean"}]


def test_an_ablation_says_so_too(whichloop, here):
    (here / "own_loops.py").write_text(SETTING_THAT_CRASHES)
    ended = whichloop("compare", "--loop", "own_loops:Boom", "--vary", "max_consecutive_errors=2,3", *QUICK)
    assert ended.code == 4
    first = "own_loops:Boom(max_consecutive_errors=2)/clean: every trial crashed (3): 3 × KeyError: "
    assert ended.out.count("every trial crashed") == 1
    assert first in ended.out
    assert first in " ".join(repr(package.load("latest")).split())


def test_loops_that_never_ask_their_model_are_told_and_end_with_4_too(whichloop, here):
    (here / "own_loops.py").write_text(SILENT_LOOP)
    silent = ["own_loops:Boom(max_consecutive_errors=2)", "own_loops:Boom(max_consecutive_errors=3)"]
    compared = whichloop("compare", "--loop", silent[0], "--loop", silent[1], "--loop", "bare", *QUICK)
    for loop in silent:
        assert f"{loop}/clean: never asked its model in 3 trials" in compared.out
    said = whichloop("report", "latest", "--json")
    resumed = whichloop("resume", "latest", "--allow", "own_loops:Boom", "-q")
    ablated = whichloop("compare", "--loop", "own_loops:Boom", "--vary", "max_consecutive_errors=2,3", *QUICK)
    assert (compared.code, said.code, resumed.code, ablated.code) == (4, 4, 4, 4)
    assert [each["code"] for each in json.loads(said.out)["warnings"][:2]] == ["never asked"] * 2
    assert json.loads(said.out)["invalid"] is False


@pytest.mark.slow
@pytest.mark.usefixtures("own_code")
def test_every_command_that_ends_with_4_for_it_names_it_in_its_json_and_a_healthy_run_names_none(whichloop):
    own = ["--allow", "own_loops:Boom"]
    commands = [
        ["compare", "--loop", "own_loops:Boom", "--loop", "bare", *QUICK],
        ["resume", "latest", *own, "-q"],
        ["resume", "latest", "--add-loop", "finish", *own, "-q"],
        ["report", "latest"],
        ["resume", "latest", "--rescore", *own],
        ["compare", "--loop", "own_loops:Boom", "--vary", "max_consecutive_errors=2,3", *QUICK],
    ]
    for command in commands:
        ended = whichloop(*command, "--json")
        dead = json.loads(ended.out)["dead_arms"]
        assert ended.code == 4, command
        assert len(dead) == 1 + ("--vary" in command)
        assert all(each["arm"].startswith("own_loops:Boom") and each["cause"] == "crashed" for each in dead)
    assert whichloop("compare", "--loop", "bare", *QUICK, "--json").json["dead_arms"] == []
    assert whichloop("resume", "latest", "--rescore", "--json").json["dead_arms"] == []


@pytest.mark.usefixtures("own_code")
def test_a_run_that_is_judged_again_says_why_it_ends_with_4(whichloop):
    compared = whichloop("compare", "--loop", "own_loops:Boom", "--loop", "bare", *QUICK)
    judged = whichloop("resume", "latest", "--rescore", "--allow", "own_loops:Boom")
    (crash,) = (line for line in compared.out.splitlines() if "every trial crashed" in line)
    assert judged.code == 4
    assert crash in judged.out.splitlines()


@pytest.mark.usefixtures("own_code")
def test_sizes_leave_it_out_and_say_so_and_a_pilot_of_such_arms_alone_is_refused(whichloop):
    whichloop("compare", "--loop", "own_loops:Boom", "--loop", "bare", "--loop", "finish", *QUICK)
    told = whichloop("report", "--size", "latest")
    left_out = "own_loops:Boom/clean: left out: crashed always, or never asked its model"
    assert left_out in told.out
    assert "own_loops" not in told.out.replace(left_out, "")
    assert "incomplete" not in told.out
    whichloop("compare", "--loop", "own_loops:Boom", *QUICK)
    refused = whichloop("report", "--size", "latest")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a pilot needs a loop that works" in refused.err


@pytest.mark.usefixtures("own_code")
def test_an_optimization_ends_as_the_report_of_its_test_does(whichloop):
    designs = ["--loop", "bare", "--loop", "own_loops:Boom"]
    searched = whichloop("optimize", *designs, *SMALL_SEARCH, "-q", "--json")
    dead = json.loads(searched.out)["test"]["dead_arms"]
    assert [(each["arm"].partition("/")[0], each["cause"]) for each in dead] == [
        ("own_loops:Boom", "crashed"),
        ("own_loops:Boom@optimized.json", "crashed"),
    ]
    again = whichloop("report", "latest")
    of_test = whichloop("report", "latest/test")
    assert (searched.code, again.code, of_test.code) == (4, 4, 4)
    assert json.loads(searched.out)["invalid"] is False
    warned = [text.strip() for label, _, text in (line.partition(" ") for line in again.out.splitlines()) if label == "Warning"]
    assert all(each["sentence"] in warned for each in dead)
