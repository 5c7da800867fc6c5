"""What a measure is, a number that a trial's record holds, and which there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from whichloop.protocol.modules import meaning_in, names_in, offered_by

from .record import Record

MEASURES = "whichloop.metrics.measures"
ADDED_ORDER = 100
"""The `order` from which on measures stand that others have added: those of whichloop stand below."""
TableName = Literal["arms", "context", "injection", "calls", "troubles"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of a trial."""

    value: Callable[[Record], float | None]
    """Its value for a scored trial; None if unknown."""
    order: int
    """Its place among all measures."""
    digits: int = 2
    """Decimal places of its mean in tables."""
    label: str = ""
    """What tables call it: its name, if the file says nothing else."""
    in_dollars: bool = False
    """Tables show money last."""
    is_share: bool = False
    """Lies in [0, 1], the more the better unless it is a harm: differences and margins are in points. Of any other measure less is
    better, and a margin is a share of its mean."""
    is_harm: bool = False
    """A share of which less is better."""
    of_some: bool = False
    """Known of some trials only, those in which a certain thing happened: no measurement is missing from the others."""
    table: TableName = "arms"
    """The table that shows its mean."""
    name: str = ""
    """The name of its file."""

    def __call__(self, record: Record) -> float | None:
        """Return its value for a scored trial; None if unknown, or if the source of an imported record does not tell it."""
        return None if self.name in record.unknown else self.value(record)


def measures() -> Mapping[str, Measure]:
    """Return the measures by name, in their order. Raises ValueError, which names the file, for one that defines no measure."""
    by_file = {name: offered_by(MEASURES, name, "MEASURE", _is_measure, _RIGHT) for name in names_in(MEASURES)}
    listed = (replace(measure, name=name, label=measure.label or name) for name, measure in by_file.items())
    return {measure.name: measure for measure in sorted(listed, key=lambda measure: (measure.order, measure.name))}


_RIGHT = f"a Measure, such as Measure(lambda record: record.steps, order={ADDED_ORDER})"


def _is_measure(offered: object) -> bool:
    return isinstance(offered, Measure) and callable(offered.value)


def meaning_of(measure: str) -> str:
    """Return what a measure is, in a clause: what `whichloop list metrics` says of it, without a capital and a full stop."""
    meaning = meaning_in(MEASURES, measure).removesuffix(".")
    return meaning if meaning[:2].isupper() else f"{meaning[:1].lower()}{meaning[1:]}"


def in_table_order(listed: Mapping[str, Measure]) -> dict[str, Measure]:
    """Return the measures in the order of a table's columns: money last."""
    return dict(sorted(listed.items(), key=lambda item: item[1].in_dollars))
