"""Why arms part, in sentences: as `run.why()` and `loopbench.why` print."""

from __future__ import annotations

from dataclasses import dataclass, fields

from loopbench.experiments.compare.results import Results
from loopbench.experiments.why.arms import pairs_named
from loopbench.experiments.why.why import PairLosses, Why, why
from loopbench.runs.store.files import RunError
from loopbench.text.plain_text import plain_line

from .notebook import block

TITLE = "Where arms part, and why the one that did not solve a task lost it"
NO_PAIRS = "No two arms of this run have the same tasks and profile."


@dataclass(frozen=True, slots=True, repr=False)
class ShownWhy(Why):
    """The losses of a run and their causes, printed as a sentence for each pair."""

    def __repr__(self) -> str:
        """Return a line for each pair."""
        return "\n".join(plain_line(sentence) for sentence in partings(self))

    def _repr_html_(self) -> str:
        """Return the same for a notebook; every text is escaped."""
        return block(TITLE, partings(self), ())


def shown_why(run: Results, a: str | None = None, b: str | None = None, *, task: str | None = None) -> ShownWhy:
    """Say why trials were lost: between two arms or loops by name, or between all comparable pairs. `task`: only its trials.

    Raises RunError for one name without the other, a name that no arm or task has, and for traces that cannot be read.
    """
    if (a is None) != (b is None):
        raise RunError("why: name two arms or loops, a and b, or none; a task goes by its name, task=…")
    pairs = None if a is None or b is None else pairs_named(run, a, b)
    found = why(run, pairs=pairs, task=task)
    return ShownWhy(**{item.name: getattr(found, item.name) for item in fields(found)})


def partings(found: Why) -> list[str]:
    """Return a sentence for each pair, or the one that says that there is none."""
    return [_parting(pair) for pair in found.pairs] or [NO_PAIRS]


def _parting(pair: PairLosses) -> str:
    """Return a sentence on the tasks on which two arms differ, and on the causes of their losses."""
    lost = [
        f"{arm} lost by {', '.join(f'{cause} {count}' for cause, count in causes.items())}"
        for arm, causes in pair.causes.items()
        if causes
    ]
    return "; ".join([f"{pair.a} against {pair.b}: {pair.counts}", *lost])
