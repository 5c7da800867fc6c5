"""How a form comes about: fields that are schema, planned answer and expected answer at once, and the desk where they are filled.

A `Value` is a reference to what a tool will give, beside the same value worked out from the facts, without the tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from whichloop.datasets.generating import Draft, Draw, PlanWriter, draw_new, part, plain_number
from whichloop.protocol import Ref, resolve

from .records import FormRecord, Records, altered

ANSWER_FORMAT = (
    "Answer with one JSON object that has exactly the fields of the form, in any order. "
    "Amounts are not rounded unless a rounding is asked for; what the records leave open is null."
)
SCORER = "schema(tolerance=1e-9)"
DATE = r"\d{4}-\d{2}-\d{2}"
EASY, MEDIUM = 10, 14
"""Most calls of an easy plan, and of a medium one."""

Filled = tuple[str, Mapping[str, "FormField"]]
"""The question, and the form's fields."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the answer, as planned and as expected."""

    answer: Any
    """The value in the plan: a reference, or a literal."""
    expected: Any


@dataclass(frozen=True, slots=True)
class FormField:
    """A part of a form."""

    schema: Mapping[str, Any]
    value: Value


# --- leaves ---


def text(value: Value) -> FormField:
    return FormField({"type": "string", "minLength": 1}, value)


def whole(value: Value, least: int = 0) -> FormField:
    return FormField({"type": "integer", "minimum": least}, value)


def number(value: Value) -> FormField:
    return FormField({"type": "number"}, value)


def yes_no(value: Value) -> FormField:
    return FormField({"type": "boolean"}, value)


def day(value: Value) -> FormField:
    return FormField({"type": "string", "pattern": f"^{DATE}$"}, value)


def coded(value: Value, pattern: str) -> FormField:
    return FormField({"type": "string", "pattern": f"^{pattern}$"}, value)


def one_of(value: Value, options: Sequence[str]) -> FormField:
    return FormField({"enum": list(options)}, value)


def or_null(leaf: FormField) -> FormField:
    """Return the same leaf, which may also be null."""
    if "enum" in leaf.schema:
        return FormField({"enum": [*leaf.schema["enum"], None]}, leaf.value)
    return FormField({**leaf.schema, "type": [leaf.schema["type"], "null"]}, leaf.value)


def rows(items: Sequence[FormField], least: int, most: int) -> FormField:
    """Return a list of equally shaped fields."""
    value = Value([item.value.answer for item in items], [item.value.expected for item in items])
    return FormField({"type": "array", "items": items[0].schema, "minItems": least, "maxItems": most}, value)


def blank(schema: Mapping[str, Any]) -> str:
    """Return a schema as an empty form, for loops that have no place for schemas."""
    kinds = schema.get("type", "enum")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "object":
        return "{" + ", ".join(f'"{name}": {blank(inner)}' for name, inner in schema["properties"].items()) + "}"
    if kind == "array":
        return f"[{schema['minItems']} to {schema['maxItems']} times {blank(schema['items'])}]"
    if kind == "enum":
        return " or ".join(json.dumps(option) for option in schema["enum"])
    pattern = schema.get("pattern", "").strip("^$")
    form = "YYYY-MM-DD" if pattern == DATE else f"text like {pattern}" if pattern else _KINDS[kind]
    return f"{form} or null" if isinstance(kinds, list) else form


_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


# --- the desk ---


class Desk:
    """A task as it is being written: what is on record, the plan that looks it up, and the form."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.records = Records()
        self.plan = PlanWriter()
        self._results: dict[str, Any] = {}
        self._planned_calls: dict[str, Ref] = {}
        self._names: dict[str, str] = {}

    # records

    def file(
        self,
        kind: str,
        sections: Mapping[str, Mapping[str, Any]],
        *,
        reference: Value | str,
        withdrawn: Mapping[str, str] | None = None,
    ) -> Opened:
        """Put a record on file, with another one beside it that looks like it; plan to find it."""
        literal = reference.expected if isinstance(reference, Value) else reference
        record = FormRecord(self._new_id(), kind, literal, sections, withdrawn or {})
        self.records.add(record)
        twin = {name: altered(self.draw, section) for name, section in sections.items()}
        self.records.add(FormRecord(self._new_id(), kind, _similar(literal), twin))
        reference_text = reference.answer if isinstance(reference, Value) else reference
        record_id = self.call(
            f"Find the record of the {kind}.",
            "find_record",
            {"kind": kind, "reference": reference_text},
            {"record": record.id},
            "record",
        )
        return Opened(self, record, record_id)

    def _new_id(self) -> str:
        return draw_new(self.records.by_id, lambda: f"R-{self.draw.integer(10_000, 99_999)}")

    def code(self, table: str, meanings: Mapping[str, str], value: Value) -> Value:
        """Plan to look a code up; `meanings`: the whole code table."""
        self.records.tables[table] = dict(meanings)
        goal = f"Look up code {len(self.plan.calls)} in the table {table}."
        return self.call(goal, "look_up_code", {"table": table, "code": value.answer}, {"means": meanings[value.expected]}, "means")

    # arithmetic, planned and worked out

    def times(self, goal: str, a: Value, b: Value) -> Value:
        return self._number(goal, "multiply", {"a": a.answer, "b": b.answer}, _exact(a) * _exact(b))

    def minus(self, goal: str, a: Value, b: Value) -> Value:
        return self._number(goal, "subtract", {"a": a.answer, "b": b.answer}, _exact(a) - _exact(b))

    def divided_by(self, goal: str, a: Value, b: Value) -> Value:
        return self._number(goal, "divide", {"a": a.answer, "b": b.answer}, _exact(a) / _exact(b))

    def percent(self, goal: str, percent: Value, of: Value) -> Value:
        arguments = {"percent": percent.answer, "number": of.answer}
        return self._number(goal, "percent_of", arguments, _exact(percent) * _exact(of) / 100)

    def sum(self, goal: str, values: Iterable[Value]) -> Value:
        summed = list(values)
        return self._number(
            goal, "sum_values", {"values": [value.answer for value in summed]}, sum(map(_exact, summed), Fraction())
        )

    def rounded(self, goal: str, value: Value, digits: int = 2) -> Value:
        return self._number(goal, "round_to", {"number": value.answer, "digits": digits}, _rounded(_exact(value), digits))

    def units(self, goal: str, value: Value, units: tuple[str, str], factor: str) -> Value:
        """Plan a conversion. `factor`: how many of the second unit make one of the first, as a decimal."""
        arguments = {"value": value.answer, "from_unit": units[0], "to_unit": units[1]}
        return self._number(goal, "convert_units", arguments, _exact(value) * Fraction(factor))

    def currency(self, goal: str, value: Value, source: str, target: str) -> Value:
        arguments = {"amount": value.answer, "from_currency": source, "to_currency": target}
        rates = self.records.rates
        return self._number(
            goal, "convert_currency", arguments, _rounded(_exact(value) * Fraction(rates[source]) / Fraction(rates[target]), 2)
        )

    def days(self, goal: str, start: Value, end: Value) -> Value:
        between = date.fromisoformat(end.expected).toordinal() - date.fromisoformat(start.expected).toordinal()
        return self.call(goal, "days_between", {"start": start.answer, "end": end.answer}, between)

    def later(self, goal: str, start: Value, days: Value) -> Value:
        then = date.fromordinal(date.fromisoformat(start.expected).toordinal() + days.expected)
        return self.call(goal, "add_days", {"start": start.answer, "days": days.answer}, then.isoformat())

    def _number(self, goal: str, tool: str, arguments: Mapping[str, Any], result: Fraction) -> Value:
        return self.call(goal, tool, arguments, plain_number(result))

    def call(self, goal: str, tool: str, arguments: Mapping[str, Any], result: Any, *path: str | int) -> Value:
        """Plan a call, or use an equal one that is planned already.

        `result`: what it will give, as far as that matters; `path`: the part of it that is wanted.
        """
        key = f"{tool}{resolve(arguments, self._results)}"
        if key not in self._planned_calls:
            reply = self._planned_calls[key] = self.plan.call(goal, tool, arguments)
            self._results[reply.call] = result
        wanted = part(self._planned_calls[key], *path)
        return Value(wanted, wanted.of(result))

    # the form

    def name(self, options: str) -> str:
        """Draw one of several names for a field, `lines|items|positions`; the same whenever it is asked for."""
        if options not in self._names:
            self._names[options] = self.draw.choice(options.split("|"))
        return self._names[options]

    def group(self, parts: Mapping[str, FormField]) -> FormField:
        """Return an object whose fields stand in random order, under one of the names that each may have."""
        fields = {self.name(options): inner for options, inner in parts.items()}
        order = self.draw.shuffled(list(fields))
        schema = {
            "type": "object",
            "properties": {name: fields[name].schema for name in order},
            "required": order,
            "additionalProperties": False,
        }
        value = Value({name: fields[name].value.answer for name in order}, {name: fields[name].value.expected for name in order})
        return FormField(schema, value)

    def draft(self, key: Mapping[str, Any], question: str, form: Mapping[str, FormField]) -> Draft:
        """Return the task. `key`: what the records are drawn from again."""
        root = self.group(form)
        plan = self.plan.plan(root.value.answer)
        calls = len(plan.calls)
        return Draft(
            f"{question} {ANSWER_FORMAT}",
            plan,
            root.value.expected,
            SCORER,
            context=f"The form, with what may stand in each field:\n{blank(root.schema)}",
            schema=root.schema,
            world=key,
            difficulty="easy" if calls <= EASY else "medium" if calls <= MEDIUM else "hard",
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A record that the plan has found."""

    desk: Desk
    record: FormRecord
    id: Value

    def __getitem__(self, section: str) -> FetchedSection:
        """Return a section, which the plan fetches when it is first asked for."""
        facts = self.record.sections[section]
        arguments = {"record": self.id.answer, "section": section}
        return FetchedSection(self.desk.call(f"Fetch {section} of the {self.record.kind}.", "fetch", arguments, facts))

    def is_withdrawn(self, section: str) -> bool:
        """Return whether a section no longer counts; if so, the plan meets the error."""
        if section not in self.record.withdrawn:
            return False
        arguments = {"record": self.id.answer, "section": section}
        self.desk.plan.call(f"Try to fetch {section} of the {self.record.kind}.", "fetch", arguments, fails=True)
        return True


@dataclass(frozen=True, slots=True)
class FetchedSection:
    """A section that the plan has fetched."""

    fetched: Value

    def __getitem__(self, name: str) -> Value:
        return Value(part(self.fetched.answer, name), self.fetched.expected[name])


@dataclass(frozen=True, slots=True)
class Calendar:
    """Dates of one task, drawn."""

    draw: Draw
    first: date = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", date(2019, 1, 1) + timedelta(self.draw.integer(0, 2_000)))

    def after(self, least: int, most: int) -> str:
        """Draw a day that is `least` to `most` days after the first one."""
        return (self.first + timedelta(self.draw.integer(least, most))).isoformat()


def _exact(value: Value) -> Fraction:
    return Fraction(repr(value.expected))


def _rounded(number: Fraction, digits: int) -> Fraction:
    """Round halves away from zero."""
    scaled = abs(number) * 10**digits
    return (-1 if number < 0 else 1) * Fraction((2 * scaled + 1) // 2, 10**digits)


def _similar(reference: str) -> str:
    """Return a reference that is easily mistaken for this one: its last digits trade places, or the last one is another."""
    swapped = reference[:-2] + reference[:-3:-1]
    return swapped if swapped != reference else f"{reference[:-1]}{(int(reference[-1]) + 1) % 10}"


PEOPLE = (
    "Abel Okoro", "Beata Lind", "Cem Aydin", "Dora Kovacs", "Emil Novak", "Farah Aziz", "Goran Petrov", "Hilde Brandt",
    "Isla Murray", "Joao Pinto", "Kaito Mori", "Lea Fontaine", "Mina Rahimi", "Nils Dahl", "Olga Orlova", "Paolo Ricci",
    "Rosa Diaz", "Samir Haddad", "Tove Berg", "Uma Nair",
)  # fmt: skip
TOWNS = (
    "Alverton", "Brackwater", "Calder Bay", "Dunmore", "Eastholm", "Farrow", "Glenrock", "Hartwell", "Inverlea", "Jarrow Point",
    "Kestrel Cove", "Lowmarsh", "Millbrook", "Northgate", "Oldcastle", "Penhurst", "Quarryton", "Redcliff", "Stonebridge",
    "Thornby",
)  # fmt: skip
FIRMS = (
    "Aster Works", "Borealis Foods", "Cobalt Tools", "Delta Glass", "Ember Textiles", "Fjord Marine", "Granite Labs", "Helix Print",
    "Indigo Rail", "Juniper Farms", "Keystone Paper", "Lumen Optics", "Meridian Air", "Nimbus Data", "Orchard Crafts",
)  # fmt: skip
GOODS = (
    "bolts", "brackets", "cable drums", "castors", "clamps", "filters", "gaskets", "hinges", "hoses", "lamps",
    "panels", "pumps", "rollers", "sensors", "springs", "valves",
)  # fmt: skip
COUNTRIES = ("AT", "BE", "CA", "CH", "DE", "DK", "ES", "FR", "GB", "IT", "NL", "NO", "PL", "PT", "SE", "US")

_EURO_CENTS = {"USD": (84, 98), "GBP": (112, 121), "CHF": (101, 108), "SEK": (8, 10), "PLN": (21, 25), "CAD": (62, 70)}
"""Currency → euro cents for one of it, from and to."""


def currencies(desk: Desk, count: int) -> list[str]:
    """Draw different currencies, with rates on record for them and for others."""
    draw = desk.draw
    rates = {name: f"0.{draw.integer(low * 100, high * 100):04d}" for name, (low, high) in _EURO_CENTS.items() if high < 100}
    rates |= {
        name: f"1.{draw.integer(low * 100, high * 100) % 10_000:04d}" for name, (low, high) in _EURO_CENTS.items() if low > 100
    }
    desk.records.rates = {"EUR": "1", **rates}
    return draw.sample(list(desk.records.rates), count)


def code_table(draw: Draw, letter: str, meanings: Sequence[str]) -> dict[str, str]:
    """Draw codes such as W17, anew for each task: nobody can know what they mean."""
    return {
        f"{letter}{number}": meaning for number, meaning in zip(draw.sample(range(11, 99), len(meanings)), meanings, strict=True)
    }


def numbered(name: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return sections `line 1`, `line 2`, …"""
    return {f"{name} {place}": item for place, item in enumerate(items, 1)}


def cents(draw: Draw, low: int, high: int) -> float:
    """Draw an amount with two decimals; `low` and `high` in cents."""
    return draw.integer(low, high) / 100
