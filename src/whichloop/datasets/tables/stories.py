"""The stories: what is looked at and queried, in one database and from one database to another. What is asked stands in
`wording.toml`, and the answer is what the queries give."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, part
from ..story import DeadEnd, Story, Wording, told_by
from ..task import WorldEnvironment
from .databases import TOWNS, YEARS, Row, database
from .tools import TOOLS, Connections

MIN_NUMBER = 20
"""Smaller numbers are not asked for: a guess might hit them."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_ONE_OF = re.compile(r"SELECT .*?( FROM .* ORDER BY (\S+?)(?: DESC)?) LIMIT 1", re.DOTALL)
"""A query for the first of several rows."""


def open_desk(world: Mapping[str, Any]) -> WorldEnvironment[Connections]:
    desk = Connections()
    return WorldEnvironment(TOOLS.bound_to(desk), desk, end=Connections.close)


@cache
def _desk() -> WorldEnvironment[Connections]:
    """Return the one environment of all stories: no query changes anything."""
    return open_desk({})


def in_words(when: str) -> str:
    """Return a day, or a month such as `2022-03`, in words."""
    year, month, *day = map(int, when.split("-"))
    return " ".join([*map(str, day), _MONTHS[month - 1], str(year)])


def cell(result: Ref, column: int = 0, row: int = 0) -> Ref:
    """Return a value of a query's result."""
    return part(result, "rows", row, column)


class TablesStory(Story):
    """Looks at the schema, queries, and periods of time."""

    wording = Wording(__file__)

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.looks: list[Ref] = []

    def settle(self) -> None:
        self.begin(_desk())

    def row(self, name: str, table: str) -> Row:
        return self.choice(database(name)[table])

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

    def number_of(self, goal: str, name: str, table: str, column: str, known_by: str, value: Any) -> Ref:
        """Plan to look up a value of the row that is known by another one."""
        return self.ask(goal, name, f"SELECT {column} FROM {table} WHERE {known_by} = ?", value)  # noqa: S608 - names of our own

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

    def column(self, result: Ref) -> list[Ref]:
        """Return the first column of a result. Raises DeadEnd unless it has two to five rows."""
        count = len(self.seen(part(result, "rows")))
        if not 2 <= count <= 5:
            raise DeadEnd
        return [cell(result, row=row) for row in range(count)]

    def task(self, instance: str, answer: Any, names: Mapping[str, Any]) -> Draft:
        """`instance`: database and entity. Raises DeadEnd for an answer that stands in the question, or that a guess may hit."""
        question, expected = self.say("question", names), self.seen(answer)
        items = expected if isinstance(expected, list) else [expected]
        if any(isinstance(item, int) and item < MIN_NUMBER for item in items) or any(str(item) in question for item in items):
            raise DeadEnd
        return self.draft(f"{question} {self.wording.texts['answer_format']}", answer, instance=instance)


template = told_by(TablesStory)

# Clinic


@template
def dearest_visit(s: TablesStory) -> Draft:
    (first, last, period), patient = s.period(), s.row("clinic", "patients")
    s.look_at("clinic", "patients", "visits")
    number = s.number_of("Find the patient's number.", "clinic", "patients", "patient_id", "name", patient["name"])
    query = "SELECT doctor_id FROM visits WHERE patient_id = ? ORDER BY fee DESC LIMIT 1"
    doctor = s.ask("Find the doctor of the dearest visit.", "clinic", query, cell(number))
    query = "SELECT SUM(fee) FROM visits WHERE doctor_id = ? AND day BETWEEN ? AND ?"
    fees = s.ask("Add up the fees of that doctor.", "clinic", query, cell(doctor), first, last)
    return s.task(f"clinic/patient/{patient['name']}", cell(fees), locals())


@template
def two_doctors(s: TablesStory) -> Draft:
    first, last, period = s.period()
    names = [doctor["name"] for doctor in s.sample(database("clinic")["doctors"], 2)]
    s.look_at("clinic", "doctors", "visits")
    query = "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.name = ? AND v.day BETWEEN ? AND ?"
    sums = [s.ask(f"Add up the fees of {name}.", "clinic", query, name, first, last) for name in names]
    apart = s.ask("Subtract one sum from the other.", "clinic", "SELECT abs(? - ?)", *map(cell, sums))
    return s.task(f"clinic/doctor/{names[0]}", cell(apart), locals())


# Shipping


@template
def fuel(s: TablesStory) -> Draft:
    (first, last, period), port = s.period(), s.row("shipping", "ports")
    s.look_at("shipping", "voyages", "ports")
    query = (
        "SELECT SUM(v.fuel) FROM voyages v JOIN ports p ON p.port_id = v.to_port WHERE p.name = ? AND v.departed BETWEEN ? AND ?"
    )
    burnt = s.ask("Add up the fuel.", "shipping", query, port["name"], first, last)
    return s.task(f"shipping/port/{port['name']}", cell(burnt), locals())


@template
def last_port(s: TablesStory) -> Draft:
    (first, last, period), vessel = s.period(), s.row("shipping", "vessels")
    s.look_at("shipping", "vessels", "voyages")
    number = s.number_of("Find the vessel's number.", "shipping", "vessels", "vessel_id", "name", vessel["name"])
    query = "SELECT to_port FROM voyages WHERE vessel_id = ? AND departed BETWEEN ? AND ? ORDER BY departed DESC LIMIT 1"
    port = s.ask("Find where its last voyage went.", "shipping", query, cell(number), first, last)
    query = "SELECT SUM(containers) FROM voyages WHERE from_port = ? AND departed BETWEEN ? AND ?"
    containers = s.ask("Add up the containers that left that port.", "shipping", query, cell(port), first, last)
    return s.task(f"shipping/vessel/{vessel['name']}", cell(containers), locals())


@template
def next_departure(s: TablesStory) -> Draft:
    """The way goes from ship to port to ship to port: five queries, each from the one before."""
    (first, last, period), vessel = s.period(), s.row("shipping", "vessels")
    s.look_at("shipping", "vessels", "voyages")
    number = s.number_of("Find the number of the first vessel.", "shipping", "vessels", "vessel_id", "name", vessel["name"])
    query = (
        "SELECT to_port, departed FROM voyages WHERE vessel_id = ? AND departed BETWEEN ? AND ? ORDER BY containers DESC LIMIT 1"
    )
    fullest = s.ask("Find the fullest of its voyages.", "shipping", query, cell(number), first, last)
    query = "SELECT vessel_id, to_port FROM voyages WHERE from_port = ? AND departed > ? ORDER BY departed LIMIT 1"
    following = s.ask("Find the next voyage from there.", "shipping", query, cell(fullest), cell(fullest, 1))
    query = "SELECT SUM(fuel) FROM voyages WHERE vessel_id = ? AND to_port <> ?"
    burnt = s.ask("Add up the fuel of its other voyages.", "shipping", query, cell(following), cell(following, 1))
    query = "SELECT ? + capacity FROM vessels WHERE vessel_id = ?"
    whole = s.ask("Add the capacity of that vessel.", "shipping", query, cell(burnt), cell(following))
    return s.task(f"shipping/vessel/{vessel['name']}", cell(whole), locals())


# School


@template
def best_course(s: TablesStory) -> Draft:
    least, year = s.integer(10, 80), s.period()[0][:4]
    teacher = s.row("school", "teachers")
    s.look_at("school", "teachers", "courses", "enrolments")
    number = s.number_of("Find the teacher's number.", "school", "teachers", "teacher_id", "name", teacher["name"])
    query = (
        "SELECT c.course_id FROM courses c JOIN enrolments e ON e.course_id = c.course_id"
        " WHERE c.teacher_id = ? AND e.year = ? GROUP BY c.course_id ORDER BY SUM(e.points) DESC LIMIT 1"
    )
    course = s.ask("Find the course with most points in the year.", "school", query, cell(number), int(year))
    query = "SELECT SUM(points) FROM enrolments WHERE course_id = ? AND points >= ?"
    points = s.ask("Add up the good results in that course.", "school", query, cell(course), least)
    return s.task(f"school/teacher/{teacher['name']}", cell(points), locals())


@template
def colleagues_rooms(s: TablesStory) -> Draft:
    room, student = s.integer(101, 400), s.row("school", "enrolments")["student"]
    s.look_at("school", "enrolments", "courses")
    query = "SELECT course_id FROM enrolments WHERE student = ? ORDER BY points DESC LIMIT 1"
    found = s.ask(f"Find the course in which {student} did best.", "school", query, student)
    teacher = s.number_of("Find who teaches that course.", "school", "courses", "teacher_id, code", "course_id", cell(found))
    query = "SELECT code FROM courses WHERE teacher_id = ? AND code <> ? AND room >= ? ORDER BY code"
    others = s.ask("List the other courses of the same teacher.", "school", query, cell(teacher), cell(teacher, 1), room)
    return s.task(f"school/student/{student}", s.column(others), locals())


# Energy


@template
def peak_month(s: TablesStory) -> Draft:
    (first, last, period), meter = s.months(), s.row("energy", "meters")
    s.look_at("energy", "meters")
    s.look("See how readings are written down.", "sample_rows", database="energy", table="readings", limit=2)
    facts = s.number_of("Find the meter's number and town.", "energy", "meters", "meter_id, town", "serial", meter["serial"])
    query = "SELECT month FROM readings WHERE meter_id = ? AND month BETWEEN ? AND ? ORDER BY kwh DESC LIMIT 1"
    month = s.ask("Find its month of highest use.", "energy", query, cell(facts), first, last)
    query = "SELECT SUM(r.kwh) FROM readings r JOIN meters m ON m.meter_id = r.meter_id WHERE m.town = ? AND r.month = ?"
    used = s.ask("Add up the town's use in that month.", "energy", query, cell(facts, 1), cell(month))
    return s.task(f"energy/meter/{meter['serial']}", cell(used), locals())


@template
def bill(s: TablesStory) -> Draft:
    (first, last, period), meter = s.months(), s.row("energy", "meters")
    s.look_at("energy", "meters", "tariffs", "readings")
    facts = s.number_of("Find the meter's number and tariff.", "energy", "meters", "meter_id, tariff_id", "serial", meter["serial"])
    rate = s.number_of("Find the price in that tariff.", "energy", "tariffs", "price", "tariff_id", cell(facts, 1))
    query = "SELECT SUM(kwh) FROM readings WHERE meter_id = ? AND month BETWEEN ? AND ?"
    used = s.ask("Add up the use of the meter.", "energy", query, cell(facts), first, last)
    costs = s.ask("Multiply use and price.", "energy", "SELECT ? * ?", cell(used), cell(rate))
    return s.task(f"energy/meter/{meter['serial']}", cell(costs), locals())


@template
def above_average(s: TablesStory) -> Draft:
    (first, last, period), town, margin = s.months(), s.choice(TOWNS), s.integer(5, 150)
    s.look_at("energy", "meters", "readings")
    joined = "FROM readings r JOIN meters m ON m.meter_id = r.meter_id"
    query = f"SELECT AVG(r.kwh) {joined} WHERE m.town = ? AND r.month BETWEEN ? AND ?"
    average = s.ask(f"Find the average use in {town}.", "energy", query, town, first, last)
    query = f"SELECT COUNT(*) {joined} WHERE m.town <> ? AND r.month BETWEEN ? AND ? AND r.kwh > ? + ?"
    count = s.ask("Count the higher readings elsewhere.", "energy", query, town, first, last, cell(average), margin)
    return s.task(f"energy/town/{town}", cell(count), locals())


# Festival, rentals and museum


@template
def fullest_house(s: TablesStory) -> Draft:
    (first, last, period), film = s.period(), s.row("festival", "films")
    s.look_at("festival", "films", "screenings")
    number = s.number_of("Find the film's number.", "festival", "films", "film_id", "title", film["title"])
    query = "SELECT venue_id FROM screenings WHERE film_id = ? ORDER BY tickets DESC LIMIT 1"
    venue = s.ask("Find the venue of its fullest screening.", "festival", query, cell(number))
    query = "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?"
    tickets = s.ask("Add up the tickets sold at that venue.", "festival", query, cell(venue), first, last)
    return s.task(f"festival/film/{film['title']}", cell(tickets), locals())


@template
def same_director(s: TablesStory) -> Draft:
    (first, last, period), film = s.period(), s.row("festival", "films")
    s.look_at("festival", "films", "screenings")
    director = s.number_of("Find who made the film.", "festival", "films", "director", "title", film["title"])
    query = (
        "SELECT DISTINCT f.title FROM films f JOIN screenings s ON s.film_id = f.film_id"
        " WHERE f.director = ? AND f.title <> ? AND s.day BETWEEN ? AND ? ORDER BY f.title"
    )
    others = s.ask("List what else of that director was shown.", "festival", query, cell(director), film["title"], first, last)
    return s.task(f"festival/director/{film['director']}", s.column(others), locals())


@template
def longest_ride(s: TablesStory) -> Draft:
    (first, last, period), customer = s.period(), s.row("rentals", "rentals")["customer"]
    s.look_at("rentals", "rentals", "bikes")
    query = "SELECT bike_id FROM rentals WHERE customer = ? ORDER BY days DESC LIMIT 1"
    bike = s.ask("Find the bike of the longest rental.", "rentals", query, customer)
    owner = s.number_of("Find the shop of that bike.", "rentals", "bikes", "shop_id", "bike_id", cell(bike))
    query = (
        "SELECT SUM(r.days * b.daily_rate) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id"
        " WHERE b.shop_id = ? AND r.started BETWEEN ? AND ?"
    )
    income = s.ask("Add up what that shop earned.", "rentals", query, cell(owner), first, last)
    return s.task(f"rentals/customer/{customer}", cell(income), locals())


@template
def best_insured(s: TablesStory) -> Draft:
    (first, last, period), artist = s.period(), s.row("museum", "artists")
    s.look("See which tables the museum has.", "list_tables", database="museum")
    s.look_at("museum", "artists", "objects", "loans")
    number = s.number_of("Find the artist's number.", "museum", "artists", "artist_id", "name", artist["name"])
    query = (
        "SELECT l.borrower FROM loans l JOIN objects o ON o.object_id = l.object_id"
        " WHERE o.artist_id = ? ORDER BY l.insured DESC LIMIT 1"
    )
    borrower = s.ask("Find who borrowed the best insured work.", "museum", query, cell(number))
    query = "SELECT SUM(insured) FROM loans WHERE borrower = ? AND started BETWEEN ? AND ?"
    insured = s.ask("Add up what that borrower insured.", "museum", query, cell(borrower), first, last)
    return s.task(f"museum/artist/{artist['name']}", cell(insured), locals())


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


# Several databases


@template
def town_of_a_meter(s: TablesStory) -> Draft:
    (first, last, period), meter = s.period(), s.row("energy", "meters")
    s.look("See which databases there are.", "list_databases")
    s.look_at("energy", "meters")
    s.look_at("rentals", "shops", "rentals")
    town = s.number_of("Find the meter's town.", "energy", "meters", "town", "serial", meter["serial"])
    query = (
        "SELECT SUM(r.days) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id JOIN shops s ON s.shop_id = b.shop_id"
        " WHERE s.town = ? AND r.started BETWEEN ? AND ?"
    )
    days = s.ask("Add up the rental days of the town's shops.", "rentals", query, cell(town), first, last)
    return s.task(f"energy/meter/{meter['serial']}", cell(days), locals())


@template
def town_of_a_film(s: TablesStory) -> Draft:
    (first, last, period), film = s.period(), s.row("festival", "films")
    s.look("See what databases there are to look into.", "list_databases")
    s.look_at("festival", "screenings", "venues")
    s.look_at("clinic", "visits", "doctors")
    query = (
        "SELECT v.town FROM screenings s JOIN films f ON f.film_id = s.film_id JOIN venues v ON v.venue_id = s.venue_id"
        " WHERE f.title = ? ORDER BY s.tickets DESC LIMIT 1"
    )
    found = s.ask("Find the town of the fullest screening.", "festival", query, film["title"])
    query = "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.town = ? AND v.day BETWEEN ? AND ?"
    fees = s.ask("Add up the fees of the doctors of that town.", "clinic", query, cell(found), first, last)
    return s.task(f"festival/film/{film['title']}", cell(fees), locals())


@template
def around_town(s: TablesStory) -> Draft:
    """Three databases, and two branches that part at the town and meet in the end."""
    (first, last, period), meter = s.period(), s.row("energy", "meters")
    s.look("See what all the databases are called.", "list_databases")
    for name, table in (("energy", "meters"), ("festival", "venues"), ("rentals", "bikes")):
        s.look_at(name, table)
    town = s.number_of("Find the town in which the meter hangs.", "energy", "meters", "town", "serial", meter["serial"])
    venue = s.number_of("Find the cinema of that town.", "festival", "venues", "venue_id", "town", cell(town))
    query = "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?"
    tickets = s.ask("Add up the tickets of that cinema.", "festival", query, cell(venue), first, last)
    query = (
        "SELECT b.bike_id FROM bikes b JOIN shops s ON s.shop_id = b.shop_id WHERE s.town = ? ORDER BY b.daily_rate DESC LIMIT 1"
    )
    bike = s.ask("Find the dearest bike in that town.", "rentals", query, cell(town))
    days = s.number_of("Add up the days of that bike.", "rentals", "rentals", "SUM(days)", "bike_id", cell(bike))
    both = s.ask("Subtract days from tickets.", "rentals", "SELECT ? - ?", cell(tickets), cell(days))
    return s.task(f"energy/meter/{meter['serial']}", cell(both), locals())


# Questions without an answer


@template
def unrecorded(s: TablesStory) -> Draft:
    """The table does not have what is asked for."""
    name, table, column = s.choice(_UNRECORDED)
    row = s.row(name, table)
    s.look(f"See which tables {name} has.", "list_tables", database=name)
    s.look_at(name, *database(name).tables)
    period, asked = s.period()[2], s.say(name, row)
    return s.task(f"{name}/{table}/{row[column]}", None, locals())


_UNRECORDED = (
    ("clinic", "doctors", "name"), ("festival", "films", "title"), ("museum", "artists", "name"), ("school", "teachers", "name"),
    ("shipping", "vessels", "name"),
)  # fmt: skip


@template
def nobody(s: TablesStory) -> Draft:
    period, names = s.period()[2], [row["name"] for row in database("clinic")["patients"]]
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
    number = s.number_of("Find the number of the meter.", "energy", "meters", "meter_id", "serial", meter["serial"])
    query = "SELECT kwh FROM readings WHERE meter_id = ? AND month = ?"
    s.query("Find the reading of the month.", "energy", query, cell(number), month)
    month = in_words(month)
    return s.task(f"energy/meter/{meter['serial']}", None, locals())
