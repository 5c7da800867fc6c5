"""The databases: a clinic, a shipping line, schools, energy meters, a film festival, bicycle rentals and a museum, all invented.

Names of people and towns are alike across databases. Dates are ISO text, money is in whole crowns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from whichloop.datasets.facts import facts
from whichloop.datasets.generating import Draw
from whichloop.datasets.story import Wording

Row = Mapping[str, Any]
NAMES = ("clinic", "energy", "festival", "museum", "rentals", "school", "shipping")
YEARS = (2021, 2022, 2023)
"""The years of all dates."""
WORDING = Wording(__file__)


class DatabaseTable(NamedTuple):
    columns: str
    """The columns as CREATE TABLE has them."""
    rows: tuple[Row, ...]
    """Keys in the order of the columns."""


@cache
def database(name: str) -> Mapping[str, DatabaseTable]:
    """Draw a database, once per process, in about 30 ms: its tables by name."""
    draw, tables = Draw("tables", name), dict[str, DatabaseTable]()
    lists = {**WORDING.texts["lists"], "years": YEARS}
    for table, things in _things(name, draw, lists):
        said, number = WORDING.texts["rows"][name][table], f"{table[:-1]}_id"
        each = (thing if isinstance(thing, dict) else {"each": thing} for thing in things)
        rows = tuple({number: place, **facts(draw, said, {**lists, **names})} for place, names in enumerate(each, 1))
        types = {name: "INTEGER" if isinstance(value, int) else "TEXT" for name, value in rows[0].items()}
        types[number] += " PRIMARY KEY"
        tables[table] = DatabaseTable(", ".join(f"{column} {kind}" for column, kind in types.items()), rows)
    return tables


@cache
def image(name: str) -> bytes:
    """Return the database as SQLite serializes it: about 100 KB."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, (columns, rows) in database(name).items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(rows[0]))
            values = (tuple(row.values()) for row in rows)
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608 - names of our own
        connection.commit()
        return connection.serialize()


def _things(name: str, draw: Draw, lists: dict[str, Any]) -> Iterator[tuple[str, Iterable[Any]]]:
    """Draw what the rows of each table are about, when its turn comes, and add the lists that its columns choose from."""
    people = [f"{first} {last}" for first, last in product(lists["first_names"], lists["last_names"])]
    titles = [f"{colour} {noun}" for colour, noun in product(lists["colours"], lists["nouns"])]
    towns = lists["towns"]
    match name:
        case "clinic":
            yield "doctors", draw.sample(people, 36)
            yield "patients", draw.sample(people, 150)
            yield "visits", range(2200)
        case "energy":
            prices = draw.sample(range(2, 30), 9)
            yield "tariffs", [{"colour": colour, "price": price} for colour, price in zip(lists["colours"], prices, strict=False)]
            yield "meters", draw.sample(range(10_000, 99_999), 80)
            months = [f"{year}-{month:02d}" for year, month in product(YEARS, range(1, 13))]
            yield "readings", [{"meter": meter, "month": month} for meter, month in product(range(1, 81), months)]
        case "festival":
            lists["directors"] = draw.sample(people, 40)
            yield "films", draw.sample(titles, 120)
            colours = zip(lists["colours"], draw.shuffled(towns), strict=False)
            yield "venues", [{"colour": colour, "town": town} for colour, town in colours]
            yield "screenings", range(1200)
        case "museum":
            lists["borrowers"] = [f"{town} {kind}" for town, kind in product(towns, ("Gallery", "Museum"))]
            yield "artists", draw.sample(people, 60)
            yield "objects", draw.sample(titles, 180)
            yield "loans", range(1300)
        case "rentals":
            lists["customers"] = draw.sample(people, 140)
            nouns = zip(lists["nouns"], [*draw.shuffled(towns), draw.choice(towns)], strict=True)
            yield "shops", [{"noun": noun, "town": town} for noun, town in nouns]
            yield "bikes", range(150)
            yield "rentals", range(1800)
        case "school":
            lists["students"] = draw.sample(people, 260)
            yield "teachers", draw.sample(people, 48)
            yield "courses", draw.sample(range(1000, 9999), 180)
            yield "enrolments", range(2400)
        case "shipping":
            yield "ports", [f"{place} {kind}" for place, kind in product(lists["places"], lists["harbours"])]
            yield "vessels", draw.sample(titles, 45)
            voyages = ((draw.integer(1, 45), *draw.sample(range(1, 25), 2)) for _ in range(1100))
            yield "voyages", (dict(zip(("vessel", "start", "end"), voyage, strict=True)) for voyage in voyages)
