"""`gate`, end to end: each outcome with its exit code, all that is written, the recipes for CI, and planted regressions."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.models.real.provider import SECRET, completion, serving
from whichloop.experiments.gate import read_baseline
from whichloop.loops.bare_codecs import CODEC
from whichloop.protocol import Answer

LOOP = """
from dataclasses import dataclass, replace
from pathlib import Path
from whichloop.loops.bare import Bare
{imports}

@dataclass(frozen=True)
class Mine(Bare):
    async def run(self, query, tools, model, observer=None):
        {before}
        outcome = await super().run(query, tools, model, observer)
        {after}
        return outcome
"""
GATE = ("gate", "--baseline", "b.json", "--quiet")


def mine(after: str = "pass", before: str = "pass", imports: str = "") -> None:
    """Writes a loop of one's own, in which something stands after, or before, what it does."""
    Path("mine.py").write_text(LOOP.format(after=after, before=before, imports=imports))


def codes(ended: Any) -> list[str]:
    """The reasons, each once, the gravest first."""
    return [*dict.fromkeys(reason["code"] for reason in json.loads(ended.out)["reasons"])]


def first_answer() -> str:
    """What the blessed loop answered in the first task."""
    (arm,) = read_baseline(Path("b.json")).arms.values()
    return str(json.loads(str(next(iter(arm.tasks.values())).answer[0])))


def test_bless_writes_a_file_with_settings_and_keeps_what_is_no_baseline(whichloop, compare, here):
    run = compare("--loop", "bare", "--loop", "finish", "--tasks", "6")
    ended = whichloop("gate", "latest", "--bless", "--output", "gates/b.json", "--metric", "accuracy=0.05", "--accept", "undecided")
    assert ended.code == 0, ended.err
    blessed = read_baseline(here / "gates/b.json")
    assert (blessed.run, blessed.gate.metrics["accuracy"], blessed.gate.accept) == (Path(run).name, 0.05, ("undecided",))
    *_, then = ended.out.split("whichloop gate ")
    assert whichloop("gate", *shlex.split(then), "--quiet").code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "gates/b.json").code == 0
    assert read_baseline(here / "gates/b.json").gate == blessed.gate, "to bless anew keeps the settings"
    assert whichloop("gate", run, "--bless", "--output", "gates/b.json", "--seed", "1").code == 2
    (here / "mine.json").write_text("{}")
    refused = whichloop("gate", run, "--bless", "--output", "mine.json")
    assert (refused.code, refused.err) == (2, "error: mine.json: not a baseline; it stays as it is\n")
    assert (here / "mine.json").read_text() == "{}"


def test_bless_refuses_what_is_no_run_or_says_nothing(whichloop, here):
    assert {whichloop("gate", *words, "--bless").code for words in (["nothing", "--output", "b.json"], ["latest"])} == {2}
    small = ("--quiet", "--suite", "arithmetic(size=12)", "--loop", "bare", "--profile", "clean")
    assert whichloop("compare", *small, "--budget", "7calls").code == 130
    refused = whichloop("gate", "latest", "--bless", "--output", "b.json")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert " trials are missing; nothing was blessed\n" in refused.err
    assert not (here / "b.json").exists()


def test_the_same_again_passes_with_the_baseline_s_seed_and_a_run_of_it_runs_nothing(whichloop, blessed, here):
    run = blessed("--loop", "finish", "--profile", "flaky-format", "--seed", "3")
    judged = whichloop("gate", run, "--baseline", "b.json")
    assert (judged.code, judged.out.split("\n")[0]) == (0, "pass: identical")
    assert [str(path) for path in (here / "runs").iterdir()] == [run]
    again = whichloop(*GATE, "--json")
    assert (again.json["outcome"], again.json["paired"], again.json["tasks"], codes(again)) == ("pass", True, [], ["identical"])
    assert again.json["run"] != run
    assert again.out.count("\n") == 1
    assert json.loads((Path(again.json["run"]) / "manifest.json").read_text())["seed"] == 3


def test_a_loop_made_worse_is_a_regression_whatever_is_accepted_and_the_reverse_passes(whichloop, blessed):
    blessed("--loop", "bare", "--profile", "flaky-format", "--suite", "arithmetic(size=24)")
    worse = ("--loop", "bare(max_consecutive_errors=1)", "--json")
    accept = "undecided,tasks_lost,graver_stop,other_answers,tasks_changed"
    ended = whichloop(*GATE, *worse, "--accept", accept)
    assert (ended.code, codes(ended)[0]) == (1, "worse")
    told = json.loads(ended.out)
    assert next(iter(told["causes"])) == "parse"
    shown = whichloop(*shlex.split(told["tasks"][0]["command"])[1:])
    assert shown.code == 0
    assert "could not be read" in shown.out
    assert whichloop("gate", told["run"], "--bless", "--output", "low.json").code == 0
    better = whichloop("gate", "--baseline", "low.json", "--quiet", "--loop", "bare", "--metric", "tokens=9", "--json")
    assert better.json["outcome"] == "pass"
    (accuracy,) = [line for line in better.json["lines"] if line["metric"] == "accuracy"]
    assert accuracy["effect"]["value"] > 0


def test_what_is_undecided_or_lost_passes_where_it_is_accepted_and_within_its_margin(whichloop, blessed):
    blessed()
    seed, lost = ("--seed", "8", "--metric", "tokens=2"), ("--loop", "finish(parse_retries=0)", "--metric", "tokens=2")
    for asked, accept in ((seed, "undecided"), (lost, "tasks_lost")):
        ended = whichloop(*GATE, *asked, "--accept", accept, "--metric", "accuracy=0.1", "--json")
        assert ended.json["accept"] == [accept]
        assert {line["margin"] for line in ended.json["lines"] if line["metric"] in ("accuracy", "tokens")} == {0.1, 2.0}
    assert whichloop(*GATE, *seed).code == 3
    for more in (("--accept", "tasks_lost"), ("--accept", "undecided", "--metric", "accuracy=0.1")):
        assert whichloop(*GATE, *lost, *more).code == 1


def test_a_run_that_lacks_trials_is_invalid(whichloop, blessed, compare, here):
    blessed("--loop", "bare")
    path = here / "b.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"config": {**value["config"], "budget": {"calls": 7}}}))
    ended = whichloop(*GATE, "--json")
    assert (ended.code, codes(ended)) == (4, ["incomplete"])
    assert json.loads(ended.out)["lines"] == []


def test_another_run_is_refused_and_fewer_tasks_are_judged_by_those_of_both(whichloop, blessed, compare):
    blessed("--loop", "bare")
    limited = whichloop("gate", compare("--loop", "bare", "--max-tool-steps", "3"), "--baseline", "b.json")
    assert (limited.code, limited.out, limited.err.count("\n")) == (2, "", 1)
    fewer = whichloop("gate", compare("--loop", "bare", "--tasks", "6"), "--baseline", "b.json", "--json")
    assert (fewer.code, codes(fewer)) == (3, ["tasks_changed", "identical"])


def test_code_that_a_baseline_names_is_imported_only_where_it_is_typed_or_the_project_names_it(whichloop, blessed, here):
    mine()
    blessed("--loop", "mine:Mine", "--profile", "clean")
    mine(imports="Path('imported').touch()")
    refused = whichloop(*GATE)
    assert (refused.code, (here / "imported").exists()) == (2, False)
    assert refused.err.endswith("--allow mine:Mine\n")
    mine()
    (here / "pyproject.toml").write_text('[tool.whichloop]\nloop = ["mine:Mine"]\n')
    for typed in ([], ["--allow", "mine:Mine"]):
        ended = whichloop(*GATE, *typed)
        assert (ended.code, ended.out.split("\n")[0]) == (0, "pass: identical"), ended.err
    (here / "pyproject.toml").write_text("[tool.whichloop]\nloops = 1\n")
    assert "pyproject.toml: [tool.whichloop] has loop, allow, " in whichloop(*GATE).err


def test_a_recording_that_lacks_requests_of_the_changed_loop_names_the_commands_that_record_and_gate(
    whichloop, blessed, here, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    own = ("--loop", "bare(instructions='Use the tools.')", "-s", "cassette=tape")
    with serving(lambda heard: completion(CODEC.render(Answer("I do not know.", "?")).text)) as server:
        blessed("--loop", "bare", "--model", "openai/agent", "-s", f"base_url={server.url}", *own[2:], "-s", "cassette_mode=record")
        ended = whichloop(*GATE, *own, "-s", f"base_url={server.url}")
        assert ended.code == 4, ended.err
        record, gate = re.findall(r"^(?:Record|Next) +whichloop (.*)$", ended.out, re.M)
        assert whichloop(*shlex.split(record), "--quiet").code == 0
    again = whichloop(*shlex.split(gate), "--quiet")
    assert again.code in (0, 1, 3)
    assert "lacks" not in again.out


def test_a_new_crash_is_a_regression_at_its_line_whatever_the_margin_and_lines_that_no_trial_ran_are_told(
    whichloop, blessed, here, monkeypatch
):
    mine()
    blessed("--loop", "mine:Mine", "--profile", "flaky-tools", "--suite", "arithmetic(size=24)")
    answer = first_answer()
    own = (*GATE, "--allow", "mine:Mine", "--json")
    mine('if outcome.answer == "never":\n            nonsense()')
    ended = whichloop(*own)
    line = (here / "mine.py").read_text().split("\n").index("            nonsense()") + 1
    assert (ended.json["outcome"], ended.json["unrun_lines"]) == ("pass", {"mine.py": [str(line)]})
    mine(f"if str(outcome.answer) == {answer!r}: raise KeyError('x')")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ended = whichloop(*own, "--metric", "accuracy=0.3")
    (crash,) = [reason for reason in json.loads(ended.out)["reasons"] if reason["code"] == "crash"]
    assert (ended.code, crash["numbers"]["trials"], crash["numbers"]["error"]) == (1, 1, "KeyError: 'x' at mine.py:12")
    assert "::error file=mine.py,line=12,title=" in ended.err


def test_a_loss_of_unchanged_code_that_comes_again_is_no_chance(whichloop, blessed, here):
    """What the loop reads beside it has changed: `gate RUN`, which runs nothing, leaves it open."""
    bad = Path("bad.txt")
    bad.write_text("none")
    mine("if str(outcome.answer) == Path('bad.txt').read_text(): outcome = replace(outcome, answer='no')")
    blessed("--loop", "mine:Mine", "--profile", "clean")
    answer = first_answer()
    bad.write_text(answer)
    ended = whichloop(*GATE, "--allow", "mine:Mine", "--json")
    told = json.loads(ended.out)
    assert (ended.code, codes(ended)[0], told["again"]) == (1, "tasks_lost", {"trials": 1, "same": 1}), ended.err
    assert whichloop("gate", told["run"], "--baseline", "b.json").code == 3


def test_a_trial_that_hangs_is_ended_at_the_baseline_s_limit_and_is_a_regression(whichloop, blessed, here):
    mine()
    blessed("--loop", "mine:Mine", "--profile", "clean")
    answer = first_answer()
    (here / "b.json").write_text(re.sub(r'"trial_timeout_s": \d+', '"trial_timeout_s": 1', (here / "b.json").read_text()))
    mine(f"if str(outcome.answer) == {answer!r}:\n            import time; time.sleep(60)")
    ended = whichloop(*GATE, "--allow", "mine:Mine", "--metric", "accuracy=0.9", "--json")
    (hang,) = [reason for reason in json.loads(ended.out)["reasons"] if reason["code"] == "hang"]
    assert (ended.code, hang["numbers"]["trials"]) == (1, 1)
    assert hang["numbers"]["error"].endswith("it was at mine.py:13")


def test_an_interrupted_run_names_the_two_commands_that_go_on(whichloop, blessed, here):
    mine()
    blessed("--loop", "mine:Mine", "--profile", "clean")
    mine(
        before="if not Path('go').exists():\n            os.kill(os.getppid(), signal.SIGINT)\n            await asyncio.sleep(1)",
        imports="import asyncio, os, signal",
    )
    ended = whichloop(*GATE, "--allow", "mine:Mine")
    assert ended.code == 130, ended.err
    resume, gate = re.findall(r"whichloop ((?:resume|gate) .*?)(?:, then)?\n", ended.err)
    assert resume.endswith(" --allow mine:Mine")
    Path("go").touch()
    assert whichloop(*shlex.split(resume), "--quiet").code == 0
    assert whichloop(*shlex.split(gate)).out.startswith("pass: ")


def test_junit_summary_and_annotation_are_written_of_outcomes_and_of_errors(whichloop, blessed, here, monkeypatch):
    run = blessed("--loop", "bare")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    written = ("--junit", "out/gate.xml", "--summary", "summary.md")
    passed = whichloop("gate", run, "--baseline", "b.json", *written)
    assert (passed.code, "::" in passed.out + passed.err) == (0, False)
    assert len(ElementTree.parse(here / "out/gate.xml").findall(".//testcase")) == len(read_baseline(here / "b.json").gate.metrics)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "step.md"))
    assert "::notice title=whichloop gate%3A pass" in whichloop("gate", run, "--baseline", "b.json").err
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    (here / "unable.py").write_text(f"import json\n\nraise RuntimeError('{key} \\x1b[31m')\n")
    refused = whichloop(*GATE, "--loop", "unable:Mine", *written)
    annotation, error = refused.err.strip().split("\n")
    assert (refused.code, error.startswith("error: ")) == (2, True)
    assert annotation.startswith("::error file=unable.py,line=3,title=whichloop gate%3A not judged::loop 'unable:Mine'")
    (told,) = ElementTree.parse(here / "out/gate.xml").iter("error")
    assert "RuntimeError" in told.attrib["message"]
    first, second = (here / "summary.md").read_text().split("\n## ")
    assert (first.split("\n")[0], second.split("\n")[0]) == ("## pass: identical", "Gate: not judged")
    assert (here / "step.md").read_text().startswith("## pass: identical\n")
    shown = refused.err + second + told.attrib["message"]
    assert (key in shown, "\x1b" in shown) == (False, False)
