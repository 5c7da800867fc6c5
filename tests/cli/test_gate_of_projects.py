"""`whichloop gate` over a loop and tools that span several files: whatever of them changes is named, and held to what it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import BareMachine, Ended

pytestmark = pytest.mark.thorough
LOOP = """
from dataclasses import dataclass, replace
from whichloop.loops.bare import Bare
from own_agent.words import said


@dataclass(frozen=True)
class Mine(Bare):
    async def run(self, query, tools, model, observer):
        ended = await super().run(query, tools, model, observer)
        return replace(ended, answer=said(ended.answer))
"""
WORDS = "def said(answer):\n    return answer\n"
TOOLS = """
from own_catalog import PRICES


def price(item: str) -> float:
    '''The price of an item.'''
    return PRICES[item]


TOOLS = [price]
"""
PRICES = {f"item{number}": float(100 + number) for number in range(8)}
GATE = ("gate", "--baseline", "b.json", "--loop", "own_agent.loops:Mine", "--allow", "own_tools", "-q")


def write(folder: Path, words: str = WORDS, prices: dict[str, float] = PRICES, loop: str = LOOP) -> None:
    (folder / "own_agent").mkdir(exist_ok=True)
    files = {"own_agent/__init__.py": "", "own_agent/loops.py": loop, "own_agent/words.py": words, "own_tools.py": TOOLS}
    for name, text in (files | {"own_catalog.py": f"PRICES = {prices}\n"}).items():
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose loop is blessed."""
    folder = tmp_path_factory.mktemp("project")
    write(folder)
    rows = [
        {"id": item, "question": f"What does {item} cost?", "answer": price, "plan": plan(item)} for item, price in PRICES.items()
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    machine = BareMachine(folder)
    run = ("--profile", "clean", "--suite", "jsonl", "--data", "rows.jsonl", "--tools", "own_tools", "--no-mlflow", "-q")
    assert machine.run("compare", "--loop", "own_agent.loops:Mine", *run).code == 0
    assert machine.run("bless", "latest", "--output", "b.json").code == 0
    return folder


def test_a_module_beside_the_loop_is_found_where_the_loop_imports_it_while_it_runs(machine):
    (machine.folder / "own_words_of_later.py").write_text("")
    write(machine.folder, loop=LOOP.replace("        ended = await", "        import own_words_of_later\n        ended = await"))
    ended = machine.run(*GATE)
    assert ended.code == 0, ended.out


@pytest.mark.slow
def test_a_file_of_the_same_tasks_in_another_order_is_judged_task_by_task(machine):
    rows = machine.folder / "rows.jsonl"
    rows.write_text("".join(reversed(rows.read_text().splitlines(keepends=True))))
    ended = machine.run(*GATE)
    assert (ended.code, ended.err) == (0, ""), ended
    assert ended.out.startswith("identical: behaviour unchanged in all 8 trials\n")
    assert "The order of the suite's tasks has changed, or tasks that do not run have; " in ended.out


BROKEN = {
    "a crash before the first request": (
        "raise RuntimeError('boom')",
        r"regression: every trial crashes now \(RuntimeError: boom at ",
    ),
    "an answer without a call": (
        "return replace(await super().run(query, Toolbox(()), model, observer), answer=0)",
        "regression: ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", BROKEN)
def test_a_loop_that_comes_to_no_call_is_a_regression_whatever_metric_of_calls_is_judged_beside(machine, line):
    """Of such a run no trial has a metric of calls, which keeps nothing else from being judged."""
    broken, says = BROKEN[line]
    loop = LOOP.replace("        ended = await", f"        {broken}\n        ended = await")
    write(
        machine.folder,
        loop=loop.replace("import dataclass, replace", "import dataclass, replace\nfrom whichloop.protocol import Toolbox"),
    )
    ended = machine.run(*GATE, "--metric", "calls_doubled=0.02", "--metric", "tokens=0.1", "-v")
    assert ended.code == 1, ended.err
    assert re.match(says, ended.out)
    assert "Not judged: calls_doubled of " in " ".join(ended.out.split())


def plan(item: str) -> dict[str, Any]:
    call = {"id": "found", "tool": "price", "arguments": {"item": item}, "goal": "Look up the price."}
    return {"calls": [call], "answer": {"$ref": "found"}}


@pytest.fixture
def machine(made, tmp_path) -> BareMachine:
    folder = tmp_path / "project"
    shutil.copytree(made, folder)
    return BareMachine(folder)


def test_a_loss_in_a_module_beside_the_loop_is_worse_here_and_its_file_is_named(machine):
    write(machine.folder, words=WORDS.replace("return answer", "return 0 if '103' in str(answer) else answer"))
    ended = machine.run(*GATE)
    assert (ended.code, ended.out.partition(":")[0]) == (1, "worse here"), ended
    assert "Changed since the baseline, of the files that the loop is made of: own_agent/words.py." in ended.out


def test_changed_lines_that_no_trial_came_to_are_named_and_those_that_one_did_are_not(machine):
    """A NameError in a branch that no trial takes would crash in the product: the gate cannot see it, and says so."""
    taken, never = "    if '103' in str(answer):\n        int()\n", "    if answer == 'never':\n        return undefined\n"
    write(machine.folder, words=WORDS.replace("    return answer\n", f"{taken}{never}    return answer\n"))
    ended = machine.run(*GATE)
    assert (ended.code, ended.out.partition(":")[0]) == (0, "identical"), ended
    lines = (machine.folder / "own_agent" / "words.py").read_text().splitlines()
    where = lines.index("        return undefined") + 1
    said = f"No trial ran the changed line {where} of own_agent/words.py, so nothing is known of what it does."
    assert said in ended.out.splitlines()
    again = machine.run(*GATE, "--json", "--annotations")
    told = json.loads(again.out)
    assert told["unrun_lines"] == {"own_agent/words.py": [where]}
    assert said in told["said"]
    title = "title=whichloop gate%3A changed lines that no trial ran"
    assert f"::warning file=own_agent/words.py,line={where},{title}::no trial" in again.err


def test_a_changed_module_behind_the_tools_is_refused_by_its_name_and_a_ci_server_shows_it(machine):
    write(machine.folder, prices=PRICES | {"item3": 99.0}, loop=f"{LOOP}# a comment\n")
    ended = machine.run(*GATE, "--junit", "gate.xml", "--summary", "summary.md")
    assert ended.code == 2
    assert ended.err.startswith("error: b.json: own_catalog.py changed since the baseline\n  tools or scorers are made of it")
    (error,) = ElementTree.parse(machine.folder / "gate.xml").iter("error")
    assert error.attrib["message"].startswith("not judged: b.json: own_catalog.py changed since the baseline")
    assert (machine.folder / "summary.md").read_text().startswith("## Gate: not judged\n\nb.json: own\\_catalog.py changed")


@pytest.mark.slow
def test_a_module_that_tools_and_loop_share_leads_what_is_held_against_the_loop(machine):
    shared = f"from own_catalog import PRICES\n{WORDS}"
    write(machine.folder, words=shared)
    again = ("--profile", "clean", "--suite", "jsonl", "--data", "rows.jsonl", "--tools", "own_tools", "--no-mlflow", "-q")
    assert machine.run("compare", "--loop", "own_agent.loops:Mine", *again).code == 0
    assert machine.run("bless", "latest", "--output", "b.json").code == 0
    write(machine.folder, words=shared, prices=PRICES | {"item3": 99.0})
    ended = machine.run(*GATE)
    assert ended.code == 1, ended
    first, second, *_ = ended.out.splitlines()
    assert first.startswith("worse here: 1 task lost, none gained")
    assert second.startswith("Own_catalog.py changed since the baseline, so tools or scorers may be the cause")


def test_another_form_of_the_same_answer_is_a_warning_with_an_example(machine):
    write(machine.folder, words=WORDS.replace("return answer", "return f'The answer is {answer}.'"))
    ended = machine.run(*GATE, "--annotations")
    assert (ended.code, ended.out.partition(":")[0]) == (0, "unchanged"), ended
    many = "8 trials with a score above 0 have the same score with another answer"
    said = rf'{many}, such as \S+/item0/0: \S+ → "The answer is 100\.0\."\.'
    assert re.search(said, ended.out), ended.out
    assert ended.err.startswith("::warning title=whichloop gate%3A unchanged::")
    assert "The answer is 100.0." in ended.err


@pytest.mark.slow
def test_the_same_code_with_other_results_is_run_again_and_no_chance(machine):
    words = "import os\n\n\ndef said(answer):\n    return 0 if '103' in str(answer) and 'OWN_BREAK' in os.environ else answer\n"
    write(machine.folder, words=words)
    assert machine.run(*GATE).code == 0
    assert machine.run("bless", "latest", "--output", "b.json").code == 0
    ended = machine.run(*GATE, OWN_BREAK="1")
    assert (ended.code, ended.out.partition(":")[0]) == (1, "worse here"), ended
    assert "It is not chance: 1 trial was run again and came out the same." in ended.out
    assert "A baseline of" not in ended.out


@pytest.mark.parametrize("waits", ["time.sleep(60)", pytest.param("while True: pass", marks=pytest.mark.slow)])
def test_one_trial_that_hangs_is_a_regression_with_its_line_and_command(machine, waits):
    words = f"import time\n\n\ndef said(answer):\n    if '103' in str(answer):\n        {waits}\n    return answer\n"
    write(machine.folder, words=words)
    ended = machine.run(*GATE, "--trial-timeout", "1", "--margin", "0.9", "--annotations")
    assert ended.code == 1, ended
    first = r"regression: 1 trial hangs now \(it let nothing else run for \d\.\d s, and was interrupted at own_agent/words\.py:6\)"
    assert re.match(first, ended.out), ended.out
    assert re.search(r"\n +whichloop show runs/\S+ \S+/item3/0\n", ended.out)
    assert "::error file=own_agent/words.py,line=6,title=" in ended.err


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_cure_of_a_damaged_baseline_that_was_committed_works_in_git(machine):
    """The damaged file is the committed one: the error names the log, and an older commit of it can be taken."""
    folder, path = machine.folder, machine.folder / "b.json"
    original = path.read_text()
    git(folder, "init", "-q", "-b", "one")
    for text in (original, original.replace("finished", "crashed", 1)):
        path.write_text(text)
        git(folder, "add", "b.json")
        git(folder, "commit", "-qm", "a baseline")
    ended = machine.run(*GATE)
    assert ended.code == 2
    back = "take an intact version back with git checkout COMMIT -- b.json (git log -- b.json lists them), or bless it again"
    assert f"  {back}:\n    whichloop bless RUN --output b.json\n" in ended.err
    _, good = git(folder, "log", "--format=%H", "--", "b.json").split()
    git(folder, "checkout", good, "--", "b.json")
    assert path.read_text() == original


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_missing_tasks_of_the_baseline_are_told_with_who_names_them_and_how_to_have_them_back(machine):
    rows = machine.folder / "rows.jsonl"
    kept = rows.read_text()
    rows.unlink()
    said = "error: rows.jsonl: no such file, and the configuration of the baseline b.json names it as data\n  "
    ended = machine.run(*GATE)
    assert (ended.code, ended.err) == (2, f"{said}put it back, or start in the directory from which it has this name\n")
    rows.write_text(kept)
    git(machine.folder, "init", "-q", "-b", "one")
    git(machine.folder, "add", "rows.jsonl")
    git(machine.folder, "commit", "-qm", "one")
    rows.unlink()
    ended = machine.run(*GATE)
    assert (ended.code, ended.err) == (2, f"{said}take it back from git:\n    git checkout -- rows.jsonl\n")
    git(machine.folder, "checkout", "--", "rows.jsonl")
    assert machine.run(*GATE).code == 0


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_cure_of_a_baseline_with_a_conflict_works_in_git(machine):
    """Two branches bless, and are merged: the error says so, and what it advises gives back a baseline that can be read."""
    folder = machine.folder
    git(folder, "init", "-q", "-b", "one")
    git(folder, "add", "b.json")
    git(folder, "commit", "-qm", "one")
    original = (folder / "b.json").read_text()
    for branch in ("two", "three"):
        git(folder, "checkout", "-q", "-b", branch, "one")
        (folder / "b.json").write_text(re.sub(r'"created": "[^"]*"', f'"created": "{branch}"', original))
        git(folder, "commit", "-qam", branch)
    git(folder, "merge", "two")
    ended: Ended = machine.run(*GATE)
    assert ended.code == 2
    first, cure, *_ = ended.err.splitlines()
    assert first == "error: b.json: git could not merge two versions of it, and left both in it"
    assert cure.startswith("  take one side with git checkout --ours -- b.json")
    git(folder, "checkout", "--ours", "--", "b.json")
    assert '"created": "three"' in (folder / "b.json").read_text()
