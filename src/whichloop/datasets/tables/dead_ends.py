"""A story with an error on the way, and questions without an answer."""

from __future__ import annotations

from whichloop.datasets.generating import DeadEnd, Draft

from .databases import database
from .stories import Story, between, cell, named_month, template, total

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
