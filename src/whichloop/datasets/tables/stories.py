"""The stories: what is looked at and queried, in one database and from one database to another. What is asked stands in
`wording.toml`, and the answer is what the queries give."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, Template, part
from ..story import DeadEnd, Story, told_by
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
    desk = Connections()
    return WorldEnvironment(TOOLS.bound_to(desk), desk)


def in_words(when: str) -> str:
    """Return a day, or a month such as `2022-03`, in words."""
    year, month, *day = map(int, when.split("-"))
    return " ".join([*map(str, day), _MONTHS[month - 1], str(year)])


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

    def row(self, name: str, table: str) -> Row:
        return self.choice(database(name)[table].rows)

    def look_at(self, name: str, *tables: str) -> None:
        """Plan a look at tables, which all queries from here on come after."""
        for table in tables:
            self.look(f"See which columns {table} in {name} has.", "describe_table", database=name, table=table, after=())

    def look(self, goal: str, tool: str, *, after: tuple[Ref, ...] | None = None, fails: bool = False, **arguments: Any) -> None:
        """Plan another look at what is there, after those before."""
        seen = self.call(goal, tool, arguments, after=self.looks if after is None else after, fails=fails)
        self.looks.append(seen)

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
            arguments = {
                "database": name,
                "query": f"SELECT {first[2]}{first[1]} LIMIT 2",
                "parameters": self.seen(list(parameters)),
            }
            ranked = self.made("run_sql", arguments)["rows"]
            if ranked[0] == ranked[-1] and len(ranked) == 2:
                raise DeadEnd
        return found

    def step(self, what: str, values: list[Any], goal: str) -> list[Ref]:
        """Plan a query of a database, and return the references to the first row's values."""
        goal, _, query = goal.partition(" SELECT ")
        found = self.ask(goal, what, f"SELECT {query}", *(value[0] if isinstance(value, list) else value for value in values))
        return [cell(found, column) for column in range(len(self.seen(part(found, "rows"))[0]))]

    def period(self) -> tuple[str, str, str]:
        """Draw about half a year: the first day, the last one, and the period in words."""
        first = datetime.date(YEARS[0], 1, 1) + datetime.timedelta(self.integer(0, 364 * len(YEARS) - 220))
        last = first + datetime.timedelta(self.integer(100, 220))
        return self.spoken(first.isoformat(), last.isoformat())

    def months(self) -> tuple[str, str, str]:
        """Draw three to twelve months: the first, the last, and the period in words."""
        start, size = self.integer(0, 12 * len(YEARS) - 12), self.integer(2, 11)
        first, last = (f"{YEARS[0] + month // 12}-{month % 12 + 1:02d}" for month in (start, start + size))
        return self.spoken(first, last)

    def spoken(self, first: str, last: str) -> tuple[str, str, str]:
        return first, last, f"from {in_words(first)} to {in_words(last)}"

    def look_around(self) -> None:
        """Plan the template's looks: `database: tables`, or `tool(values): goal`."""
        for text in self.wording.find(f"{self.name}.look"):
            first, _, rest = text.partition(": ")
            tool, called, values = first.partition("(")
            if called:
                given = zip(("database", "table", "limit"), filter(None, values.rstrip(")").split(", ")), strict=False)
                self.look(rest, tool, **{name: self.value(value, {}) for name, value in given})
            else:
                self.look_at(tool, *rest.split(", "))

    def solve(self, names: Mapping[str, Any]) -> Draft:
        """Return the task whose looks and queries stand in the wording. Raises DeadEnd for a list of one or of many."""
        self.look_around()
        answer = self.follow(names)[0]
        if self.wording.find(f"{self.name}.is_list"):
            count = len(self.seen(Ref(answer.call, ("rows",))))
            if not 2 <= count <= 5:
                raise DeadEnd
            answer = [cell(Ref(answer.call), row=row) for row in range(count)]
        return self.task(self.say("instance", names), answer, names)

    def task(self, instance: str, answer: Any, names: Mapping[str, Any]) -> Draft:
        """`instance`: database and entity. Raises DeadEnd for an answer that stands in the question, or that a guess may hit."""
        question, expected = self.say("question", names), self.seen(answer)
        items = expected if isinstance(expected, list) else [expected]
        if any(isinstance(item, int) and item < MIN_NUMBER for item in items) or any(str(item) in question for item in items):
            raise DeadEnd
        return self.draft(f"{question} {self.wording.texts['answer_format']}", answer, instance=instance)


template = told_by(TablesStory)

# One look-up after the other: what is drawn; looks and queries stand in the wording


def _about(name: str, what: str, database_name: str, table: str, *, in_months: bool = False) -> Template:
    """Make a template that draws a period of time, and the row of a table that it begins with."""

    def tell(s: TablesStory) -> Draft:
        first, last, period = s.months() if in_months else s.period()
        return s.solve({"first": first, "last": last, "period": period, what: s.row(database_name, table)})

    tell.__name__ = name
    return template(tell)


@template
def two_doctors(s: TablesStory) -> Draft:
    first, last, period = s.period()
    names = [doctor["name"] for doctor in s.sample(database("clinic")["doctors"].rows, 2)]
    return s.solve(locals())


@template
def best_course(s: TablesStory) -> Draft:
    least, year, teacher = s.integer(10, 80), int(s.period()[0][:4]), s.row("school", "teachers")
    return s.solve(locals())


@template
def colleagues_rooms(s: TablesStory) -> Draft:
    room, student = s.integer(101, 400), s.row("school", "enrolments")["student"]
    return s.solve(locals())


@template
def above_average(s: TablesStory) -> Draft:
    (first, last, period), town, margin = s.months(), s.choice(WORDING.texts["lists"]["towns"]), s.integer(5, 150)
    return s.solve(locals())


# An error on the way

_RENAMED = (
    ("clinic", "appointments", "price", "visits", "fee", "doctor_id", "day"),
    ("shipping", "trips", "boxes", "voyages", "containers", "from_port", "departed"),
    ("rentals", "hires", "nights", "rentals", "days", "bike_id", "started"),
)
"""Database, table and column as an old report has them, table and column of today, the column of what is asked about, the date."""


@template
def old_report(s: TablesStory) -> Draft:
    name, old_table, old_column, table, column, about, day = s.choice(_RENAMED)
    first, last, _ = s.period()
    number = s.row(name, table)[about]
    condition = f"WHERE {about} = {number} AND {day} BETWEEN '{first}' AND '{last}'"
    old = f"SELECT SUM({old_column}) FROM {old_table} {condition}"  # noqa: S608 - a query of our own
    s.look("Try the old query.", "run_sql", database=name, query=old, after=(), fails=True)
    s.look("See how the tables are called today.", "list_tables", database=name)
    s.look_at(name, table)
    new = f"SELECT SUM({column}) FROM {table} {condition}"  # noqa: S608 - a query of our own
    return s.task(f"{name}/{about}/{number}", cell(s.ask("Run it with the names of today.", name, new)), locals())


# Questions without an answer


_UNRECORDED = (
    ("clinic", "doctors", "name"), ("festival", "films", "title"), ("museum", "artists", "name"), ("school", "teachers", "name"),
    ("shipping", "vessels", "name"),
)  # fmt: skip


@template
def unrecorded(s: TablesStory) -> Draft:
    """The table does not have what is asked for."""
    name, table, column = s.choice(_UNRECORDED)
    row = s.row(name, table)
    s.look(f"See which tables {name} has.", "list_tables", database=name)
    s.look_at(name, *database(name))
    period, asked = s.period()[2], s.say(name, row)
    return s.task(f"{name}/{table}/{row[column]}", None, locals())


@template
def nobody(s: TablesStory) -> Draft:
    period, names = s.period()[2], [row["name"] for row in database("clinic")["patients"].rows]
    first, last = (s.choice(names).split()[index] for index in (0, 1))
    name = f"{first} {last}"
    if name in names:
        raise DeadEnd
    s.look_at("clinic", "patients")
    query = "SELECT patient_id FROM patients WHERE name = ?"
    s.query("Look for that name among the patients.", "clinic", query, name)
    arguments = {"database": "clinic", "table": "patients", "column": "name", "starts_with": first}
    s.look("See whose first name is the same.", "column_values", **arguments)
    return s.task(f"clinic/patient/{name}", None, locals())


@template
def before_the_records(s: TablesStory) -> Draft:
    month, meter = f"{s.integer(2011, 2020)}-{s.integer(1, 12):02d}", s.row("energy", "meters")
    s.look_at("energy", "meters", "readings")
    found = "SELECT meter_id FROM meters WHERE serial = ?"
    number = s.ask("Find the number of the meter.", "energy", found, meter["serial"])
    query = "SELECT kwh FROM readings WHERE meter_id = ? AND month = ?"
    s.query("Find the reading of the month.", "energy", query, cell(number), month)
    month = in_words(month)
    return s.task(f"energy/meter/{meter['serial']}", None, locals())


TEMPLATES = (
    _about("fuel", "port", "shipping", "ports"),
    _about("dearest_visit", "patient", "clinic", "patients"),
    _about("next_departure", "vessel", "shipping", "vessels"),
    _about("town_of_a_meter", "meter", "energy", "meters"),
    _about("same_director", "film", "festival", "films"),
    _about("peak_month", "meter", "energy", "meters", in_months=True),
    _about("around_town", "meter", "energy", "meters"),
    two_doctors,
    _about("last_port", "vessel", "shipping", "vessels"),
    old_report,
    best_course,
    _about("fullest_house", "film", "festival", "films"),
    above_average,
    _about("longest_ride", "rental", "rentals", "rentals"),
    _about("town_of_a_film", "film", "festival", "films"),
    colleagues_rooms,
    _about("bill", "meter", "energy", "meters", in_months=True),
    _about("best_insured", "artist", "museum", "artists"),
)
UNANSWERABLE = (unrecorded, nobody, before_the_records)
