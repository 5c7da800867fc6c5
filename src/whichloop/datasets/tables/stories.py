"""The stories: what is looked at and queried, in one database and from one database to another. What is asked stands in
`wording.toml`, and the answer is what the queries give."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from whichloop.protocol import Ref

from ..facts import facts
from ..generating import Draft, Draw, part
from ..story import DeadEnd, Story
from ..task import Task, WorldEnvironment
from .databases import WORDING, YEARS, Row, database
from .tools import TOOLS, Connections

MIN_NUMBER = 20
"""Smaller numbers are not asked for: a guess might hit them."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_ONE_OF = re.compile(r"SELECT .*?( FROM .* ORDER BY (\S+?)(?: DESC)?) LIMIT 1", re.DOTALL)
"""A query for the first of several rows."""


def open_desk(task: Task) -> WorldEnvironment[Connections]:
    desk = Connections()
    return WorldEnvironment(TOOLS.bound_to(desk), desk, end=Connections.close)


@cache
def _desk() -> WorldEnvironment[Connections]:
    """Return the one environment of all stories: no query changes anything."""
    return TOOLS.over(Connections())


def rows_of(table: str) -> tuple[Row, ...]:
    """Return the rows of a table such as `clinic.doctors`."""
    name, _, table = table.partition(".")
    return database(name)[table].rows


def in_words(when: str) -> str:
    """Return a day, or a month such as `2022-03`, in words."""
    year, month, *day = map(int, when.split("-"))
    return " ".join([*map(str, day), _MONTHS[month - 1], str(year)])


def spoken(first: str, last: str) -> tuple[str, str, str]:
    """Return the ends of a period, and the period in words."""
    return first, last, f"from {in_words(first)} to {in_words(last)}"


def cell(result: Ref, column: int = 0, row: int = 0) -> Ref:
    """Return a value of a query's result."""
    return part(result, "rows", row, column)


class TablesStory(Story):
    """Looks at the schema, queries, and periods of time."""

    wording = WORDING

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.looks: list[Ref] = []

    def settle(self) -> None:
        self.begin(_desk())

    def row(self, table: str) -> Row:
        return self.choice(rows_of(table))

    def look_at(self, name: str, *tables: str) -> None:
        """Plan a look at tables, which all queries from here on come after."""
        for table in tables:
            goal, arguments = f"See which columns {table} in {name} has.", {"database": name, "table": table}
            self.looks.append(self.call(goal, "describe_table", arguments))

    def look(self, goal: str, tool: str, **arguments: Any) -> None:
        """Plan another look at what is there, after those before."""
        self.looks.append(self.call(goal, tool, arguments, after=self.looks))

    def query(self, goal: str, name: str, query: str, *parameters: Any) -> Ref:
        arguments = {"database": name, "query": query} | ({"parameters": list(parameters)} if parameters else {})
        return self.call(goal, "run_sql", arguments, after=self.looks)

    def ask(self, goal: str, name: str, query: str, *parameters: Any) -> Ref:
        """Plan a query that finds something. Raises DeadEnd if there is nothing, or if several rows come first alike."""
        found = self.query(goal, name, query, *parameters)
        rows = self.seen(part(found, "rows"))
        if not rows or rows[0][0] is None:
            raise DeadEnd
        if first := _ONE_OF.fullmatch(query):
            two = f"SELECT {first[2]}{first[1]} LIMIT 2"
            asked = {"database": name, "query": two, "parameters": self.seen(list(parameters))}
            ranked = self.made("run_sql", asked)["rows"]
            if ranked[0] == ranked[-1] and len(ranked) == 2:
                raise DeadEnd
        return found

    def step(self, what: str, values: list[Any], goal: str) -> list[Ref]:
        """Plan a query of a database, and return the references to the first row's values."""
        goal, _, query = goal.partition(" SELECT ")
        found = self.ask(goal, what, f"SELECT {query}", *(value[0] if isinstance(value, list) else value for value in values))
        return [cell(found, column) for column in range(len(self.seen(part(found, "rows"))[0]))]

    def drawn(self, said: Mapping[str, str]) -> dict[str, Any]:
        """Draw what a template is about, as its wording says; a period also gives its `first` and `last` day or month."""
        known: dict[str, Any] = {**WORDING.texts["lists"], "row": self.row, "two": lambda table: self.sample(rows_of(table), 2)}
        known["period"] = lambda kind: self.months() if kind == "months" else self.period()
        known["year"] = lambda kind: int(self.period()[0][:4])
        names = facts(self, said, known)
        if "period" in names:
            names["first"], names["last"], names["period"] = names["period"]
        return names

    def period(self) -> tuple[str, str, str]:
        """Draw about half a year: the first day, the last one, and the period in words."""
        first = datetime.date(YEARS[0], 1, 1) + datetime.timedelta(self.integer(0, 364 * len(YEARS) - 220))
        last = first + datetime.timedelta(self.integer(100, 220))
        return spoken(first.isoformat(), last.isoformat())

    def months(self) -> tuple[str, str, str]:
        """Draw three to twelve months: the first, the last, and the period in words."""
        start, size = self.integer(0, 12 * len(YEARS) - 12), self.integer(2, 11)
        first, last = (f"{YEARS[0] + month // 12}-{month % 12 + 1:02d}" for month in (start, start + size))
        return spoken(first, last)

    def task(self, instance: str, answer: Any, names: Mapping[str, Any]) -> Draft:
        """`instance`: database and entity. Raises DeadEnd for an answer that stands in the question, or that a guess may hit."""
        question, expected = self.say("question", names), self.seen(answer)
        items = expected if isinstance(expected, list) else [expected]
        if any(isinstance(item, int) and item < MIN_NUMBER for item in items) or any(str(item) in question for item in items):
            raise DeadEnd
        return self.draft(f"{question} {self.wording.texts['answer_format']}", answer, instance=instance)


def _looked_up(name: str) -> Callable[[TablesStory], Draft]:
    """Make a story of what its wording draws, looks at (`database: tables`, or `tool(values): goal`) and queries.

    It is a DeadEnd if a list has one item or many.
    """

    def tell(s: TablesStory) -> Draft:
        names = s.drawn(s.wording.find(f"{name}.draws"))
        for text in s.wording.find(f"{name}.look"):
            first, _, rest = text.partition(": ")
            tool, called, values = first.partition("(")
            if called:
                given = zip(("database", "table", "limit"), filter(None, values.rstrip(")").split(", ")), strict=False)
                s.look(rest, tool, **{key: s.value(value, {}) for key, value in given})
            else:
                s.look_at(tool, *rest.split(", "))
        answer = s.follow(names)[0]
        if s.wording.find(f"{name}.is_list"):
            count = len(s.seen(Ref(answer.call, ("rows",))))
            if not 2 <= count <= 5:
                raise DeadEnd
            answer = [cell(Ref(answer.call), row=row) for row in range(count)]
        return s.task(s.say("instance", names), answer, names)

    tell.__name__ = name
    return tell


# An error on the way

_RENAMED = (
    ("clinic", "appointments", "price", "visits", "fee", "doctor_id", "day"),
    ("shipping", "trips", "boxes", "voyages", "containers", "from_port", "departed"),
    ("rentals", "hires", "nights", "rentals", "days", "bike_id", "started"),
)
"""Database, table and column as an old report has them, table and column of today, the column of what is asked about, the date."""


def old_report(s: TablesStory) -> Draft:
    name, old_table, old_column, table, column, about, day = s.choice(_RENAMED)
    first, last, _ = s.period()
    number = s.row(f"{name}.{table}")[about]
    condition = f"WHERE {about} = {number} AND {day} BETWEEN '{first}' AND '{last}'"
    old = f"SELECT SUM({old_column}) FROM {old_table} {condition}"  # noqa: S608 - a query of our own
    s.looks.append(s.call("Try the old query.", "run_sql", {"database": name, "query": old}, fails=True))
    s.look("See how the tables are called today.", "list_tables", database=name)
    s.look_at(name, table)
    new = f"SELECT SUM({column}) FROM {table} {condition}"  # noqa: S608 - a query of our own
    return s.task(f"{name}/{about}/{number}", cell(s.ask("Run it with the names of today.", name, new)), locals())


# Questions without an answer


_UNRECORDED = (
    ("clinic", "doctors", "name"), ("festival", "films", "title"), ("museum", "artists", "name"), ("school", "teachers", "name"),
    ("shipping", "vessels", "name"),
)  # fmt: skip


def unrecorded(s: TablesStory) -> Draft:
    """The table does not have what is asked for."""
    name, table, column = s.choice(_UNRECORDED)
    row = s.row(f"{name}.{table}")
    s.look(f"See which tables {name} has.", "list_tables", database=name)
    s.look_at(name, *database(name))
    period, asked = s.period()[2], s.say(name, row)
    return s.task(f"{name}/{table}/{row[column]}", None, locals())


def nobody(s: TablesStory) -> Draft:
    period, names = s.period()[2], [row["name"] for row in rows_of("clinic.patients")]
    first, last = (s.choice(names).split()[index] for index in (0, 1))
    name = f"{first} {last}"
    if name in names:
        raise DeadEnd
    s.look_at("clinic", "patients")
    query, there = "SELECT patient_id FROM patients WHERE name = ?", {"database": "clinic", "table": "patients", "column": "name"}
    s.query("Look for that name among the patients.", "clinic", query, name)
    s.look("See whose first name is the same.", "column_values", **there, starts_with=first)
    return s.task(f"clinic/patient/{name}", None, locals())


def before_the_records(s: TablesStory) -> Draft:
    month, meter = f"{s.integer(2011, 2020)}-{s.integer(1, 12):02d}", s.row("energy.meters")
    s.look_at("energy", "meters", "readings")
    found = "SELECT meter_id FROM meters WHERE serial = ?"
    number = s.ask("Find the number of the meter.", "energy", found, meter["serial"])
    query = "SELECT kwh FROM readings WHERE meter_id = ? AND month = ?"
    s.query("Find the reading of the month.", "energy", query, cell(number), month)
    month = in_words(month)
    return s.task(f"energy/meter/{meter['serial']}", None, locals())


STORIES = (
    *map(_looked_up, (
        "fuel", "dearest_visit", "next_departure", "town_of_a_meter", "same_director", "peak_month", "around_town", "two_doctors",
        "last_port",
    )),
    old_report,
    *map(_looked_up, (
        "best_course", "fullest_house", "above_average", "longest_ride", "town_of_a_film", "colleagues_rooms", "bill",
        "best_insured",
    )),
)  # fmt: skip
UNANSWERABLE = (unrecorded, nobody, before_the_records)
