"""What the templates are told with: looks at the schema, queries, periods of time, and the draw that begins anew at a dead end; and
the stories that lead from one database to another, have an error on the way, or no answer."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, part, told_by
from whichloop.protocol import Ref

from .databases import YEARS, Row, database

ANSWER_FORMAT = (
    "Answer with the number or the name alone, or with the names separated by commas."
    ' If it cannot be determined, the right answer is "not determined".'
)
MIN_NUMBER = 20
"""Smaller numbers are not asked for: a guess might hit them."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip

Item = TypeVar("Item")


class Story:
    """A task being told: the draw, and the plan so far."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.plan = PlanWriter()
        self._results_so_far: list[Ref] = []

    def look_at(self, database: str, *tables: str) -> None:
        """Plan a look at tables, which all queries from here on come after."""
        for table in tables:
            goal = f"See which columns {table} in {database} has."
            self._results_so_far.append(self.plan.call(goal, "describe_table", {"database": database, "table": table}))

    def call(self, goal: str, tool: str, **arguments: Any) -> None:
        """Plan another look at what is there, after those before."""
        self._results_so_far.append(self.plan.call(goal, tool, arguments, after=self._results_so_far))

    def ask(self, goal: str, database: str, query: str, *parameters: Any) -> Ref:
        """Plan a query, and return its result."""
        arguments = {"database": database, "query": query} | ({"parameters": list(parameters)} if parameters else {})
        return self.plan.call(goal, "run_sql", arguments, after=self._results_so_far)

    def failing(self, goal: str, database: str, query: str) -> None:
        """Plan a query that does not work."""
        self._results_so_far.append(self.plan.call(goal, "run_sql", {"database": database, "query": query}, fails=True))

    def period(self) -> tuple[str, str, str]:
        """Draw about half a year: the first day, the last one, and the period in words."""
        first = datetime.date(YEARS[0], 1, 1) + datetime.timedelta(self.draw.integer(0, 364 * len(YEARS) - 220))
        last = first + datetime.timedelta(self.draw.integer(100, 220))
        return first.isoformat(), last.isoformat(), f"from {_day(first)} to {_day(last)}"

    def months(self) -> tuple[str, str, str]:
        """Draw three to twelve months: the first, the last, and the period in words."""
        start, size = self.draw.integer(0, 12 * len(YEARS) - 12), self.draw.integer(2, 11)
        first, last = (f"{YEARS[0] + month // 12}-{month % 12 + 1:02d}" for month in (start, start + size))
        return first, last, f"from {named_month(first)} to {named_month(last)}"

    def task(self, instance: str, question: str, answer: Any, expected: Any, scorer: str = "numeric") -> Draft:
        """`instance`: database and entity. Raises DeadEnd for an answer that stands in the question, or that a guess may hit."""
        items = expected if isinstance(expected, list) else [expected]
        if any(isinstance(item, int) and item < MIN_NUMBER for item in items) or any(str(item) in question for item in items):
            raise DeadEnd
        return Draft(f"{question} {ANSWER_FORMAT}", self.plan.plan(answer), expected, scorer, instance=instance)


template = told_by(Story)


def cell(result: Ref, column: int = 0, row: int = 0) -> Ref:
    """Return a value of a query's result."""
    return part(result, "rows", row, column)


def first_column(result: Ref, expected: Sequence[str]) -> list[Ref]:
    """Return the first column of a result. Raises DeadEnd unless it has two to five rows."""
    if not 2 <= len(expected) <= 5:
        raise DeadEnd
    return [cell(result, row=row) for row in range(len(expected))]


def named_month(month: str) -> str:
    """Return `2022-03` in words."""
    return f"{_MONTHS[int(month[5:]) - 1]} {month[:4]}"


def _day(day: datetime.date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def top(rows: Iterable[Item], size: Callable[[Item], Any]) -> Item:
    """Return the item of the largest size. Raises DeadEnd if there is no such item, or more than one."""
    ranked = sorted(rows, key=size, reverse=True)
    if not ranked or (len(ranked) > 1 and size(ranked[0]) == size(ranked[1])):
        raise DeadEnd
    return ranked[0]


def earliest(rows: Iterable[Row], column: str) -> Row:
    """Return the row of the earliest date. Raises DeadEnd if there is no such row, or more than one."""
    ranked = sorted(rows, key=lambda row: str(row[column]))
    if not ranked or (len(ranked) > 1 and ranked[0][column] == ranked[1][column]):
        raise DeadEnd
    return ranked[0]


def between(rows: Iterable[Row], column: str, first: str, last: str) -> list[Row]:
    """Return the rows with a date, or a month, from first to last."""
    return [row for row in rows if first <= row[column] <= last]


def total(rows: Iterable[Row], column: str) -> int:
    """Return the sum of a column. Raises DeadEnd if it is 0: without rows, SQL's sum is NULL."""
    amount: int = sum(row[column] for row in rows)
    if not amount:
        raise DeadEnd
    return amount


def numbers(rows: Iterable[Row], column: str) -> set[Any]:
    """Return the values of a column."""
    return {row[column] for row in rows}


# An error on the way

_RENAMED = (
    ("clinic", "appointments", "price", "visits", "fee", "doctor_id", "day"),
    ("shipping", "trips", "boxes", "voyages", "containers", "from_port", "departed"),
    ("rentals", "hires", "nights", "rentals", "days", "bike_id", "started"),
)
"""Database, table and column as an old report has them, table and column of today, the column of what is asked about, the date."""


@template
def old_report(story: Story) -> Draft:
    name, old_table, old_column, table, column, about, day = story.draw.choice(_RENAMED)
    first, last, _ = story.period()
    number = story.draw.choice(database(name)[table])[about]
    condition = f"WHERE {about} = {number} AND {day} BETWEEN '{first}' AND '{last}'"
    old = f"SELECT SUM({old_column}) FROM {old_table} {condition}"  # noqa: S608 - a query of our own
    story.failing("Try the old query.", name, old)
    story.call("See how the tables are called today.", "list_tables", database=name)
    story.look_at(name, table)
    new = f"SELECT SUM({column}) FROM {table} {condition}"  # noqa: S608 - a query of our own
    figure = story.ask("Run it with the names of today.", name, new)
    return story.task(
        f"{name}/{about}/{number}",
        f"An old report on the database {name} got a figure by `{old}`. Since then the table {old_table} and its column"
        f" {old_column} have been given other names. What is the figure?",
        cell(figure),
        total(between(database(name).where(table, about, number), day, first, last), column),
    )


# Questions without an answer

_UNRECORDED = (
    ("clinic", "doctors", "How many years of practice has the doctor {}?", "name"),
    ("festival", "films", 'What did it cost to make the film "{}"?', "title"),
    ("museum", "artists", "In which year did the artist {} die?", "name"),
    ("school", "teachers", "What is the salary of the teacher {}?", "name"),
    ("shipping", "vessels", "How many people are in the crew of the {}?", "name"),
)
"""Database, table, question, and the column with the name: the table does not have what is asked for."""


@template
def unrecorded(story: Story) -> Draft:
    name, table, question, column = story.draw.choice(_UNRECORDED)
    row = story.draw.choice(database(name)[table])
    story.call(f"See which tables {name} has.", "list_tables", database=name)
    story.look_at(name, *database(name).tables)
    ending = question.format(row[column])
    _, _, period = story.period()
    return story.task(
        f"{name}/{table}/{row[column]}", f"A report on the time {period} asks this of the database {name}: {ending}", None, None
    )


@template
def nobody(story: Story) -> Draft:
    clinic, (_, _, period) = database("clinic"), story.period()
    names = [row["name"] for row in clinic["patients"]]
    first, last = (story.draw.choice(names).split()[index] for index in (0, 1))
    name = f"{first} {last}"
    if name in names:
        raise DeadEnd
    story.look_at("clinic", "patients")
    story.ask("Look for that name among the patients.", "clinic", "SELECT patient_id FROM patients WHERE name = ?", name)
    arguments = {"database": "clinic", "table": "patients", "column": "name", "starts_with": first}
    story.call("See whose first name is the same.", "column_values", **arguments)
    return story.task(f"clinic/patient/{name}", f"What did the clinic's patient {name} pay for visits {period}?", None, None)


@template
def before_the_records(story: Story) -> Draft:
    energy, month = database("energy"), f"{story.draw.integer(2011, 2020)}-{story.draw.integer(1, 12):02d}"
    meter = story.draw.choice(energy["meters"])
    story.look_at("energy", "meters", "readings")
    meter_number = story.ask(
        "Find the number of the meter.", "energy", "SELECT meter_id FROM meters WHERE serial = ?", meter["serial"]
    )
    query = "SELECT kwh FROM readings WHERE meter_id = ? AND month = ?"
    story.ask("Find the reading of the month.", "energy", query, cell(meter_number), month)
    question = f"How many kWh did meter {meter['serial']} of the database energy count in {named_month(month)}?"
    return story.task(f"energy/meter/{meter['serial']}", question, None, None)


@template
def town_of_a_meter(story: Story) -> Draft:
    energy, rentals, (first, last, period) = database("energy"), database("rentals"), story.period()
    meter = story.draw.choice(energy["meters"])
    shops = numbers(rentals.where("shops", "town", meter["town"]), "shop_id")
    bikes = {row["bike_id"] for row in rentals["bikes"] if row["shop_id"] in shops}
    begun = [row for row in between(rentals["rentals"], "started", first, last) if row["bike_id"] in bikes]
    story.call("See which databases there are.", "list_databases")
    story.look_at("energy", "meters")
    story.look_at("rentals", "shops", "rentals")
    town = story.ask("Find the meter's town.", "energy", "SELECT town FROM meters WHERE serial = ?", meter["serial"])
    query = (
        "SELECT SUM(r.days) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id JOIN shops s ON s.shop_id = b.shop_id"
        " WHERE s.town = ? AND r.started BETWEEN ? AND ?"
    )
    days = story.ask("Add up the rental days of the town's shops.", "rentals", query, cell(town), first, last)
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"Electricity meter {meter['serial']} hangs in some town. For how many days in all were bikes of that town's shops rented,"
        f" counting the rentals that began {period}?",
        cell(days),
        total(begun, "days"),
    )


@template
def town_of_a_film(story: Story) -> Draft:
    festival, clinic, (first, last, period) = database("festival"), database("clinic"), story.period()
    film = story.draw.choice(festival["films"])
    fullest = top(festival.where("screenings", "film_id", film["film_id"]), lambda row: row["tickets"])
    town = festival.where("venues", "venue_id", fullest["venue_id"])[0]["town"]
    doctors = numbers(clinic.where("doctors", "town", town), "doctor_id")
    earned = [row for row in between(clinic["visits"], "day", first, last) if row["doctor_id"] in doctors]
    story.call("See what databases there are to look into.", "list_databases")
    story.look_at("festival", "screenings", "venues")
    story.look_at("clinic", "visits", "doctors")
    query = (
        "SELECT v.town FROM screenings s JOIN films f ON f.film_id = s.film_id JOIN venues v ON v.venue_id = s.venue_id"
        " WHERE f.title = ? ORDER BY s.tickets DESC LIMIT 1"
    )
    found = story.ask("Find the town of the fullest screening.", "festival", query, film["title"])
    query = "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.town = ? AND v.day BETWEEN ? AND ?"
    fees = story.ask("Add up the fees of the doctors of that town.", "clinic", query, cell(found), first, last)
    return story.task(
        f"festival/film/{film['title']}",
        f'The film "{film["title"]}" filled most seats in some town\'s cinema. What fees did the doctors of that town earn at the'
        f" clinic {period} altogether?",
        cell(fees),
        total(earned, "fee"),
    )


@template
def around_town(story: Story) -> Draft:
    """Three databases, and two branches that part at the town and meet in the end."""
    energy, festival, rentals = database("energy"), database("festival"), database("rentals")
    first, last, period = story.period()
    meter = story.draw.choice(energy["meters"])
    venues = numbers(festival.where("venues", "town", meter["town"]), "venue_id")
    shops = numbers(rentals.where("shops", "town", meter["town"]), "shop_id")
    sold = [row for row in between(festival["screenings"], "day", first, last) if row["venue_id"] in venues]
    bikes = [row for row in rentals["bikes"] if row["shop_id"] in shops]
    dearest = top(bikes, lambda row: row["daily_rate"])
    story.call("See what all the databases are called.", "list_databases")
    story.look_at("energy", "meters")
    story.look_at("festival", "venues")
    story.look_at("rentals", "bikes")
    town = story.ask(
        "Find the town in which the meter hangs.", "energy", "SELECT town FROM meters WHERE serial = ?", meter["serial"]
    )
    query = "SELECT venue_id FROM venues WHERE town = ?"
    venue = story.ask("Find the cinema of that town.", "festival", query, cell(town))
    query = "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?"
    tickets = story.ask("Add up the tickets of that cinema.", "festival", query, cell(venue), first, last)
    query = (
        "SELECT b.bike_id FROM bikes b JOIN shops s ON s.shop_id = b.shop_id WHERE s.town = ? ORDER BY b.daily_rate DESC LIMIT 1"
    )
    bike = story.ask("Find the dearest bike in that town.", "rentals", query, cell(town))
    days = story.ask("Add up the days of that bike.", "rentals", "SELECT SUM(days) FROM rentals WHERE bike_id = ?", cell(bike))
    both = story.ask("Subtract days from tickets.", "rentals", "SELECT ? - ?", cell(tickets), cell(days))
    return story.task(
        f"energy/meter/{meter['serial']}",
        f"There is one festival cinema in the town where electricity meter {meter['serial']} hangs. From the number of tickets"
        f" it sold {period}, subtract the number of days for which the bike with the highest daily rate of that town's shops has"
        " ever been rented. What is left?",
        cell(both),
        total(sold, "tickets") - total(rentals.where("rentals", "bike_id", dearest["bike_id"]), "days"),
    )
