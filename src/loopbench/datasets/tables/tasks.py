"""The tasks: each template tells one story over one database, or two.

The plan queries; the answer is worked out in Python from the rows that the databases were made from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from loopbench.datasets.generating import MOST_DRAWS, Draft, Draw, PlanWriter, Source, generate, part
from loopbench.datasets.task import Suite, Task
from loopbench.datasets.worlds import WorldEnvironment
from loopbench.protocol import Plan, Ref

from .databases import TOWNS, YEARS, Row, database
from .tools import DISTRACTORS, TOOLS, Desk

ANSWER_FORMAT = (
    "Answer with the number or the name alone, or with the names separated by commas."
    ' If it cannot be determined, the right answer is "not determined".'
)
DATA_DIGEST = "?"
"""What `databases.all_digest()` is: stated, so that a suite can be listed without drawing the databases."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip

Item = TypeVar("Item")


class _DeadEnd(Exception):
    """This draw makes no good task; the next one may."""


class _Story:
    """A task being told: the draw, and the plan so far."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.plan = PlanWriter()
        self._seen: list[Ref] = []

    def look_at(self, database_name: str, *tables: str) -> None:
        """Plan a look at tables, which all queries from here on come after."""
        for table in tables:
            arguments = {"database": database_name, "table": table}
            self._seen.append(self.plan.call(f"See which columns {table} in {database_name} has.", "describe_table", arguments))

    def call(self, goal: str, tool: str, **arguments: Any) -> Ref:
        """Plan another look at what is there."""
        self._seen.append(self.plan.call(goal, tool, arguments, after=self._seen))
        return self._seen[-1]

    def ask(self, goal: str, database_name: str, query: str, *parameters: Any) -> Ref:
        """Plan a query; gives its result."""
        arguments = {"database": database_name, "query": query} | ({"parameters": list(parameters)} if parameters else {})
        return self.plan.call(goal, "run_sql", arguments, after=self._seen)

    def failing(self, goal: str, database_name: str, query: str) -> None:
        """Plan a query that does not work."""
        self._seen.append(self.plan.call(goal, "run_sql", {"database": database_name, "query": query}, fails=True))

    def month(self) -> str:
        return f"{self.draw.choice(YEARS)}-{self.draw.integer(1, 12):02d}"

    def quarter(self) -> tuple[str, str, str]:
        """Three to five months of a year: the first day, the last one, and what they are called."""
        year, first = self.draw.choice(YEARS), self.draw.integer(1, 8)
        last = first + self.draw.integer(2, 4)
        return f"{year}-{first:02d}-01", f"{year}-{last:02d}-31", f"from {_MONTHS[first - 1]} to {_MONTHS[last - 1]} {year}"

    def task(self, instance: str, question: str, answer: Any, expected: Any, scorer: str = "numeric") -> Draft:
        """Raises _DeadEnd for a question that gives its own answer away, and for an answer that a guess may hit."""
        if isinstance(expected, int) and expected < 4 or expected in ([], ""):
            raise _DeadEnd
        if expected is not None and any(str(item) in question for item in (expected if isinstance(expected, list) else [expected])):
            raise _DeadEnd
        return Draft(f"{question} {ANSWER_FORMAT}", Plan(tuple(self.plan.calls), answer), expected, scorer, instance=instance)


def _template(story: Callable[[_Story], Draft]) -> Callable[[Draw], Draft]:
    """A template that draws until its story holds."""

    @functools.wraps(story)
    def drawn(draw: Draw) -> Draft:
        for _ in range(MOST_DRAWS):
            try:
                return story(_Story(draw))
            except _DeadEnd:
                continue
        raise ValueError(f"tables: {story.__name__} found no task in {MOST_DRAWS} draws")

    return drawn


def _cell(result: Ref, column: int = 0, row: int = 0) -> Ref:
    return part(result, "rows", row, column)


def _named_month(month: str) -> str:
    return f"{_MONTHS[int(month[5:]) - 1]} {month[:4]}"


def _top(rows: Iterable[Item], size: Callable[[Item], Any]) -> Item:
    """The one of the largest size. Raises _DeadEnd where there is none, or more than one."""
    ranked = sorted(rows, key=size, reverse=True)
    if not ranked or (len(ranked) > 1 and size(ranked[0]) == size(ranked[1])):
        raise _DeadEnd
    return ranked[0]


def _where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _by_number(rows: Sequence[Row], number: int) -> Row:
    """The row of a number; rows are numbered from 1."""
    return rows[number - 1]


# Clinic


@_template
def _dearest_visit(story: _Story) -> Draft:
    clinic, month = database("clinic"), story.month()
    patient = story.draw.choice(clinic["patients"])
    visit = _top(_where(clinic["visits"], patient_id=patient["patient_id"]), lambda row: row["fee"])
    theirs = _where(clinic["visits"], doctor_id=visit["doctor_id"])
    story.look_at("clinic", "patients", "visits")
    number = story.ask(
        f"Find the number of {patient['name']}.", "clinic", "SELECT patient_id FROM patients WHERE name = ?", patient["name"]
    )
    doctor = story.ask(
        "Find the doctor of the dearest visit.",
        "clinic",
        "SELECT doctor_id FROM visits WHERE patient_id = ? ORDER BY fee DESC LIMIT 1",
        _cell(number),
    )
    fees = story.ask(
        "Add up the fees of that doctor in the month.",
        "clinic",
        "SELECT SUM(fee) FROM visits WHERE doctor_id = ? AND substr(day, 1, 7) = ?",
        _cell(doctor),
        month,
    )
    return story.task(
        f"clinic/patient/{patient['patient_id']}",
        f"In the database clinic, take the doctor of the dearest visit that {patient['name']} ever paid for."
        f" What do that doctor's fees of {_named_month(month)} add up to, over all patients?",
        _cell(fees),
        sum(row["fee"] for row in theirs if row["day"].startswith(month)),
    )


@_template
def _two_doctors(story: _Story) -> Draft:
    clinic, (first_day, last_day, named) = database("clinic"), story.quarter()
    doctors = story.draw.sample(clinic["doctors"], 2)
    story.look_at("clinic", "doctors", "visits")
    sums, found = [], []
    for doctor in doctors:
        rows = _where(clinic["visits"], doctor_id=doctor["doctor_id"])
        sums.append(sum(row["fee"] for row in rows if first_day <= row["day"] <= last_day))
        query = (
            "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.name = ? AND v.day BETWEEN ? AND ?"
        )
        found.append(story.ask(f"Add up the fees of {doctor['name']}.", "clinic", query, doctor["name"], first_day, last_day))
    if 0 in sums or sums[0] == sums[1]:
        raise _DeadEnd
    apart = story.ask("Subtract one sum from the other.", "clinic", "SELECT abs(? - ?)", *map(_cell, found))
    return story.task(
        f"clinic/doctor/{doctors[0]['doctor_id']}",
        f"Take the fees that the clinic's doctors {doctors[0]['name']} and {doctors[1]['name']} earned {named}."
        " By how much does the larger sum exceed the smaller one?",
        _cell(apart),
        abs(sums[0] - sums[1]),
    )


# Shipping


@_template
def _last_port(story: _Story) -> Draft:
    shipping, year = database("shipping"), str(story.draw.choice(YEARS))
    vessel = story.draw.choice(shipping["vessels"])
    voyages = [row for row in _where(shipping["voyages"], vessel_id=vessel["vessel_id"]) if row["departed"].startswith(year)]
    last = _top(voyages, lambda row: row["departed"])
    story.look_at("shipping", "vessels", "voyages")
    number = story.ask(
        f"Find the number of {vessel['name']}.", "shipping", "SELECT vessel_id FROM vessels WHERE name = ?", vessel["name"]
    )
    port = story.ask(
        f"Find where its last voyage of {year} went.",
        "shipping",
        "SELECT to_port FROM voyages WHERE vessel_id = ? AND substr(departed, 1, 4) = ? ORDER BY departed DESC LIMIT 1",
        _cell(number),
        year,
    )
    containers = story.ask(
        "Add up the containers that left that port.",
        "shipping",
        "SELECT SUM(containers) FROM voyages WHERE from_port = ? AND substr(departed, 1, 4) = ?",
        _cell(port),
        year,
    )
    leaving = [row for row in _where(shipping["voyages"], from_port=last["to_port"]) if row["departed"].startswith(year)]
    return story.task(
        f"shipping/vessel/{vessel['vessel_id']}",
        f"The database shipping knows where the {vessel['name']} went on the last voyage that she began in {year}."
        f" How many containers left that port in {year}, aboard any vessel?",
        _cell(containers),
        sum(row["containers"] for row in leaving),
    )


@_template
def _fuel(story: _Story) -> Draft:
    shipping, (first_day, last_day, named) = database("shipping"), story.quarter()
    port = story.draw.choice(shipping["ports"])
    rows = _where(shipping["voyages"], to_port=port["port_id"])
    story.look_at("shipping", "voyages", "ports")
    query = (
        "SELECT SUM(v.fuel) FROM voyages v JOIN ports p ON p.port_id = v.to_port WHERE p.name = ? AND v.departed BETWEEN ? AND ?"
    )
    fuel = story.ask("Add up the fuel.", "shipping", query, port["name"], first_day, last_day)
    return story.task(
        f"shipping/port/{port['port_id']}",
        f"How much fuel did all voyages to {port['name']} that set off {named} burn together? The database is shipping.",
        _cell(fuel),
        sum(row["fuel"] for row in rows if first_day <= row["departed"] <= last_day),
    )


# School


@_template
def _best_course(story: _Story) -> Draft:
    school, year, least = database("school"), story.draw.choice(YEARS), story.draw.integer(20, 60)
    teacher = story.draw.choice(school["teachers"])
    courses = _where(school["courses"], teacher_id=teacher["teacher_id"])

    def points(course: Row) -> int:
        return sum(row["points"] for row in _where(school["enrolments"], course_id=course["course_id"], year=year))

    best = _top(courses, points)
    names = {row["student"] for row in _where(school["enrolments"], course_id=best["course_id"]) if row["points"] >= least}
    story.look_at("school", "teachers", "courses", "enrolments")
    number = story.ask(
        f"Find the number of {teacher['name']}.", "school", "SELECT teacher_id FROM teachers WHERE name = ?", teacher["name"]
    )
    course = story.ask(
        "Find the course with most points in the year.",
        "school",
        "SELECT c.course_id FROM courses c JOIN enrolments e ON e.course_id = c.course_id"
        " WHERE c.teacher_id = ? AND e.year = ? GROUP BY c.course_id ORDER BY SUM(e.points) DESC LIMIT 1",
        _cell(number),
        year,
    )
    students = story.ask(
        "Count its students who did well enough.",
        "school",
        "SELECT COUNT(DISTINCT student) FROM enrolments WHERE course_id = ? AND points >= ?",
        _cell(course),
        least,
    )
    return story.task(
        f"school/teacher/{teacher['teacher_id']}",
        f"{teacher['name']} teaches courses in the database school. Take the one whose students of {year} have the most points in sum."
        f" How many different students, of any year, reached {least} points or more in that course?",
        _cell(students),
        len(names),
    )


@_template
def _room_mates(story: _Story) -> Draft:
    school = database("school")
    student = story.draw.choice(school["enrolments"])["student"]
    best = _top(_where(school["enrolments"], student=student), lambda row: row["points"])
    course = _by_number(school["courses"], best["course_id"])
    colleagues = _where(school["courses"], teacher_id=course["teacher_id"])
    others = sorted(row["code"] for row in colleagues if row["code"] != course["code"])
    if len(others) < 2:
        raise _DeadEnd
    story.look_at("school", "enrolments", "courses")
    found = story.ask(
        f"Find the course in which {student} did best.",
        "school",
        "SELECT course_id FROM enrolments WHERE student = ? ORDER BY points DESC LIMIT 1",
        student,
    )
    teacher = story.ask(
        "Find who teaches that course.", "school", "SELECT teacher_id, code FROM courses WHERE course_id = ?", _cell(found)
    )
    codes = story.ask(
        "List the other courses of the same teacher.",
        "school",
        "SELECT code FROM courses WHERE teacher_id = ? AND code <> ? ORDER BY code",
        _cell(teacher),
        _cell(teacher, 1),
    )
    return story.task(
        f"school/student/{student}",
        f"In the database school, {student} has one course with more points than any other. Give the codes of all other courses"
        " of the teacher of that course.",
        [_cell(codes, row=row) for row in range(len(others))],
        others,
        "set",
    )


# Energy


@_template
def _peak_month(story: _Story) -> Draft:
    energy, year = database("energy"), str(story.draw.choice(YEARS))
    meter = story.draw.choice(energy["meters"])
    own = [row for row in _where(energy["readings"], meter_id=meter["meter_id"]) if row["month"].startswith(year)]
    peak = _top(own, lambda row: row["kwh"])["month"]
    neighbours = {row["meter_id"] for row in _where(energy["meters"], town=meter["town"])}
    story.look_at("energy", "meters")
    story.call("See how readings are written down.", "sample_rows", database="energy", table="readings", limit=2)
    found = story.ask(
        f"Find the number and town of {meter['serial']}.",
        "energy",
        "SELECT meter_id, town FROM meters WHERE serial = ?",
        meter["serial"],
    )
    month = story.ask(
        "Find its month of highest use.",
        "energy",
        "SELECT month FROM readings WHERE meter_id = ? AND substr(month, 1, 4) = ? ORDER BY kwh DESC LIMIT 1",
        _cell(found),
        year,
    )
    used = story.ask(
        "Add up the town's use in that month.",
        "energy",
        "SELECT SUM(r.kwh) FROM readings r JOIN meters m ON m.meter_id = r.meter_id WHERE m.town = ? AND r.month = ?",
        _cell(found, 1),
        _cell(month),
    )
    return story.task(
        f"energy/meter/{meter['meter_id']}",
        f"Take the month of {year} in which meter {meter['serial']} of the database energy counted most."
        " How many kWh did all meters of its town, this one included, count in that month?",
        _cell(used),
        sum(row["kwh"] for row in energy["readings"] if row["meter_id"] in neighbours and row["month"] == peak),
    )


@_template
def _bill(story: _Story) -> Draft:
    energy, (first_day, last_day, named) = database("energy"), story.quarter()
    first, last = first_day[:7], last_day[:7]
    meter = story.draw.choice(energy["meters"])
    price = _by_number(energy["tariffs"], meter["tariff_id"])["price"]
    own = [row for row in _where(energy["readings"], meter_id=meter["meter_id"]) if first <= row["month"] <= last]
    story.look_at("energy", "meters", "tariffs", "readings")
    found = story.ask(
        f"Find the number and tariff of {meter['serial']}.",
        "energy",
        "SELECT meter_id, tariff_id FROM meters WHERE serial = ?",
        meter["serial"],
    )
    rate = story.ask("Find the price in that tariff.", "energy", "SELECT price FROM tariffs WHERE tariff_id = ?", _cell(found, 1))
    used = story.ask(
        "Add up the use of the meter.",
        "energy",
        "SELECT SUM(kwh) FROM readings WHERE meter_id = ? AND month BETWEEN ? AND ?",
        _cell(found),
        first,
        last,
    )
    cost = story.ask("Multiply use and price.", "energy", "SELECT ? * ?", _cell(used), _cell(rate))
    return story.task(
        f"energy/meter/{meter['meter_id']}",
        f"Meter {meter['serial']} of the database energy pays its tariff's price for each kWh."
        f" What does the electricity {named} cost?",
        _cell(cost),
        price * sum(row["kwh"] for row in own),
    )


@_template
def _above_average(story: _Story) -> Draft:
    energy, month, town = database("energy"), story.month(), story.draw.choice(TOWNS)
    at_home = {row["meter_id"] for row in _where(energy["meters"], town=town)}
    readings = _where(energy["readings"], month=month)
    local = [row["kwh"] for row in readings if row["meter_id"] in at_home]
    if not local:
        raise _DeadEnd
    story.look_at("energy", "meters", "readings")
    average = story.ask(
        f"Find the average use in {town}.",
        "energy",
        "SELECT AVG(r.kwh) FROM readings r JOIN meters m ON m.meter_id = r.meter_id WHERE m.town = ? AND r.month = ?",
        town,
        month,
    )
    above = story.ask(
        "Count the meters elsewhere that used more.",
        "energy",
        "SELECT COUNT(*) FROM readings r JOIN meters m ON m.meter_id = r.meter_id WHERE m.town <> ? AND r.month = ? AND r.kwh > ?",
        town,
        month,
        _cell(average),
    )
    more = sum(row["kwh"] * len(local) > sum(local) for row in readings if row["meter_id"] not in at_home)
    return story.task(
        f"energy/town/{town}",
        f"In the database energy, how many meters outside of {town} counted more kWh in {_named_month(month)}"
        f" than the meters of {town} did on average?",
        _cell(above),
        more,
    )


# Festival


@_template
def _fullest_house(story: _Story) -> Draft:
    festival, (first_day, last_day, named) = database("festival"), story.quarter()
    film = story.draw.choice(festival["films"])
    fullest = _top(_where(festival["screenings"], film_id=film["film_id"]), lambda row: row["tickets"])
    there = _where(festival["screenings"], venue_id=fullest["venue_id"])
    story.look_at("festival", "films", "screenings")
    number = story.ask(
        f"Find the number of {film['title']}.", "festival", "SELECT film_id FROM films WHERE title = ?", film["title"]
    )
    venue = story.ask(
        "Find the venue of its fullest screening.",
        "festival",
        "SELECT venue_id FROM screenings WHERE film_id = ? ORDER BY tickets DESC LIMIT 1",
        _cell(number),
    )
    tickets = story.ask(
        "Add up the tickets sold at that venue.",
        "festival",
        "SELECT SUM(tickets) FROM screenings WHERE venue_id = ? AND day BETWEEN ? AND ?",
        _cell(venue),
        first_day,
        last_day,
    )
    return story.task(
        f"festival/film/{film['film_id']}",
        f'The festival sold most tickets for one screening of "{film["title"]}" at one of its venues.'
        f" How many tickets, for all films, did that venue sell {named}?",
        _cell(tickets),
        sum(row["tickets"] for row in there if first_day <= row["day"] <= last_day),
    )


@_template
def _same_director(story: _Story) -> Draft:
    festival, limit = database("festival"), story.draw.integer(60, 120)
    film = story.draw.choice(festival["films"])
    theirs = _where(festival["films"], director=film["director"])
    others = sorted(row["title"] for row in theirs if row["minutes"] >= limit and row["film_id"] != film["film_id"])
    if not 2 <= len(others) <= 5:
        raise _DeadEnd
    story.look_at("festival", "films")
    director = story.ask(f"Find who made {film['title']}.", "festival", "SELECT director FROM films WHERE title = ?", film["title"])
    titles = story.ask(
        "List what else that director made.",
        "festival",
        "SELECT title FROM films WHERE director = ? AND minutes >= ? AND title <> ? ORDER BY title",
        _cell(director),
        limit,
        film["title"],
    )
    return story.task(
        f"festival/director/{film['director']}",
        f'Name the other films in the database festival by the director of "{film["title"]}" that run {limit} minutes or longer.',
        [_cell(titles, row=row) for row in range(len(others))],
        others,
        "set",
    )


# Rentals and museum


@_template
def _longest_ride(story: _Story) -> Draft:
    rentals, month = database("rentals"), story.month()
    customer = story.draw.choice(rentals["rentals"])["customer"]
    longest = _top(_where(rentals["rentals"], customer=customer), lambda row: row["days"])
    shop = _by_number(rentals["bikes"], longest["bike_id"])["shop_id"]
    rates = {row["bike_id"]: row["daily_rate"] for row in _where(rentals["bikes"], shop_id=shop)}
    story.look_at("rentals", "rentals", "bikes")
    bike = story.ask(
        f"Find the bike of the longest rental of {customer}.",
        "rentals",
        "SELECT bike_id FROM rentals WHERE customer = ? ORDER BY days DESC LIMIT 1",
        customer,
    )
    owner = story.ask("Find the shop of that bike.", "rentals", "SELECT shop_id FROM bikes WHERE bike_id = ?", _cell(bike))
    income = story.ask(
        "Add up what that shop earned in the month.",
        "rentals",
        "SELECT SUM(r.days * b.daily_rate) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id"
        " WHERE b.shop_id = ? AND substr(r.started, 1, 7) = ?",
        _cell(owner),
        month,
    )
    started = [row for row in rentals["rentals"] if row["started"].startswith(month) and row["bike_id"] in rates]
    return story.task(
        f"rentals/customer/{customer}",
        f"A shop in the database rentals owns the bike that {customer} kept longest in one go. What did that shop earn with the rentals"
        f" that began in {_named_month(month)}? A rental costs the bike's daily rate for each day.",
        _cell(income),
        sum(row["days"] * rates[row["bike_id"]] for row in started),
    )


@_template
def _best_insured(story: _Story) -> Draft:
    museum, year = database("museum"), str(story.draw.choice(YEARS))
    artist = story.draw.choice(museum["artists"])
    objects = {row["object_id"] for row in _where(museum["objects"], artist_id=artist["artist_id"])}
    best = _top([row for row in museum["loans"] if row["object_id"] in objects], lambda row: row["insured"])
    borrowed = [row for row in _where(museum["loans"], borrower=best["borrower"]) if row["started"].startswith(year)]
    story.call("See which tables the museum has.", "list_tables", database="museum")
    story.look_at("museum", "artists", "objects", "loans")
    number = story.ask(
        f"Find the number of {artist['name']}.", "museum", "SELECT artist_id FROM artists WHERE name = ?", artist["name"]
    )
    borrower = story.ask(
        "Find who borrowed the best insured work.",
        "museum",
        "SELECT l.borrower FROM loans l JOIN objects o ON o.object_id = l.object_id WHERE o.artist_id = ? ORDER BY l.insured DESC LIMIT 1",
        _cell(number),
    )
    insured = story.ask(
        "Add up what that borrower insured in the year.",
        "museum",
        "SELECT SUM(insured) FROM loans WHERE borrower = ? AND substr(started, 1, 4) = ?",
        _cell(borrower),
        year,
    )
    return story.task(
        f"museum/artist/{artist['artist_id']}",
        f"Of all loans of works by {artist['name']} in the museum's database, one was insured for most. What do the insured sums of all"
        f" loans to the same borrower that started in {year} add up to?",
        _cell(insured),
        sum(row["insured"] for row in borrowed),
    )


# Two databases


@_template
def _town_of_a_meter(story: _Story) -> Draft:
    energy, rentals, (first_day, last_day, named) = database("energy"), database("rentals"), story.quarter()
    meter = story.draw.choice(energy["meters"])
    shops = {row["shop_id"] for row in _where(rentals["shops"], town=meter["town"])}
    bikes = {row["bike_id"] for row in rentals["bikes"] if row["shop_id"] in shops}
    story.call("See which databases there are.", "list_databases")
    story.look_at("energy", "meters")
    story.look_at("rentals", "shops", "rentals")
    town = story.ask(f"Find the town of {meter['serial']}.", "energy", "SELECT town FROM meters WHERE serial = ?", meter["serial"])
    days = story.ask(
        "Add up the rental days of the town's shops.",
        "rentals",
        "SELECT SUM(r.days) FROM rentals r JOIN bikes b ON b.bike_id = r.bike_id JOIN shops s ON s.shop_id = b.shop_id"
        " WHERE s.town = ? AND r.started BETWEEN ? AND ?",
        _cell(town),
        first_day,
        last_day,
    )
    return story.task(
        f"energy/meter/{meter['meter_id']}",
        f"Electricity meter {meter['serial']} hangs in some town. For how many days in all were bikes of that town's shops rented,"
        f" counting the rentals that began {named}?",
        _cell(days),
        sum(row["days"] for row in rentals["rentals"] if row["bike_id"] in bikes and first_day <= row["started"] <= last_day),
    )


@_template
def _town_of_a_film(story: _Story) -> Draft:
    festival, clinic, month = database("festival"), database("clinic"), story.month()
    film = story.draw.choice(festival["films"])
    fullest = _top(_where(festival["screenings"], film_id=film["film_id"]), lambda row: row["tickets"])
    town = _by_number(festival["venues"], fullest["venue_id"])["town"]
    doctors = {row["doctor_id"] for row in _where(clinic["doctors"], town=town)}
    story.call("See what databases there are to look into.", "list_databases")
    story.look_at("festival", "screenings", "venues")
    story.look_at("clinic", "visits", "doctors")
    found = story.ask(
        "Find the town of the fullest screening.",
        "festival",
        "SELECT v.town FROM screenings s JOIN films f ON f.film_id = s.film_id JOIN venues v ON v.venue_id = s.venue_id"
        " WHERE f.title = ? ORDER BY s.tickets DESC LIMIT 1",
        film["title"],
    )
    fees = story.ask(
        "Add up the fees of the doctors of that town.",
        "clinic",
        "SELECT SUM(v.fee) FROM visits v JOIN doctors d ON d.doctor_id = v.doctor_id WHERE d.town = ? AND substr(v.day, 1, 7) = ?",
        _cell(found),
        month,
    )
    return story.task(
        f"festival/film/{film['film_id']}",
        f'The film "{film["title"]}" filled most seats in some town\'s cinema. What fees did the doctors of that town earn at the clinic'
        f" in {_named_month(month)} altogether?",
        _cell(fees),
        sum(row["fee"] for row in clinic["visits"] if row["doctor_id"] in doctors and row["day"].startswith(month)),
    )


# An error on the way

_RENAMED = (
    ("clinic", "appointments", "price", "visits", "fee", "doctor_id", "day"),
    ("shipping", "trips", "boxes", "voyages", "containers", "from_port", "departed"),
    ("rentals", "hires", "nights", "rentals", "days", "bike_id", "started"),
)
"""Database, table and column as an old report has them, table and column of today, the column of what is asked about, the date."""


@_template
def _old_report(story: _Story) -> Draft:
    name, old_table, old_column, table, column, about, day = story.draw.choice(_RENAMED)
    first_day, last_day, _ = story.quarter()
    rows = database(name)[table]
    number = story.draw.choice(rows)[about]
    condition = f"WHERE {about} = {number} AND {day} BETWEEN '{first_day}' AND '{last_day}'"
    old = f"SELECT SUM({old_column}) FROM {old_table} {condition}"
    story.failing("Try the old query.", name, old)
    story.call("See how the tables are called today.", "list_tables", database=name)
    story.look_at(name, table)
    figure = story.ask("Run it with the names of today.", name, f"SELECT SUM({column}) FROM {table} {condition}")
    fitting = [row[column] for row in _where(rows, **{about: number}) if first_day <= row[day] <= last_day]
    return story.task(
        f"{name}/{about}/{number}",
        f"An old report on the database {name} got a figure by `{old}`. Since then the table {old_table} and its column {old_column}"
        " have been given other names. What is the figure?",
        _cell(figure),
        sum(fitting),
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


@_template
def _unrecorded(story: _Story) -> Draft:
    name, table, question, column = story.draw.choice(_UNRECORDED)
    row = story.draw.choice(database(name)[table])
    story.call(f"See which tables {name} has.", "list_tables", database=name)
    story.look_at(name, *database(name).tables)
    year = story.draw.choice(YEARS)
    asked = question.format(row[column])
    return story.task(
        f"{name}/{table}/{row[column]}", f"The report of {year} needs a figure from the database {name}. {asked}", None, None
    )


@_template
def _nobody(story: _Story) -> Draft:
    clinic, month = database("clinic"), story.month()
    names = [row["name"] for row in clinic["patients"]]
    first, last = (story.draw.choice(names).split()[index] for index in (0, 1))
    name = f"{first} {last}"
    if name in names:
        raise _DeadEnd
    story.look_at("clinic", "patients")
    story.ask(f"Look for {name} among the patients.", "clinic", "SELECT patient_id FROM patients WHERE name = ?", name)
    story.call(
        "See whose first name is the same.", "column_values", database="clinic", table="patients", column="name", starts_with=first
    )
    return story.task(
        f"clinic/patient/{name}", f"What did the clinic's patient {name} pay for visits in {_named_month(month)}?", None, None
    )


@_template
def _before_the_records(story: _Story) -> Draft:
    energy, month = database("energy"), f"{story.draw.integer(2011, 2020)}-{story.draw.integer(1, 12):02d}"
    meter = story.draw.choice(energy["meters"])
    story.look_at("energy", "meters", "readings")
    found = story.ask(
        f"Find the number of {meter['serial']}.", "energy", "SELECT meter_id FROM meters WHERE serial = ?", meter["serial"]
    )
    query = "SELECT kwh FROM readings WHERE meter_id = ? AND month = ?"
    story.ask("Find the reading of the month.", "energy", query, _cell(found), month)
    question = f"How many kWh did meter {meter['serial']} of the database energy count in {_named_month(month)}?"
    return story.task(f"energy/meter/{meter['meter_id']}", question, None, None)


TEMPLATES = (
    _fuel, _dearest_visit, _town_of_a_meter, _same_director, _peak_month, _two_doctors, _last_port, _old_report, _best_course,
    _fullest_house, _above_average, _longest_ride, _town_of_a_film, _room_mates, _bill, _best_insured,
)  # fmt: skip
UNANSWERABLE = (_unrecorded, _nobody, _before_the_records)


def _open(task: Task) -> WorldEnvironment[Desk]:
    desk = Desk()
    return WorldEnvironment(TOOLS.over(desk), desk, end=Desk.close)


SOURCE = Source(
    "tables",
    "1",
    lambda seed: generate("tables", seed, TEMPLATES, UNANSWERABLE),
    _open,
    shared=DATA_DIGEST,
    distractors=DISTRACTORS,
)


def load(size: int | None = None, seed: int = 0) -> Suite:
    """The suite `tables`.

    `size`: number of tasks, 1 to 100,000; left out, 120. `seed`: another one gives other tasks over the same databases. With
    neither, the tasks are the committed snapshot. Raises ValueError for values out of range.
    """
    return SOURCE.suite(size, seed)
