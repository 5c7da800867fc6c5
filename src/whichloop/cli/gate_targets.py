"""Where `whichloop gate` writes its outcome besides stdout, and how an outcome that is open counts there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from whichloop.experiments.gate import GateResult, github_annotations, to_junit
from whichloop.experiments.gate.commands import Counting
from whichloop.experiments.gate.output.github import append_error, append_summary, unjudged_annotation
from whichloop.experiments.gate.output.junit import error_junit
from whichloop.experiments.gate.output.next_steps import let_through
from whichloop.protocol.own_code import raised_in

from .console import check_writable


class OnUndecided(StrEnum):
    """How an undecided outcome counts."""

    PASSED = "pass"
    FAILED = "fail"
    UNDECIDED = "undecided"


class OnWorseHere(StrEnum):
    """How tasks that are lost here count."""

    FAILED = "fail"
    PASSED = "pass"


class OnOtherAnswers(StrEnum):
    """How answers of the same score count that are others than the blessed ones."""

    PASSED = "pass"
    FAILED = "fail"


@dataclass(frozen=True, slots=True)
class GateTargets:
    """Where the outcome goes, besides stdout, and how it counts there."""

    on_undecided: OnUndecided
    on_worse_here: OnWorseHere
    on_other_answers: OnOtherAnswers
    junit: Path | None
    summary: Path | None
    annotations: bool

    def flags(self) -> Iterator[str]:
        """Return the flags of how outcomes count, where they are not the defaults."""
        return Counting(self.on_undecided.value, self.on_worse_here.value, self.on_other_answers.value).words()

    def counted(self, judged: GateResult) -> GateResult:
        """Return the result with what lets it pass or makes it fail by these settings, and with their flags in its commands."""
        judged = replace(judged, advice=judged.advice.with_flags([*self.flags()]))
        return let_through(judged, self.on_worse_here.value, self.on_undecided.value).with_answers_held(self.on_other_answers.value)

    def check(self) -> None:
        """Check that the files can be written, and make their folders. Raises ValueError."""
        for flag, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None:
                check_writable(flag, path, "nothing was judged")

    def write_error(self, error: Exception, message: str) -> None:
        """Write an error that keeps the gate from judging."""
        self.write_unjudged(message, raised_in(error))

    def write_unjudged(self, message: str, place: tuple[str | Path, int] | None) -> None:
        """Write what keeps the gate from judging, and annotate its place. A file that cannot be written is left out."""
        if self.junit is not None:
            with suppress(OSError):
                self.junit.write_text(error_junit(message), encoding="utf-8")
        if self.summary is not None:
            with suppress(OSError):
                append_error(self.summary, message)
        if self.annotations:
            print(unjudged_annotation(message, place), file=sys.stderr)

    def write(self, judged: GateResult) -> None:
        """Write the outcome to the files, and print the annotations."""
        if self.junit is not None:
            self.junit.write_text(to_junit(judged, self.on_undecided.value, self.on_worse_here.value), encoding="utf-8")
        if self.summary is not None:
            append_summary(self.summary, judged)
        if self.annotations:  # GitHub reads stderr too, and stdout is for results
            for line in github_annotations(judged, self.on_undecided.value, self.on_worse_here.value):
                print(line, file=sys.stderr)
