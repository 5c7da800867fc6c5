"""Answers of the same score that are others than the blessed ones, be it in their type alone, and the words for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from whichloop.protocol.values import counted

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
