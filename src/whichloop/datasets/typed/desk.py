"""How a form comes about: facts are drawn and filed, a plan looks them up, and its fields are schema and planned answer at once.

The wording of a form has its facts and its fields: a line for each field, `names it may have: kind value`, with the fields of a
group, or of each row, below it.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

from whichloop.protocol import Ref, resolve

from ..facts import drawn, facts, options
from ..generating import Draft, Draw, draw_new, part
from ..story import Story, Wording
from .records import FormRecord, Records, altered, environment

DATE = r"\d{4}-\d{2}-\d{2}"
EASY, MEDIUM = 10, 14
"""Most calls of an easy plan, and of a medium one."""
ARGUMENTS = {tool.name: tuple(tool.parameters["properties"]) for tool in environment(Records()).tools}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "number": {"type": "number"},
    "yes_no": {"type": "boolean"},
    "day": {"type": "string", "pattern": f"^{DATE}$"},
}
_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
_EURO_CENTS = {"USD": (84, 98), "SEK": (8, 10), "PLN": (21, 25), "CAD": (62, 70), "GBP": (112, 121), "CHF": (101, 108)}
"""Currency → euro cents for one of it, from and to."""


class FormField(NamedTuple):
    """A part of a form."""

    schema: Mapping[str, Any]
    value: Any
    """The value in the plan: a reference, a literal, or a structure of both."""


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


class Desk(Story):
    """A task as it is being written: what is on record, the plan that looks it up, and the form."""

    wording = Wording(__file__)

    def __init__(self, draw: Draw, name: str) -> None:
        super().__init__(draw)
        self.name, self.records = name, Records()
        self.begin(environment(self.records))
        self._planned: dict[str, Ref] = {}
        self._names: dict[str, str] = {}

    # facts

    def start_calendar(self) -> None:
        """Draw the day from which the days of the task are counted."""
        self._first = date(2019, 1, 1) + timedelta(self.integer(0, 2_000))

    def draw_codes(self) -> None:
        """Draw the form's code tables, such as W17, anew for each task: nobody can know what they mean."""
        for table, (letter, *meanings) in self.wording.find(f"{self.name}.codes").items():
            numbers = self.sample(range(11, 99), len(meanings))
            self.records.tables[table] = dict(zip((f"{letter}{number}" for number in numbers), meanings, strict=True))

    def currencies(self, count: int) -> list[str]:
        """Draw different currencies, with rates on record for them and for others."""
        rates = {name: f"{self.integer(low * 100, high * 100) / 10_000:.4f}" for name, (low, high) in _EURO_CENTS.items()}
        self.records.rates = {"EUR": "1", **rates}
        return self.sample(list(self.records.rates), count)

    def drawn(self, said: str) -> Any:
        return drawn(self, said, self._known)

    def options(self, said: str) -> Sequence[Any]:
        return options(said, self._known)

    @property
    def _known(self) -> dict[str, Any]:
        codes = {table: list(meanings) for table, meanings in self.records.tables.items()}
        return {**self.wording.texts["lists"], **codes, "day": lambda days: (self._first + timedelta(days)).isoformat()}

    def facts(self, key: str, **names: Any) -> dict[str, Any]:
        """Draw the facts that the form's wording has under a key. `names`: values that they may name."""
        return facts(self, self.wording.find(f"{self.name}.{key}"), {**self._known, **names})

    def rows(self, key: str, options: str, count: int) -> list[dict[str, Any]]:
        """Draw facts for so many different options, each of which is called `each` there."""
        return [self.facts(key, each=item) for item in self.sample(self.options(options), count)]

    # records

    def file(self, kind: str, reference: Ref | str, withdrawn: Mapping[str, str] | None = None, **sections: Any) -> Opened:
        """Put a record on file, with another one beside it that looks like it; plan to find it.

        `reference`: as a fact, or as the plan finds it. `sections`: facts, or a list of them, which are numbered.
        """
        reference = self.drawn(reference) if isinstance(reference, str) else reference
        literal, withdrawn, filed = self.seen(reference), withdrawn or {}, dict[str, Mapping[str, Any]]()
        for name, section in sections.items():
            rows = section if isinstance(section, list) else ()
            filed |= {f"{name} {place}": row for place, row in enumerate(rows, 1)} if rows else {name: section}
        filed = {name: section for name, section in filed.items() if name not in withdrawn}
        record = self._add(kind, literal, filed, withdrawn)
        swapped = literal[:-2] + literal[:-3:-1]  # easily mistaken: the last digits trade places, or the last one is another
        similar = swapped if swapped != literal else f"{literal[:-1]}{(int(literal[-1]) + 1) % 10}"
        self._add(kind, similar, {name: altered(self, section) for name, section in filed.items()}, {})
        found = self.once(f"Find the record of the {kind}.", "find_record", kind, reference)
        return Opened(self, record, part(found, "record"))

    def _add(self, kind: str, reference: str, sections: Mapping[str, Any], withdrawn: Mapping[str, str]) -> FormRecord:
        number = draw_new(self.records.by_id, lambda: f"R-{self.integer(10_000, 99_999)}")
        self.records.by_id[number] = FormRecord(number, kind, reference, sections, withdrawn)
        return self.records.by_id[number]

    # the plan

    def once(self, goal: str, tool: str, *values: Any) -> Ref:
        """Plan a call, or use an equal one that is planned already. `values`: of the tool's arguments, in their order."""
        arguments = dict(zip(ARGUMENTS[tool], values, strict=True))
        key = f"{tool}{resolve(arguments, self.results)}"
        if key not in self._planned:
            self._planned[key] = self.call(goal, tool, arguments)
        return self._planned[key]

    def for_each(self, goal: str, tool: str, rows: Sequence[Mapping[str, Any]], *names: str) -> list[Ref]:
        """Plan a call with these values of each row, whose number stands in the goal."""
        return [self.once(goal.format(place), tool, *(row[name] for name in names)) for place, row in enumerate(rows, 1)]

    def code(self, table: str, code: Ref) -> Ref:
        """Plan to look a code up."""
        return part(self.once(f"Look up code {len(self.calls)} in the table {table}.", "look_up_code", table, code), "means")

    def rounded(self, goal: str, value: Ref, digits: int = 2) -> Ref:
        return self.once(goal, "round_to", value, digits)

    # the form

    def fill(self, names: Mapping[str, Any]) -> Draft:
        """Return the task with the form's request and fields."""
        request = self.say("wish", names)
        root, calls = self.row("form", names), len(self.calls)
        return self.draft(
            f"{request} {self.wording.texts['answer_format']}",
            root.value,
            "schema(tolerance=1e-9)",
            context=f"The form, with what may stand in each field:\n{blank(root.schema)}",
            schema=root.schema,
            difficulty="easy" if calls <= EASY else "medium" if calls <= MEDIUM else "hard",
        )

    def row(self, key: str, names: Mapping[str, Any]) -> FormField:
        """Return a group of the fields that the form's wording has under a key."""
        return self._group(self.wording.find(f"{self.name}.{key}").splitlines(), names)

    def _group(self, lines: Sequence[str], names: Mapping[str, Any]) -> FormField:
        """Return an object whose fields stand in random order, under one of the names that each may have, `lines|items`.

        A field with the same choice of names has the same name wherever it stands.
        """
        starts = [place for place, line in enumerate(lines) if not line.startswith(" ")]
        filled = {}
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            options, _, said = lines[start].partition(": ")
            filled[options] = self._field(said, [line[2:] for line in lines[start + 1 : end]], names)
        fields = {}
        for options, inner in filled.items():
            if options not in self._names:
                self._names[options] = self.choice(options.split("|"))
            fields[self._names[options]] = inner
        order = self.shuffled(list(fields))
        properties = {name: fields[name].schema for name in order}
        schema = {"type": "object", "properties": properties, "required": order, "additionalProperties": False}
        return FormField(schema, {name: fields[name].value for name in order})

    def _field(self, said: str, below: Sequence[str], names: Mapping[str, Any]) -> FormField:
        """Read `rows MIN MAX each in lists`, `rows MIN MAX list`, a leaf, or nothing, which is a group."""
        if not said:
            return self._group(below, names)
        kind, value, *further = said.split(" ", 2)
        if kind == "rows":
            most, _, items = further[0].partition(" ")
            each, is_loop, lists = items.partition(" in ")
            rows: Sequence[FormField] = () if is_loop else names[items]
            for row in zip(*(names[name] for name in lists.split(", ")), strict=True) if is_loop else ():
                rows = [*rows, self._group(below, {**names, **dict(zip(each.split(", "), row, strict=True))})]
            low, _, high = most.partition("-")
            longest = self.integer(int(low), int(high)) if high else int(low)
            schema = {"type": "array", "items": rows[0].schema, "minItems": int(value), "maxItems": longest}
            return FormField(schema, [row.value for row in rows])
        return FormField(self._schema(kind, "".join(further)), functools.reduce(operator.getitem, value.split("."), names))

    def _schema(self, kind: str, further: str) -> Mapping[str, Any]:
        """Return the schema of a leaf. `further`: its least number, its pattern, or what it is one of."""
        match kind.rstrip("?"):
            case "whole":
                schema: Mapping[str, Any] = {"type": "integer", "minimum": int(further or 0)}
            case "coded":
                schema = {"type": "string", "pattern": f"^{further}$"}
            case "one_of":
                schema = {"enum": self._enumeration(further)}
            case plain:
                schema = _SCHEMAS[plain]
        if not kind.endswith("?"):
            return schema
        return {"enum": [*schema["enum"], None]} if "enum" in schema else {**schema, "type": [schema["type"], "null"]}

    def _enumeration(self, said: str) -> list[str]:
        """Return the options of an enumeration: the meanings of a code table, `rates`, or options as facts have them."""
        how, _, name = said.rpartition(": ")
        table = self.records.tables.get(name)
        options = list(table.values()) if table else [*self.records.rates] if name == "rates" else list(self.options(name))
        return self.shuffled(options) if how == "shuffled" else sorted(options) if how == "sorted" else options


@dataclass(frozen=True, slots=True)
class Opened:
    """A record that the plan has found."""

    desk: Desk
    on_file: FormRecord
    id: Ref

    def __getitem__(self, section: str) -> dict[str, Ref]:
        """Return the values of a section, which the plan fetches when it is first asked for."""
        fetched = self.desk.once(f"Fetch {section} of the {self.on_file.kind}.", "fetch", self.id, section)
        return {name: part(fetched, name) for name in self.on_file.sections[section]}

    def each(self, name: str) -> Iterator[dict[str, Ref]]:
        """Fetch the numbered sections of a name, one after the other."""
        return (self[section] for section in self.on_file.sections if section.startswith(f"{name} "))

    def is_withdrawn(self, section: str) -> bool:
        """Return whether a section no longer counts; if so, the plan meets the error."""
        if section in self.on_file.withdrawn:
            arguments = {"record": self.id, "section": section}
            self.desk.call(f"Try to fetch {section} of the {self.on_file.kind}.", "fetch", arguments, fails=True)
        return section in self.on_file.withdrawn
