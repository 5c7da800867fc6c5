"""The records system: small sections of typed values behind references, code tables, exchange rates and a calendar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from whichloop.datasets.task import Toolset, WorldEnvironment, look_up
from whichloop.protocol import Tool

from .. import calculator
from ..generating import Draw

MAX_VALUES = 100


class RecordNotFound(LookupError):
    """No record, section or code of that name."""


class ResultWithdrawn(PermissionError):
    """A section that was there and no longer counts."""


@dataclass(frozen=True, slots=True)
class FormRecord:
    """One record: what a reference leads to."""

    id: str
    kind: str
    reference: str
    sections: Mapping[str, Mapping[str, Any]]
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    """Section → why it no longer counts."""


@dataclass(slots=True)
class Records:
    """All that the tools of one task look up. No tool changes it."""

    by_id: dict[str, FormRecord] = field(default_factory=dict)
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    """Table → code → what it means."""
    rates: dict[str, str] = field(default_factory=dict)
    """Currency → euros for one of it, as a decimal."""


def find_record(records: Records, kind: str, reference: str) -> dict[str, Any]:
    """Find the record of a kind (such as invoice) by its exact reference; gives its id and the names of its sections."""
    found = [record for record in records.by_id.values() if (record.kind, record.reference) == (kind, reference)]
    if not found:
        kinds = ", ".join(sorted({record.kind for record in records.by_id.values()}))
        raise RecordNotFound(f"no {kind[:40]!r} has the reference {reference[:40]!r}; there are records of the kinds {kinds}")
    return {"record": found[0].id, "sections": [*found[0].sections, *found[0].withdrawn]}


def fetch(records: Records, record: str, section: str) -> dict[str, Any]:
    """Fetch one section of a record: names and values."""
    form = _record(records, record)
    if section in form.withdrawn:
        raise ResultWithdrawn(f"section {section!r} of {record} was withdrawn, reason: {form.withdrawn[section]}")
    return dict(_section(form, section))


def fetch_draft(records: Records, record: str, section: str) -> dict[str, Any]:
    """Fetch one section of a record as it was first entered, before anyone had checked it."""
    return altered(Draw("typed", "draft", record, section), _section(_record(records, record), section))


def look_up_code(records: Records, table: str, code: str) -> dict[str, str]:
    """What a code of a code table means."""
    problem = f"no code table {table[:40]!r}; there are {', '.join(records.tables) or 'none'}"
    meanings = look_up(records.tables, table, problem, RecordNotFound)
    problem = f"the code table {table!r} has no {code[:40]!r}; it has {', '.join(meanings)}"
    return {"code": code, "means": look_up(meanings, code, problem, RecordNotFound)}


def convert_currency(records: Records, amount: float, from_currency: str, to_currency: str) -> calculator.Number:
    """Convert an amount at the rate of the day, rounded to cents. Currencies are three letters, such as EUR."""
    unknown = [name for name in (from_currency, to_currency) if name not in records.rates]
    if unknown:
        raise RecordNotFound(f"no rate for {unknown[0]!r}; there are rates for {', '.join(records.rates) or 'none'}")
    euros = calculator.exact(amount) * Decimal(records.rates[from_currency])
    return _number((euros / Decimal(records.rates[to_currency])).quantize(Decimal("0.01"), ROUND_HALF_UP))


def days_between(start: str, end: str) -> int:
    """Days from one date to another, both as YYYY-MM-DD; negative where the second is earlier."""
    return (_date(end) - _date(start)).days


def add_days(start: str, days: int) -> str:
    """The date so many days after another one, as YYYY-MM-DD; a negative number goes back."""
    first = _date(start)
    if not (date.min - first).days <= days <= (date.max - first).days:
        raise ValueError(f"{days} days from {start} is beyond the calendar")
    return (first + timedelta(days)).isoformat()


def sum_values(values: list[float]) -> calculator.Number:
    """The sum of up to 100 numbers."""
    if not 1 <= len(values) <= MAX_VALUES:
        raise ValueError(f"{len(values)} values were given, and there must be 1 to {MAX_VALUES}")
    return _number(sum(map(calculator.exact, values), Decimal()))


def altered(draw: Draw, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with the same names and other numbers and dates."""
    return {name: _altered(draw, value) for name, value in section.items()}


def _altered(draw: Draw, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw.integer(1, 9)
    if isinstance(value, float):
        return round(value * draw.integer(81, 119) / 100 + 0.11, 2)
    try:
        return (date.fromisoformat(value) - timedelta(draw.integer(1, 40))).isoformat()
    except (TypeError, ValueError):  # no date
        return value


def _record(records: Records, record: str) -> FormRecord:
    return look_up(
        records.by_id, record, f"no record {record[:40]!r}; ids look like R-12345, and find_record gives them", RecordNotFound
    )


def _section(record: FormRecord, section: str) -> Mapping[str, Any]:
    problem = f"{record.id} has no section {section!r}; it has {', '.join(record.sections)}"
    return look_up(record.sections, section, problem, RecordNotFound)


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:  # other forms of ISO 8601 are read as well
        raise ValueError(f"{text[:40]!r} is no date as YYYY-MM-DD")
    return day


def _number(value: Decimal) -> calculator.Number:
    return int(value) if value == value.to_integral_value() else float(value)


_TOOLSET: Toolset[Records] = Toolset(find_record, fetch, fetch_draft, look_up_code, convert_currency, writes=())
_PURE = (
    *(Tool.from_function(function, blocking=False, read_only=True) for function in (days_between, add_days, sum_values)),
    *calculator.tools("multiply", "subtract", "divide", "percent_of", "round_to", "convert_units"),
)


def environment(records: Records) -> WorldEnvironment[Records]:
    """Return the tools over these records."""
    return WorldEnvironment((*_TOOLSET.bound_to(records), *_PURE), records)
