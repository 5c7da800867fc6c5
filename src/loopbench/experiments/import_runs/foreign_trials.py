"""What another tool tells of trials, before it becomes records: the readers' common language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from loopbench.metrics.record import Record
from loopbench.metrics.summary import PRIMARY

from .values import ScoreScale

Format = Literal["inspect", "pydantic-evals", "csv"]

NEVER_TOLD = ("false_success", "repeated_calls")
"""What our harness measures and no other tool does."""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How files are read, where they leave a choice."""

    scorer: str | None = None
    """Which score is the accuracy, where there are several: a scorer, an evaluator, a column."""
    scale: ScoreScale | None = None
    """Of numeric scores; None: 0 to 1."""
    cluster: str | None = None
    """Key of the metadata, or column, that names what tasks share."""
    errors_as_failures: bool = False
    """Trials that an error ended are scored 0: the agent's own doing, not infrastructure's."""


@dataclass(frozen=True, slots=True)
class ForeignTrial:
    """One trial. None: the tool does not say."""

    arm: str
    task: str
    repeat: int
    """0-based."""
    status: Literal["scored", "errored", "excluded"] = "scored"
    reason: str = ""
    score: float | None = None
    """In [0, 1]; of a scored trial always there."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Other scores of the same trial, in [0, 1]."""
    stop: str | None = None
    """Of an errored trial: crashed, where it took place and an error ended it."""
    answer: Any = None
    steps: int | None = None
    lm_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    """Input and output; the two may be told beside it, or in its place."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Part of the input that a provider served from its cache."""
    cost_usd: float | None = None
    seconds: float | None = None
    confidence: float | None = None
    cluster: str = ""
    attempt: int = 0
    """Earlier attempts at the same trial that failed."""

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.arm, self.task, self.repeat)

    @property
    def split_tokens(self) -> tuple[int, int] | None:
        """Input and output tokens; a total that is not divided counts as input. None: the total is not known."""
        if self.input_tokens is not None and self.output_tokens is not None:
            return (self.input_tokens, self.output_tokens)
        if self.tokens is None:
            return None
        rest = 0 if self.input_tokens is None else self.tokens - self.input_tokens
        output = min(max(rest if self.output_tokens is None else self.output_tokens, 0), self.tokens)
        return (self.tokens - output, output)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Metrics and fields of the record that are not told."""
        told = {
            "steps": self.steps,
            "lm_calls": self.lm_calls,
            "tool_calls": self.tool_calls,
            "tokens": self.split_tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "seconds": self.seconds,
        }
        return (*(name for name, value in told.items() if value is None), *NEVER_TOLD)

    def record(self, suite: str, suite_digest: str) -> Record:
        """As a record of ours: what is not told is named in `unknown`, so that tables show – in its place."""
        others = {name: value for name, value in self.scores.items() if name != PRIMARY}
        input_tokens, output_tokens = self.split_tokens or (0, 0)
        return Record(
            arm=self.arm,
            suite=suite,
            suite_digest=suite_digest,
            task=self.task,
            repeat=self.repeat,
            seed=0,
            status=self.status,
            reason=self.reason,
            stop=self.stop,
            answer=self.answer,
            scores={} if self.score is None else {PRIMARY: self.score, **others},
            steps=self.steps or 0,
            calls={"decide": self.lm_calls} if self.lm_calls else {},
            tool_calls=self.tool_calls or 0,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=self.cached_tokens or 0,
            cost_usd=self.cost_usd,
            confidence=self.confidence,
            cluster=self.cluster,
            seconds=self.seconds or 0.0,
            attempt=self.attempt,
            unknown=self.unknown,
        )


@dataclass(frozen=True, slots=True)
class ToldArm:
    """What an arm is made of, as far as it is told."""

    name: str
    loop: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = "unknown"


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """What one file holds."""

    path: Path
    format: Format
    sha256: str
    by: str
    """Tool and version that wrote it; empty where it does not say."""
    suite: str
    arms: tuple[ToldArm, ...]
    trials: tuple[ForeignTrial, ...]
    asked: Mapping[str, str]
    """Task → digest of what was asked and what is right; empty where that is not told. Also tasks that were due and did not run."""
    scorer: str = ""
    """Whose score is the accuracy; empty where the file has one only and does not name it."""
    unfinished: str = ""
    """Why trials that are missing did not take place; empty where the file is whole."""
    repeats: int = 1
    """Trials due per arm and task."""
    notes: tuple[str, ...] = ()
    """For the one who imports."""
