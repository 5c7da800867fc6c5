"""How a form comes about: fields that are schema and planned answer at once, and the desk where they are filled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from whichloop.protocol import Ref, resolve

from ..generating import Draft, Draw, draw_new, part
from ..story import Story, Wording
from .records import FormRecord, Records, altered, environment

SCORER = "schema(tolerance=1e-9)"
DATE = r"\d{4}-\d{2}-\d{2}"
EASY, MEDIUM = 10, 14
"""Most calls of an easy plan, and of a medium one."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A part of a form."""

    schema: Mapping[str, Any]
    value: Any
    """The value in the plan: a reference, a literal, or a structure of both."""


Form = Mapping[str, FormField]


# --- leaves ---


def text(value: Any) -> FormField:
    return FormField({"type": "string", "minLength": 1}, value)


def whole(value: Any, least: int = 0) -> FormField:
    return FormField({"type": "integer", "minimum": least}, value)


def number(value: Any) -> FormField:
    return FormField({"type": "number"}, value)


def yes_no(value: Any) -> FormField:
    return FormField({"type": "boolean"}, value)


def day(value: Any) -> FormField:
    return coded(value, DATE)


def coded(value: Any, pattern: str) -> FormField:
    return FormField({"type": "string", "pattern": f"^{pattern}$"}, value)


def one_of(value: Any, options: Sequence[str]) -> FormField:
    return FormField({"enum": list(options)}, value)


def or_null(leaf: FormField) -> FormField:
    """Return the same leaf, which may also be null."""
    if "enum" in leaf.schema:
        return FormField({"enum": [*leaf.schema["enum"], None]}, leaf.value)
    return FormField({**leaf.schema, "type": [leaf.schema["type"], "null"]}, leaf.value)


def rows(items: Sequence[FormField], least: int, most: int) -> FormField:
    """Return a list of equally shaped fields."""
    schema = {"type": "array", "items": items[0].schema, "minItems": least, "maxItems": most}
    return FormField(schema, [item.value for item in items])


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


_LEAVES: Mapping[str, Callable[..., FormField]] = {
    "text": text, "whole": whole, "number": number, "yes_no": yes_no, "day": day, "coded": coded, "one_of": one_of,
}  # fmt: skip


# --- the desk ---


class Desk(Story):
    """A task as it is being written: what is on record, the plan that looks it up, and the form."""

    wording = Wording(__file__)

    def __init__(self, draw: Draw, name: str) -> None:
        super().__init__(draw)
        self.name, self.request = name, ""
        self.records = Records()
        self._planned: dict[str, Ref] = {}
        self._names: dict[str, str] = {}

    def settle(self) -> None:
        self.begin(environment(self.records))

    def ask(self, names: Mapping[str, Any]) -> None:
        """Word what is asked for."""
        self.request = self.say("wish", names)

    # records

    def file(
        self, kind: str, sections: Mapping[str, Any], *, reference: Ref | str, withdrawn: Mapping[str, str] | None = None
    ) -> Opened:
        """Put a record on file, with another one beside it that looks like it; plan to find it."""
        literal = self.seen(reference)
        record = FormRecord(self._new_id(), kind, literal, sections, withdrawn or {})
        self.records.add(record)
        twin = {name: altered(self, section) for name, section in sections.items()}
        self.records.add(FormRecord(self._new_id(), kind, _similar(literal), twin))
        found = self.once(f"Find the record of the {kind}.", "find_record", {"kind": kind, "reference": reference})
        return Opened(self, record, part(found, "record"))

    def _new_id(self) -> str:
        return draw_new(self.records.by_id, lambda: f"R-{self.integer(10_000, 99_999)}")

    def code(self, table: str, meanings: Mapping[str, str], code: Ref) -> Ref:
        """Plan to look a code up; `meanings`: the whole code table."""
        self.records.tables[table] = dict(meanings)
        goal = f"Look up code {len(self.calls)} in the table {table}."
        return part(self.once(goal, "look_up_code", {"table": table, "code": code}), "means")

    # arithmetic

    def times(self, goal: str, a: Any, b: Any) -> Ref:
        return self.once(goal, "multiply", {"a": a, "b": b})

    def minus(self, goal: str, a: Any, b: Any) -> Ref:
        return self.once(goal, "subtract", {"a": a, "b": b})

    def divided_by(self, goal: str, a: Any, b: Any) -> Ref:
        return self.once(goal, "divide", {"a": a, "b": b})

    def percent(self, goal: str, percent: Any, of: Any) -> Ref:
        return self.once(goal, "percent_of", {"percent": percent, "number": of})

    def sum(self, goal: str, values: Iterable[Any]) -> Ref:
        return self.once(goal, "sum_values", {"values": list(values)})

    def rounded(self, goal: str, value: Any, digits: int = 2) -> Ref:
        return self.once(goal, "round_to", {"number": value, "digits": digits})

    def units(self, goal: str, value: Any, source: str, target: str) -> Ref:
        return self.once(goal, "convert_units", {"value": value, "from_unit": source, "to_unit": target})

    def currency(self, goal: str, value: Any, source: str, target: str) -> Ref:
        return self.once(goal, "convert_currency", {"amount": value, "from_currency": source, "to_currency": target})

    def days(self, goal: str, start: Any, end: Any) -> Ref:
        return self.once(goal, "days_between", {"start": start, "end": end})

    def later(self, goal: str, start: Any, days: Any) -> Ref:
        return self.once(goal, "add_days", {"start": start, "days": days})

    def once(self, goal: str, tool: str, arguments: Mapping[str, Any]) -> Ref:
        """Plan a call, or use an equal one that is planned already."""
        key = f"{tool}{resolve(arguments, self.results)}"
        if key not in self._planned:
            self._planned[key] = self.call(goal, tool, arguments)
        return self._planned[key]

    # the form

    def group(self, parts: Form) -> FormField:
        """Return an object whose fields stand in random order, under one of the names that each may have, `lines|items`.

        A field with the same choice of names has the same name wherever it stands.
        """
        fields = {}
        for options, inner in parts.items():
            if options not in self._names:
                self._names[options] = self.choice(options.split("|"))
            fields[self._names[options]] = inner
        order = self.shuffled(list(fields))
        schema = {
            "type": "object",
            "properties": {name: fields[name].schema for name in order},
            "required": order,
            "additionalProperties": False,
        }
        return FormField(schema, {name: fields[name].value for name in order})

    def fill(self, names: Mapping[str, Any]) -> Draft:
        """Return the task with the template's form: a line for each field, with the fields of a group, or of a row, below it."""
        return self.form(self._fields(self.wording.find(f"{self.name}.form").splitlines(), names))

    def _fields(self, lines: Sequence[str], names: Mapping[str, Any]) -> dict[str, FormField]:
        starts = [place for place, line in enumerate(lines) if not line.startswith(" ")]
        fields = {}
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            options, _, said = lines[start].partition(": ")
            fields[options] = self._field(said, [line[2:] for line in lines[start + 1 : end]], names)
        return fields

    def _field(self, said: str, below: Sequence[str], names: Mapping[str, Any]) -> FormField:
        """Read `rows MIN MAX each in lists`, `rows MIN MAX list`, a leaf, or nothing, which is a group."""
        if not said:
            return self.group(self._fields(below, names))
        kind, value, *further = said.split(" ", 2)
        if kind == "rows":
            most, _, items = further[0].partition(" ")
            each, is_loop, lists = items.partition(" in ")
            if is_loop:
                of_rows = zip(*(names[name] for name in lists.split(", ")), strict=True)
                filled = [
                    self.group(self._fields(below, {**names, **dict(zip(each.split(", "), row, strict=True))})) for row in of_rows
                ]
            else:
                filled = names[items]
            low, _, high = most.partition("-")
            return rows(filled, int(value), self.integer(int(low), int(high)) if high else int(low))
        first, *path = value.split(".")
        found = names[first]
        for part_of in path:
            found = found[part_of]
        leaf = _LEAVES[kind.rstrip("?")](found, *(self._options(kind, text, names) for text in further))
        return or_null(leaf) if kind.endswith("?") else leaf

    def _options(self, kind: str, text: str, names: Mapping[str, Any]) -> Any:
        """Return what stands behind a leaf's value: a least number, a pattern, or the options of an enumeration."""
        if not kind.startswith("one_of"):
            return int(text) if kind.startswith("whole") else text
        how, _, name = text.rpartition(" ")
        options = _OPTIONS.get(name, name.split(",") if "," in name else name)
        match how:
            case "shuffled":
                return self.shuffled(options)
            case "values":
                return sorted(names[name].values())
        return sorted(self.records.rates) if name == "rates" else options

    def form(self, form: Form) -> Draft:
        """Return the task."""
        root, calls = self.group(form), len(self.calls)
        return self.draft(
            f"{self.request} {self.wording.texts['answer_format']}",
            root.value,
            SCORER,
            context=f"The form, with what may stand in each field:\n{blank(root.schema)}",
            schema=root.schema,
            difficulty="easy" if calls <= EASY else "medium" if calls <= MEDIUM else "hard",
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A record that the plan has found."""

    desk: Desk
    record: FormRecord
    id: Ref

    def __getitem__(self, section: str) -> FetchedSection:
        """Return a section, which the plan fetches when it is first asked for."""
        arguments = {"record": self.id, "section": section}
        return FetchedSection(self.desk.once(f"Fetch {section} of the {self.record.kind}.", "fetch", arguments))

    def is_withdrawn(self, section: str) -> bool:
        """Return whether a section no longer counts; if so, the plan meets the error."""
        if section not in self.record.withdrawn:
            return False
        arguments = {"record": self.id, "section": section}
        self.desk.call(f"Try to fetch {section} of the {self.record.kind}.", "fetch", arguments, fails=True)
        return True


@dataclass(frozen=True, slots=True)
class FetchedSection:
    """A section that the plan has fetched."""

    fetched: Ref

    def __getitem__(self, name: str) -> Ref:
        return part(self.fetched, name)


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

SEVERITIES = ("negligible", "minor", "moderate", "major", "critical")
CARRIERS = ("bus", "ferry", "plane", "train", "tram")
ANALYTES = ("cadmium", "chromium", "copper", "iron", "lead", "manganese", "nickel", "zinc")
REASONS = ("contaminated", "expired reagent", "spilled", "wrong label")
COURSES = ("starter", "main", "side", "dessert")
_OPTIONS: Mapping[str, Sequence[str]] = {
    "ANALYTES": ANALYTES, "CARRIERS": CARRIERS, "COUNTRIES": COUNTRIES, "COURSES": COURSES, "REASONS": REASONS,
    "SEVERITIES": SEVERITIES,
}  # fmt: skip
"""What an enumeration of a form may name."""

_EURO_CENTS = {"USD": (84, 98), "GBP": (112, 121), "CHF": (101, 108), "SEK": (8, 10), "PLN": (21, 25), "CAD": (62, 70)}
"""Currency → euro cents for one of it, from and to."""


def currencies(desk: Desk, count: int) -> list[str]:
    """Draw different currencies, with rates on record for them and for others."""
    draw = desk
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
