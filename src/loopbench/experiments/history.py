"""What was done to a run after it began, as its manifest keeps it, and what a reader of its results has to know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from loopbench.metrics.record import Record
from loopbench.runs.store.files import RunError

RETRIED = "retried"
"""Trials that were scored and run again on request: [{"when", "what", "trials"}]."""
RESCORED = "rescored"
"""Answers that were judged again: [{"when", "suite": its digest before, "trials": whose scores changed}]."""
FORKED = "forked_from"
"""The run whose trials were taken over: {"run", "digest": of the records taken over, "trials": their number}."""
EXTENDED = "extended"
"""Arms, tasks or repeats that were added: [{"when", "trials": the schedule before, "to": the schedule since}]."""


NOTES = (RETRIED, RESCORED, EXTENDED)


def noted(manifest: Mapping[str, Any], name: str, **note: Any) -> list[Any]:
    """What a manifest keeps under a name, and one note more, with the time it was made at."""
    known = manifest.get(name)
    return [*(known if isinstance(known, list) else []), {"when": datetime.now(UTC).isoformat(timespec="seconds"), **note}]


def notes_on(manifest: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """What a manifest notes of some of its records, which another run takes over.

    Which trials a note means was not kept: it counts at most as many as it can mean, of those run again the records of a later
    attempt, and falls away where that is none. That a schedule was extended is no matter of records. Raises RunError.
    """
    most = {RETRIED: sum(record.attempt > 0 for record in records), RESCORED: len(records)}
    try:
        notes = {
            name: [{**note, "trials": min(int(note["trials"]), count)} for note in manifest.get(name, [])]
            for name, count in most.items()
            if count
        }
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"manifest.json: {type(error).__name__}: {error}") from None
    return {name: made for name, made in notes.items() if made}


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What makes a run's results say more than they should. Raises KeyError or TypeError for a damaged manifest."""
    again = sum(int(note["trials"]) for note in manifest.get(RETRIED, []))
    if again:
        yield f"{again} trials that had crashed or timed out were run again on request: what they show is favourable"


def remarks_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What else a reader has to know. Raises KeyError or TypeError for a damaged manifest."""
    for note in manifest.get(RESCORED, []):
        yield f"Judged again on {note['when']}: the scores of {note['trials']} trials changed."
    if FORKED in manifest:
        yield f"{manifest[FORKED]['trials']} trials were taken over from {manifest[FORKED]['run']}."
