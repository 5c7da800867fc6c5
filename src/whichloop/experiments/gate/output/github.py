"""What GitHub Actions shows of a gate: annotations on a step, and a page in its summary, from the command and from a test alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from whichloop.experiments.gate.changes.changed_code import unrun_in_words
from whichloop.experiments.gate.changes.traced_trials import altered_text, altered_title
from whichloop.experiments.gate.data.line_digests import FollowedFile
from whichloop.experiments.gate.data.outcome import PASSES, GateResult, OnUndecided, OnWorseHere, StopChange, TaskChange
from whichloop.experiments.gate.data.troubles import literal, short_arm
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted
from whichloop.text.doc import markdown_item
from whichloop.text.numbers import first_of
from whichloop.text.output import terminal_safe

from .line_words import beside_losses, break_title, broken_by, groups, title, trials
from .sentences import explanation, says_what_is_unrun
from .text import MAX_TASKS, for_a_server, task_text, to_markdown


def lost_otherwise(result: GateResult) -> list[list[TaskChange]]:
    """Return the tasks that got worse without a new crash or hang, those of one arm and cause together, the largest group first."""
    broke = {(change.arm, change.task) for change in result.stops if change.broke}
    return lost(change for change in result.tasks if (change.arm, change.task) not in broke)


def other_ends(result: GateResult) -> list[list[StopChange]]:
    """Return the other stops that are neither crashes nor hangs, nor told with a lost task, those of one kind together."""
    return groups(change for change in beside_losses(result) if not change.broke)


def break_groups(result: GateResult) -> list[list[StopChange]]:
    """Return the trials that crash or hang now and did not, those of one arm and exception or place together, the largest group
    first."""
    by_kind: dict[tuple[str, ...], list[StopChange]] = {}
    for change in result.stops:
        if change.broke:
            by_kind.setdefault((change.arm, *broken_by(change)), []).append(change)
    return sorted(by_kind.values(), key=len, reverse=True)


def lost(changes: Iterable[TaskChange]) -> list[list[TaskChange]]:
    """Return the tasks that got worse, those of one arm and cause together, the largest group first."""
    by_cause: dict[tuple[str, str | None], list[TaskChange]] = {}
    for change in changes:
        if change.became == "worse":
            by_cause.setdefault((change.arm, change.cause), []).append(change)
    return sorted(by_cause.values(), key=len, reverse=True)


def cause_title(group: Sequence[TaskChange]) -> str:
    """Return `finish/clean: 12 tasks worse by parse`."""
    return f"{short_arm(group[0].arm)}: {counted(len(group), 'task')} worse by {group[0].cause or 'a cause that no trace shows'}"


def cause_text(group: Sequence[TaskChange]) -> str:
    """Return the first task with its command, and the names of some others."""
    first, *others = group
    likewise = first_of([literal(change.task) for change in others], MAX_TASKS)
    return "\n".join([task_text(first), *([f"likewise: {likewise}"] if others else [])])


def stop_text(group: Sequence[StopChange]) -> str:
    """Return the trials of one kind of other stop, and the command that shows the first."""
    return "\n".join(map(literal, filter(None, (trials(group, MAX_TASKS), group[0].command))))


MAX_ANNOTATED = 9
"""Maximum number of annotated causes: GitHub shows ten annotations of a kind per step, one of which is the outcome's."""


def in_actions() -> bool:
    """Whether this process is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def step_summary() -> Path | None:
    """Return the file that holds the step's summary; None outside a step."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None


def append_summary(path: Path, result: GateResult) -> None:
    """Append the gate's page to a summary. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(to_markdown(_from_the_repository(result)))


def append_error(path: Path, message: str) -> None:
    """Append a page to a summary for an error that keeps the gate from judging. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        mistake, *cures = [markdown_item(literal(_beside_repository(line.strip()))) for line in message.splitlines()]
        file.write("\n".join(["## Gate: not judged", "", mistake, "", *(f"- {cure}" for cure in cures), ""]))


def append_open_questions(path: Path, questions: Iterable[str]) -> None:
    """Append a page to a summary for what the gates of all tests leave unknown together. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        items = "".join(f"- {markdown_item(literal(_beside_repository(each)))}\n" for each in questions)
        file.write(f"## Gates: what no trial showed\n\n{items}\n")


def github_annotations(
    result: GateResult, on_undecided: OnUndecided = "undecided", on_worse_here: OnWorseHere = "fail"
) -> list[str]:
    """Return GitHub workflow commands: the outcome, then what it rests on, the gravest first: new crashes and hangs, the causes of
    lost tasks, and other stops.

    An outcome that passes is a notice, or a warning where answers are others, the loop altered calls or answers or made some of its
    own, or more wrong answers are given as done. A new crash is a warning whatever the outcome is, and the first an error where the
    outcome is one and rests on its arm. It counts all trials that crash, or hang, as the first line does, and marks the line in the
    user's code.
    """
    outcome, on_undecided = result.held_as(on_worse_here), result.undecided_as(on_undecided)
    kind = "notice" if outcome in PASSES else "warning" if outcome == "undecided" else "error"
    if outcome == "undecided" and on_undecided != "undecided":
        kind = "error" if on_undecided == "fail" else "notice"
    claims = any(arm.claims is not None for arm in result.arms)
    if kind == "notice" and (result.other_answers is not None or result.altered or claims):
        # a lenient scorer takes another form of answer for the same, and who reads the answers may not; a wrong one is no pass
        kind = "warning"
    if result.fails_for_answers:
        kind = "error"
    result = _from_the_repository(result)
    first = _command(kind, f"whichloop gate: {result.word}", "\n".join([*explanation(result), *for_a_server(result)]))
    sizes = {arm.arm: arm.trials for arm in result.arms}
    groups = sorted(break_groups(result), key=lambda group: group[0].arm not in result.arms_behind)  # stable: the largest first
    decides = kind == "error" and bool(groups) and groups[0][0].arm in result.arms_behind
    broke = [
        _command(
            "error" if decides and number == 0 else "warning",
            break_title(group, sizes.get(group[0].arm)),
            stop_text(group),
            place_in(group[0].reason),
        )
        for number, group in enumerate(groups)
    ]
    altered = [_command("warning", altered_title(group), altered_text(group)) for group in result.altered]
    unrun = open_question_annotations(result.followed) if says_what_is_unrun(result) else ()
    return [first, *[*broke, *altered, *(_beside_breaks(result) if kind != "notice" else ()), *unrun][:MAX_ANNOTATED]]


def open_question_annotations(files: Iterable[FollowedFile], advice: Iterable[str] = ()) -> Iterator[str]:
    """Yield the workflow commands for changed lines that no trial came to, each at its place, and for what has more judged."""
    parts = [replace(file, unrun=span) for file in files for span in file.spans]
    for part in parts[:MAX_ANNOTATED]:
        (sentence,) = unrun_in_words([part])
        yield _command("warning", "whichloop gate: changed lines that no trial ran", sentence, (part.path, part.unrun[0]))
    yield from (_command("notice", "whichloop gate: faults that no trial met", sentence) for sentence in advice)


def _beside_breaks(result: GateResult) -> Iterable[str]:
    """Return the commands of the causes of lost tasks, and of other stops; what crashed or hangs is told by itself."""
    return [
        *(_command("warning", cause_title(group), cause_text(group)) for group in lost_otherwise(result)),
        *(_command("warning", title(group), stop_text(group)) for group in other_ends(result)),
    ]


def unjudged_annotation(message: str, place: tuple[str | Path, int] | None) -> str:
    """Return the workflow command for what keeps the gate from judging, at its place in a file of the user's, such as the line of a
    syntax error."""
    return _command("error", "whichloop gate: not judged", message, place)


def _from_the_repository(result: GateResult) -> GateResult:
    """Return the result with its files as seen from the repository's folder, where whoever reads the page has a clone."""
    return replace(
        result,
        tasks=tuple(replace(change, command=_beside_repository(change.command)) for change in result.tasks),
        stops=tuple(replace(change, command=_beside_repository(change.command)) for change in result.stops),
        worst=tuple(
            replace(worst, command=_beside_repository(worst.command), blessed_command=_beside_repository(worst.blessed_command))
            for worst in result.worst
        ),
        altered=tuple(replace(altered, command=_beside_repository(altered.command)) for altered in result.altered),
        other_answers=None
        if result.other_answers is None
        else replace(result.other_answers, command=_beside_repository(result.other_answers.command)),
        notes=tuple(map(_beside_repository, result.notes)),
        reasons=tuple(map(_beside_repository, result.reasons)),
        bless=_beside_repository(result.bless),
        advice=result.advice.with_words(_beside_repository),
    )


def _beside_repository(content: str) -> str:
    """Return a text without the repository's folder before the files in it."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "").rstrip("/")
    return content.replace(f"{workspace}/", "") if workspace else content


def _command(kind: str, title: str, message: str, place: tuple[str | Path, int] | None = None) -> str:
    """Return `::error title=…::…`, escaped like GitHub's toolkit does (packages/core/src/command.ts), at a place in a file."""
    properties = {} if place is None else {"file": _in_repository(place[0]), "line": str(place[1])}
    properties["title"] = title
    each = (f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items())
    return f"::{kind} {','.join(each)}::{_escaped(message)}"


def _in_repository(file: str | Path) -> str:
    """Return a file's name as seen from the repository's folder; outside of GitHub Actions from the working directory."""
    path = Path(file).absolute()
    if os.environ.get("GITHUB_WORKSPACE"):
        return _beside_repository(str(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _escaped(content: str) -> str:
    return terminal_safe(content).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
