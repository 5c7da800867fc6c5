"""Commands about a gate, as words, each with every option that the gate had where the baseline does not say it already."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from whichloop.metrics.gate import MARGIN
from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.summary import PRIMARY
from whichloop.runs.config import CompareConfig, config_from, flag_of
from whichloop.runs.folders import RUNS
from whichloop.runs.manifest import Manifest
from whichloop.runs.permissions import resume_flags

from .data.baseline import Baseline
from .data.outcome import OnOtherAnswers, OnUndecided, OnWorseHere


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run is judged by."""

    margins: Mapping[str, float]
    """Metric → margin."""
    alpha: float
    common: bool
    """Whether only the tasks are judged that are the same in both."""

    def words(self) -> Iterator[str]:
        """Yield the flags of what is not the default."""
        for metric, margin in self.margins.items():
            if metric != PRIMARY:
                yield from ("--metric", f"{metric}={margin!r}")
            elif margin != MARGIN:
                yield from ("--margin", repr(margin))
        if self.alpha != ALPHA:
            yield from ("--alpha", repr(self.alpha))
        if self.common:
            yield "--common-tasks"


@dataclass(frozen=True, slots=True)
class Counting:
    """How outcomes count that are open, or whose answers are others, in the words of the command line."""

    on_undecided: OnUndecided = "undecided"
    on_worse_here: OnWorseHere = "fail"
    on_other_answers: OnOtherAnswers = "pass"

    def words(self) -> Iterator[str]:
        """Yield the flags of what is not the default."""
        for field in fields(self):
            if (how := getattr(self, field.name)) != field.default:
                yield from (flag_of([field.name]), how)


@dataclass(frozen=True, slots=True)
class GateCommands:
    """The commands of one gate, for a command line."""

    manifest: Manifest
    """The run's."""
    baseline: Baseline
    path: Path | None
    """The baseline's file."""
    folder: Path
    """The run's directory."""
    rules: Rules

    @property
    def file(self) -> str:
        return str(self.path or "FILE")

    def bless(self) -> str:
        """Return the command that makes the run the new baseline."""
        return shlex.join(["whichloop", "bless", str(self.folder), "-o", self.file])

    def bless_latest(self) -> tuple[str, ...]:
        """Return the command that makes the next run the new baseline."""
        return ("whichloop", "bless", "latest", *self.runs(), "--output", self.file)

    def review(self) -> tuple[str, ...]:
        """Return the command that prints all of the judgement."""
        return ("whichloop", "gate", str(self.folder), "--baseline", self.file, *self.rules.words(), "-v")

    def again(self, *, paired: bool = False, typed: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the command that runs this gate again; nothing where the baseline's configuration cannot be run.

        `paired`: with the baseline's own seed and repeats. `typed`: with these loops in the place of the run's.
        """
        try:
            config = config_from(self.baseline.config, "the baseline")
        except ValueError:  # one of another version, which the gate refuses to run again by itself
            return ()
        if "loops" not in self.baseline.config:
            return ()
        loops = self.manifest.settings.loops
        loops = tuple(typed) or (() if tuple(loops) == config.loops else loops)
        named = [word for loop in loops for word in ("--loop", loop)]
        settings = [*self._settings(config, paired=paired)]
        others = {"loops": ()} if loops else {}
        allowed = config.model_copy(update={"mlflow": False, "address": None, **others})
        again = shlex.split(" ".join(resume_flags(allowed)))
        return ("whichloop", "gate", "--baseline", self.file, *named, *settings, *self.rules.words(), *again, *self.runs())

    def _settings(self, blessed: CompareConfig, *, paired: bool) -> Iterator[str]:
        now = self.manifest.settings
        for name, was, value in (
            ("seed", self.baseline.seed, self.manifest.seed),
            ("repeats", self.baseline.repeats, now.repeats),
            ("trial_timeout_s", blessed.trial_timeout_s, self.manifest.config.get("trial_timeout_s", blessed.trial_timeout_s)),
        ):
            if was != value and not (paired and name in ("seed", "repeats")):
                yield from (flag_of([name]), str(value))

    def runs(self) -> tuple[str, ...]:
        """Return the flag of the folder of runs, where it is not the usual one."""
        folder = str(self.manifest.config.get("runs", RUNS))
        return () if folder == str(RUNS) else (flag_of(["runs"]), folder)
