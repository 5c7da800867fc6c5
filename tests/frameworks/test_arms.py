"""Frameworks as arms: versions in names and manifest, upgrades that are noticed, commands that know them without their version."""

import json
import shutil
from pathlib import Path

import pytest

from whichloop.protocol import ForeignLoop
from whichloop.protocol.names import parse_spec
from whichloop.runs.code_digests import code_digest
from whichloop.runs.registry import make_loop

from .conftest import make_environment

pytestmark = pytest.mark.thorough  # processes are started

SMALL = ["--quiet", "--suite", "arithmetic(size=2)", "--profile", "clean"]
ARM = "openai_agents@0.20.0/clean"


@pytest.fixture
def installed(home, toy_wiring):
    make_environment(home / "openai_agents", openai_agents="0.20.0", openai="3.0")
    return home


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the first run is kept for the tests after it."""
    return tmp_path_factory.mktemp("kept") / "runs"


@pytest.fixture
def run(whichloop, installed, kept):
    """The directory of a small comparison with a framework."""
    if kept.exists():
        shutil.copytree(kept, "runs")
        return str(next(Path("runs").iterdir()))
    ended = whichloop("compare", *SMALL, "--loop", "finish", "--loop", "openai_agents", "--json")
    assert ended.code == 0, ended.err
    shutil.copytree("runs", kept)
    return ended.json["run"]


def arms_of(folder):
    return {arm["arm"]: arm for arm in json.loads(Path(folder, "manifest.json").read_text())["arms"]}


def test_name_and_manifest_hold_versions_and_why_knows_it_without(whichloop, run):
    arm = arms_of(run)[ARM]
    assert (arm["version"], arm["packages"]) == ("0.20.0", {"openai-agents": "0.20.0", "python": "3.11.7"})
    assert len(arm["environment"]) == 64
    assert not {"version", "packages", "environment"} & arms_of(run)["finish/clean"].keys()
    (pair,) = whichloop("report", "--why", run, "--arm", "finish", "--arm", "openai_agents", "--json").json["pairs"]
    assert (pair["a"], pair["b"]) == ("finish/clean", ARM)


def test_a_run_needs_no_permission_for_a_framework(whichloop, run):
    ended = whichloop("resume", run, "--add-profile", "flaky-tools", "--quiet")
    assert ended.code == 0, ended.err
    assert "openai_agents@0.20.0/flaky-tools" in arms_of(run)


@pytest.mark.parametrize(
    ("packages", "change", "said"),
    [
        ({"openai_agents": "0.24.0", "openai": "3.0"}, "", "there is none now), arm openai_agents@0.24.0/clean (there was none"),
        ({"openai_agents": "0.20.0", "openai": "3.1"}, "", "its environment"),
        ({"openai_agents": "0.20.0", "openai": "3.0"}, "\n# changed\n", "its code"),
    ],
)
def test_another_version_or_wiring_is_noticed(whichloop, run, installed, toy_wiring, packages, change, said):
    make_environment(installed / "openai_agents", **packages)
    toy_wiring.write_text(toy_wiring.read_text() + change)
    ended = whichloop("resume", run, "--repeats", "2", "--quiet")
    assert ended.code == 2
    assert f"changed since this run began: arm {ARM} ({said}); results are never mixed" in ended.err


def test_the_digest_of_the_code_covers_the_runner(installed, monkeypatch):
    loop = make_loop(parse_spec("openai_agents"))
    assert isinstance(loop, ForeignLoop)
    names = [file.name for file in loop.sources]
    assert {"openai_agents.py", "runner.py", "gateway.py"} <= set(names)
    before = code_digest(loop)
    monkeypatch.setattr(type(loop), "sources", property(lambda self: ()))
    assert code_digest(loop) != before


def test_a_gate_holds_an_upgrade_against_the_older_version(whichloop, run, installed, toy_wiring):
    assert whichloop("gate", run, "--bless", "--output", "b.json").code == 0
    make_environment(installed / "openai_agents", openai_agents="0.24.0")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert ended.code in (0, 3), ended.err
    assert "loop: openai_agents 0.20.0 → 0.24.0" in ended.out


@pytest.mark.slow
def test_a_worse_upgrade_fails_the_gate(whichloop, installed, toy_wiring):
    many = ["--quiet", "--suite", "arithmetic(size=14)"]
    run = whichloop("compare", *many, "--loop", "openai_agents", "--loop", "finish", "--json").json["run"]
    assert whichloop("gate", run, "--bless", "--output", "b.json").code == 0
    make_environment(installed / "openai_agents", openai_agents="0.24.0")
    worse = "async def solve(task):\n    await while_loop(task)\n    return 'upgraded'\n"
    toy_wiring.write_text(f"{toy_wiring.read_text()}\n\n{worse}")
    ended = whichloop("gate", "--baseline", "b.json", "--quiet")
    assert ended.code == 1, ended.err
