"""The causes of a lost trial, and what each means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

Cause = Literal[
    "parse", "crash", "termination", "lost observation", "time limit", "budget", "tool argument", "fault not recovered",
    "obeyed instruction", "altered call", "dropped call", "added call", "altered result", "altered answer", "answer form",
    "error not shown", "answer refused", "other",
]  # fmt: skip
MEANINGS: Mapping[Cause, str] = {
    "parse": "a reply could not be read, or was read as something else, and the loop never got past it",
    "crash": "an exception left the loop, or it returned what is no outcome",
    "termination": "it answered before its work was done, went on without answering, or ran into its limit or its error valve",
    "lost observation": "a call was made again that had given a result, a result was never shown, or an answer was given "
    "when the prompt no longer showed the question or a result",
    "time limit": "it had not ended at the trial's time limit, as one that hangs, waits or computes for long",
    "budget": "its budget was used up, or the prompt no longer fitted the model's context",
    "tool argument": "a tool was called with other arguments than in the other course, or in a way in which it cannot be run",
    "fault not recovered": "a tool or the provider failed, or gave a false or damaged result, and nothing put it right",
    "obeyed instruction": "a tool's result carried an instruction that nobody asked for, and the scripted model obeyed it",
    "altered call": "the loop called another tool, or with other arguments, than the model wrote",
    "dropped call": "the model wrote a call that the loop never ran, and it went on",
    "added call": "the loop made a call that the model did not write, or made one again that had given a result",
    "altered result": "the loop showed the model something else than the tool gave",
    "altered answer": "the loop answered something else than the model stated",
    "answer form": "the model stated the answer in another form than was asked for, such as in thousands",
    "error not shown": "the loop put a text of its own, or nothing, in the place of a tool's error, and the trial was lost there",
    "answer refused": "the answer did not fit its type or schema, and no other was accepted",
    "other": "none of these: the same calls, and another answer, or an end of which the trace says nothing",
}
"""Cause → what happened."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Why a trial was lost."""

    cause: Cause
    detail: str
    """One sentence, in plain words, without its full stop."""
    step: int
    """1-based, in its own course, as `whichloop show` numbers it: the first step that the cause is about, else the last one."""
    fault: str = ""
    """Kind of fault of what it is about, such as `wire.fenced`; empty where none is known, as of a real model's replies."""

    def of(self, subject: str) -> Self:
        """Return it in words about a loop, or about whatever else `subject` calls the arms: `agent`."""
        return replace(self, detail=self.detail.replace("the loop", f"the {subject}"))


@dataclass(frozen=True, kw_only=True)
class Divergence(Loss):
    """A task that one arm solved and another did not, in the same repeat; the step is that of the cause, whichever course the trial
    is held against."""

    winner: str
    """Arm."""
    loser: str
    task: str
    repeat: int
    parts_at: int
    """1-based, in the loser's course: the first step that the winner's does not have."""
    stop: str | None
    """The loser's."""
