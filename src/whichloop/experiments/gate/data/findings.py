"""What a gate finds beside its metrics: growth, the worst trial, other answers, repeats in common, a changed suite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from whichloop.protocol.values import counted
from whichloop.text.numbers import listed_names


@dataclass(frozen=True, slots=True)
class Growth:
    """What an arm took more of an amount, such as tokens, where some of its trials are solved now that were not."""

    arm: str
    """The arm's name in the run."""
    metric: str
    newly_solved: int
    """Trials that are solved now and were not in the baseline."""
    of_newly_solved: float
    """How much more these took than in the baseline; negative if less."""
    of_all: float
    """How much more all trials took; above 0."""
    solved_before: int
    """Trials that were solved in the baseline."""
    solved_now: int
    before: float
    """What all trials took in the baseline, those that were not solved included."""
    now: float

    @property
    def per_solved_before(self) -> float | None:
        """What a solved trial took in the baseline, those that were not solved being paid with it; None where none was solved."""
        return self.before / self.solved_before if self.solved_before else None

    @property
    def per_solved_now(self) -> float:
        """The same in the run, where some trials are solved."""
        return self.now / self.solved_now

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self) | {"per_solved_before": self.per_solved_before, "per_solved_now": self.per_solved_now}


@dataclass(frozen=True, slots=True)
class WorstTrial:
    """The trial in which a metric got most worse, of an arm that is held to have got worse by it, or may have."""

    arm: str
    """The arm's name in the run."""
    metric: str
    task: str
    repeat: int
    was: float
    """Its value in the baseline; where trials have no counterparts, the mean of the task."""
    now: float
    newly_solved: bool
    """Whether it is solved now and was not in the baseline; False where trials have no counterparts."""
    cause: str
    """Why, as far as the traces say it, in a clause; empty where they do not."""
    command: str
    """The command that shows the trial; empty if it has no trace to show."""
    blessed_command: str
    """The command that shows its counterpart; empty if there is none, or where the blessed run is not beside the run."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that show both sides."""
        blessed = f"{self.blessed_command} # its counterpart in the blessed run" if self.blessed_command else ""
        return tuple(filter(None, (self.command, blessed)))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SharedRepeats:
    """How many repeats of each task the run and the baseline have; under one seed the first ones of both are the same trials."""

    run: int
    baseline: int

    @property
    def both(self) -> int:
        """The number of repeats that both have, by which the run is judged."""
        return min(self.run, self.baseline)

    @property
    def fewer_in_run(self) -> bool:
        """Whether trials of the baseline are left out."""
        return self.run < self.baseline

    @property
    def in_words(self) -> str:
        """What was compared, as the end of a sentence: `judged by the 2 repeats that both have (the run has 2, the baseline 3)`."""
        each = f"(the run has {self.run:,}, the baseline {self.baseline:,})"
        return f"judged by the {counted(self.both, 'repeat that both have', 'repeats that both have')} {each}"

    def to_json(self) -> dict[str, int]:
        """Return plain JSON."""
        return {"both": self.both, "run": self.run, "baseline": self.baseline}


KINDS: Mapping[str, str] = {'"': "a text", "[": "a list", "{": "an object", "t": "true", "f": "false", "n": "null"}
"""First character of an answer as JSON → what kind of value it is; any other one begins a number."""


@dataclass(frozen=True, slots=True)
class OtherAnswers:
    """Trials of the same result that have another answer, though nothing in them is left to chance."""

    trials: int
    of_type_alone: int
    """How many of them have the same answer in another type."""
    trial: str
    """The first of them, `ARM/TASK/REPEAT` with the short name of its arm."""
    was: str
    """Its blessed answer, in brief."""
    now: str
    command: str
    """The command that shows the trial; empty if it has no trace to show."""

    @property
    def counted(self) -> str:
        """How many trials these are."""
        if self.of_type_alone == self.trials:
            what = "the same score with an answer of another type"
        else:
            part = f", {self.of_type_alone:,} of them in its type alone" if self.of_type_alone else ""
            what = f"the same score with another answer{part}"
        return counted(self.trials, f"trial with a score above 0 has {what}", f"trials with a score above 0 have {what}")

    @property
    def example(self) -> str:
        """The first trial, with both answers, and what these are where one is of another type."""
        was, now = kind_of(self.was), kind_of(self.now)
        kinds = "" if was == now else f", {was} in the baseline and {now} now"
        return f"such as {self.trial}: {self.was} → {self.now}{kinds}"

    @property
    def sentence(self) -> str:
        return f"{self.counted}, {self.example}."


def kind_of(answer: str) -> str:
    """Return what kind of value an answer in brief is, such as `a text`, which stands in quotes."""
    return KINDS.get(answer[:1], "a number")


def is_of_type_alone(was: str, now: str) -> bool:
    """Whether two answers in brief differ in their type alone, as 42 and "42"."""
    return kind_of(was) != kind_of(now) and _text(was) == _text(now)


def _text(answer: str) -> str:
    """Return an answer in brief as the text that it shows: without its quotes where it is one."""
    if kind_of(answer) == "a text":
        try:
            return str(json.loads(answer))
        except ValueError:  # its middle is left out, and with it a part of an escape
            pass
    return answer


@dataclass(frozen=True, slots=True)
class TaskSets:
    """The tasks of a run and of a baseline, by what became of them; each tuple is sorted."""

    same: tuple[str, ...]
    """Those that are the same in both: question, world, expected answer, scorer, plan and labels."""
    added: tuple[str, ...]
    """Those of the run that the baseline lacks."""
    removed: tuple[str, ...]
    """Those of the baseline that the run lacks."""
    changed: tuple[str, ...]
    """Those of the same id that are something else."""

    @classmethod
    def of(cls, was: Mapping[str, str], now: Mapping[str, str]) -> TaskSets:
        """Compare tasks, each with its digest."""
        both = sorted(was.keys() & now.keys())
        return cls(
            same=tuple(task for task in both if was[task] == now[task]),
            added=tuple(sorted(now.keys() - was.keys())),
            removed=tuple(sorted(was.keys() - now.keys())),
            changed=tuple(task for task in both if was[task] != now[task]),
        )

    @property
    def others(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what became of tasks that are not the same, and their ids."""
        for word, tasks in (("changed", self.changed), ("added", self.added), ("removed", self.removed)):
            if tasks:
                yield word, tasks

    def named(self) -> str:
        """Return `2 tasks changed (a and b), 1 task added (c)`; empty where all are the same."""
        return ", ".join(f"{counted(len(tasks), 'task')} {word} ({listed_names(tasks)})" for word, tasks in self.others)

    def left_out(self) -> str:
        """Return `on the 117 tasks that are the same in both (2 changed, 1 added)`, for an outcome that rests on these alone."""
        others = ", ".join(f"{len(tasks):,} {word}" for word, tasks in self.others)
        same = counted(len(self.same), "task that is", "tasks that are")
        return f"on the {same} the same in both{f' ({others})' if others else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"same": len(self.same), "changed": list(self.changed), "added": list(self.added), "removed": list(self.removed)}
