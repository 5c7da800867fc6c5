"""Regressions planted in our own loops, a line of a design's source changed: the gate catches each, and says what it is."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import whichloop
from whichloop.loops import bare
from whichloop.loops.finish import loop as finish


@dataclass(frozen=True)
class Mutant:
    """One change of one design's source."""

    name: str
    source: Path
    loop: str  # the class in it
    old: str
    new: str
    profile: str
    cause: str  # what the gate is to call it
    detail: str  # what it is to say of it, as a regular expression
    tasks: int  # as many as it takes to be sure

    @property
    def design(self) -> str:
        return self.loop.lower()

    def write(self, folder: Path) -> str:
        """Writes the module; gives what `--loop` names. Fails where the source no longer holds what is to be changed."""
        text = self.source.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.source}: {self.old!r} stands there {text.count(self.old)} times"
        package = ".".join(self.source.relative_to(ROOT).parts[:-1])
        absolute = re.sub(r"^from \.(\w)", rf"from {package}.\1", text.replace(self.old, self.new), flags=re.MULTILINE)
        (folder / f"{self.name}.py").write_text(absolute, encoding="utf-8")
        return f"{self.name}:{self.loop}"


ROOT = Path(whichloop.__file__).parents[1]
BARE, FINISH = Path(bare.__file__), Path(finish.__file__)

MUTANTS = (
    # the model sees the question and the last two exchanges only
    Mutant(
        "history_truncated", BARE, "Bare",
        "opening, talk.messages, tools=offered",
        "opening, [*talk.messages[:1], *talk.messages[1:][-4:]], tools=offered",
        "clean", "lost observation",
        r"called \w+\(.*\) again at reply \d+, whose result had been cut out of the prompt",
        tasks=28,
    ),
    # an unreadable reply is kept, and the model never told what was wrong with it
    Mutant(
        "feedback_dropped", BARE, "Bare",
        '            talk.observe("error", str(error), error.tool_name if isinstance(error, BadMove) else None)\n',
        "",
        "flaky-format", "parse",
        r"replies [\d, ]+ and \d+ could not be read( \([^)]*\))?; the next prompt did not show the error; then the error valve",
        tasks=48,
    ),
    # one retry less than the option says costs a task in fifty, since a model that is told what was wrong mostly mends it
    Mutant(
        "retry_off_by_one", FINISH, "Finish",
        "if run.failures > self.parse_retries:",
        "if run.failures >= self.parse_retries:",
        "flaky-format", "parse",
        r"replies \d+ and \d+ could not be read( \([^)]*\))?; the loop gave up",
        tasks=600,
    ),
)  # fmt: skip
CASES = [pytest.param(each, id=each.name, marks=[pytest.mark.slow] * (each.name != "history_truncated")) for each in MUTANTS]


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", CASES)
def test_the_gate_catches_and_names_what_was_planted(mutant, whichloop, here):
    size = ("--suite", f"arithmetic(size={mutant.tasks})", "--profile", mutant.profile)
    assert whichloop("compare", "--loop", mutant.design, *size, "--quiet").code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "baseline.json").code == 0

    again = whichloop("gate", "--baseline", "baseline.json", "--json")
    assert again.json["outcome"] == "pass"  # of the loop as it is

    ended = whichloop("gate", "--baseline", "baseline.json", "--loop", mutant.write(here), "--json")
    assert ended.code == 1, ended.err
    judged = json.loads(ended.out)
    assert judged["outcome"] == "regression"
    assert next(iter(judged["causes"])) == mutant.cause  # the commonest
    worse = [task for task in judged["tasks"] if task["cause"] == mutant.cause]
    assert len(worse) >= 0.9 * sum(judged["causes"].values())
    named = [task for task in worse if re.search(mutant.detail, task["detail"])]
    assert len(named) >= 0.8 * len(worse)

    shown = whichloop(*shlex.split(named[0]["command"])[1:])
    assert shown.code == 0  # the command that it gives leads to the trial
    assert named[0]["task"] in shown.out
