"""What the gates of all tests of a session leave unknown together: what one of them did not show, another one may have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from .changes.unrun import unrun_in_words
from .data.advice import Advice
from .data.followed import FollowedFile
from .data.literal import literal
from .data.outcome import GateResult
from .output.github import append_open_questions, in_actions, open_question_annotations, step_summary
from .output.next_steps import not_met
from .output.sentences import says_what_is_unrun


@dataclass(frozen=True, slots=True)
class LeftUnknown:
    """What one gate leaves unknown, and what its trials showed."""

    files: tuple[FollowedFile, ...]
    """The changed files of its loop, with the lines that its trials came to."""
    unseen: tuple[tuple[str, str], ...]
    """Faults that no changed loop met, each with a profile that has them."""

    @classmethod
    def by(cls, judged: GateResult) -> LeftUnknown:
        """Return what a judgement leaves unknown; where a loss matters more, only what its trials showed."""
        files = judged.followed if says_what_is_unrun(judged) else [replace(file, unrun=()) for file in judged.followed]
        return cls(tuple(files), judged.advice.unseen)

    def to_text(self) -> str:
        """Return JSON, which a test's report can hold."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> LeftUnknown:
        """Read what `to_text` has written."""
        data = json.loads(text)
        files = (FollowedFile(**file | {"unrun": tuple(file["unrun"]), "ran": tuple(file["ran"])}) for file in data["files"])
        return cls(tuple(files), tuple((what, profile) for what, profile in data["unseen"]))

    @property
    def sentences(self) -> list[str]:
        """Which changed lines no trial came to."""
        return [literal(f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in unrun_in_words(self.files)]

    def show_on_github(self, annotate: Callable[[str], None]) -> None:
        """Annotate a step of GitHub Actions, and add to its summary."""
        advice = [not_met(Advice(asker="test", unseen=self.unseen)).say] if self.unseen else []
        if in_actions():
            for line in open_question_annotations(self.files, advice):
                annotate(line)
        if (summary := step_summary()) is not None and (open_questions := [*self.sentences, *advice]):
            with suppress(OSError):
                append_open_questions(summary, open_questions)


def left_by_all(texts: Iterable[str]) -> LeftUnknown:
    """Return what all tests together leave unknown: lines that no trial of any of them came to, and faults that none of them met.

    `texts`: what each gate left unknown, as its test's report holds it.
    """
    each = [LeftUnknown.from_text(text) for text in texts]
    files: dict[str, list[FollowedFile]] = {}
    for file in (file for unknown in each for file in unknown.files):
        files.setdefault(file.path, []).append(file)
    unseen = [fault for fault in each[0].unseen if all(fault in unknown.unseen for unknown in each)] if each else []
    return LeftUnknown(tuple(map(_together, files.values())), tuple(unseen))


def _together(same: Sequence[FollowedFile]) -> FollowedFile:
    """Return one file as the trials of several gates came to its lines."""
    ran = {line for file in same for line in file.ran}
    unrun = {line for file in same for line in file.unrun} - ran
    return replace(same[0], unrun=tuple(sorted(unrun)), ran=tuple(sorted(ran)))
