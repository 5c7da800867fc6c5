"""Following which lines of a changed loop the trials of a gate's run come to, and finding those to which none did."""

from __future__ import annotations

from dataclasses import replace

from whichloop.experiments.compare.prepare import Experiment
from whichloop.runs.code_digests import loop_files
from whichloop.runs.engine.seen_lines import SeenLines

from .changes.changed_code import other_loop_files
from .changes.unrun import lines_of_functions
from .comparable import match_arms
from .data.baseline import Baseline
from .data.followed import FollowedFile
from .data.line_digests import changed_lines


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
