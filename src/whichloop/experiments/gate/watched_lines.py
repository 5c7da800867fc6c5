"""Following which lines of a changed loop the trials of a gate's run come to, and finding those to which none did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from whichloop.experiments.compare.prepare import Experiment
from whichloop.runs.code_digests import loop_files
from whichloop.runs.engine.job import SeenLines

from .changes.changed_code import lines_of_functions, other_loop_files, unrun_in_words
from .comparable import match_arms
from .data.advice import Advice
from .data.baseline import Baseline
from .data.line_digests import FollowedFile, changed_lines
from .data.names import literal
from .data.outcome import GateResult
from .output.github import append_open_questions, in_actions, open_question_annotations, step_summary
from .output.next_steps import not_met
from .output.sentences import says_what_is_unrun


def with_lines_watched(experiment: Experiment, baseline: Baseline) -> Experiment:
    """Return an experiment that is yet to run such that it tells which lines of the loops' changed files its trials come to.

    A file is left out of which nobody knows which lines changed, since the baseline has it, but not its lines: as one of an older
    whichloop does, or one that was blessed after the file had changed on the disk.
    """
    entries = {arm.arm: arm for arm in experiment.manifest.arms}
    matched = {new: old for old, new in match_arms(experiment.manifest, baseline).items() if new is not None}
    unknown, watched = baseline.files - baseline.lines.keys(), {}
    for arm in experiment.arms:
        if arm.name in matched:
            changed = {*other_loop_files(baseline.arms[matched[arm.name]], entries[arm.name])} - unknown
            watched.update({name: file.path for name, file in loop_files(arm.loop).items() if name in changed})
    return replace(experiment, lines=SeenLines(watched)) if watched else experiment


def followed_files(experiment: Experiment, baseline: Baseline) -> tuple[FollowedFile, ...]:
    """Return the changed files of the loops of an experiment that has ended, with the changed lines of functions that its trials
    came to, and those that none did.

    Nothing of a file of which no line was seen, as where the loop runs in a process of its own.
    """
    seen = experiment.lines
    if seen is None or not seen.is_whole:
        return ()
    followed = []
    for name, path in seen.files.items():
        if not (ran := seen.of(name)):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            whole = lines_of_functions(compile(text, str(path), "exec", dont_inherit=True))
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        changed = whole & changed_lines(baseline.lines.get(name, ""), text)
        followed.append(FollowedFile(name, str(path.resolve()), tuple(sorted(changed - ran)), tuple(sorted(changed & ran))))
    return tuple(followed)


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
