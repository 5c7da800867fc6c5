"""The databases: a clinic, a shipping line, schools, energy meters, a film festival, bicycle rentals and a museum, all invented.

Names of people and towns are alike across databases. Dates are ISO text, money is in whole crowns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

from whichloop.datasets.generating import Draw
from whichloop.protocol.digest import digest

Row = Mapping[str, Any]
YEARS = (2021, 2022, 2023)
"""The years of all dates."""


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    name: str
    columns: str
    """The columns as CREATE TABLE has them."""
    rows: tuple[Row, ...]
    """Keys in the order of the columns."""


@dataclass(frozen=True, slots=True)
class DatabaseContent:
    name: str
    tables: Mapping[str, DatabaseTable]

    def __getitem__(self, table: str) -> tuple[Row, ...]:
        return self.tables[table].rows


def all_digest() -> str:
    """Return the sha256 of all schemas and rows."""
    return digest(
        [
            [
                name,
                [
                    [table.name, table.columns, [list(row.values()) for row in table.rows]]
                    for table in database(name).tables.values()
                ],
            ]
            for name in NAMES
        ]
    )


@cache
def database(name: str) -> DatabaseContent:
    """Draw a database, once per process, in about 10 ms."""
    tables = _MAKERS[name](Draw("tables", name))
    return DatabaseContent(name, {table.name: table for table in tables})


@cache
def image(name: str) -> bytes:
    """Return the database as SQLite serializes it: about 100 KB."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in database(name).tables.values():
            connection.execute(f"CREATE TABLE {table.name} ({table.columns})")
            marks = ", ".join("?" * len(table.rows[0]))
            rows = [tuple(row.values()) for row in table.rows]
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)  # noqa: S608 - names of our own
        connection.commit()
        return connection.serialize()


# Names

_FIRST = (
    "Abel", "Alma", "Bodil", "Britt", "Cesar", "Clio", "Dora", "Emil", "Enid", "Felix", "Flora", "Georg", "Gerda", "Hugo", "Ilse",
    "Iris", "Jan", "Jette", "Knut", "Leif", "Lotte", "Marit", "Milo", "Nora", "Otto", "Pia", "Rolf", "Ruth", "Silas", "Tove",
)  # fmt: skip
_LAST = (
    "Aster", "Birk", "Brandt", "Dahl", "Ekman", "Falk", "Frost", "Grund", "Hald", "Holm", "Juhl", "Kern", "Kvist", "Lind", "Moller",
    "Nyman", "Olsen", "Palm", "Quist", "Rask", "Ravn", "Skov", "Storm", "Thorn", "Ulv", "Vang", "Winther", "Ziegler",
)  # fmt: skip
TOWNS = ("Arvik", "Brenna", "Dalby", "Elvestad", "Fossum", "Granli", "Hovden", "Kisa", "Lomma", "Nesby", "Rindal", "Selje")
_COUNTRIES = ("Arland", "Borduria", "Castavia", "Drumond", "Elbonia", "Freedonia", "Genovia", "Illyria")
_COLOURS = (
    "Amber", "Blue", "Copper", "Dark", "Emerald", "Frozen", "Golden", "Hollow", "Iron", "Jade", "Little", "Lost", "Pale",
    "Silent",
)  # fmt: skip
_NOUNS = (
    "Bridge", "Comet", "Dancer", "Engine", "Field", "Garden", "Harbour", "Letter", "Meadow", "Orchard", "Parade", "Signal",
    "Window",
)  # fmt: skip


def _people(draw: Draw, count: int) -> list[str]:
    return draw.sample([f"{first} {last}" for first in _FIRST for last in _LAST], count)


def _titles(draw: Draw, count: int) -> list[str]:
    return draw.sample([f"{colour} {noun}" for colour in _COLOURS for noun in _NOUNS], count)


def _day(draw: Draw) -> str:
    return f"{draw.choice(YEARS)}-{draw.integer(1, 12):02d}-{draw.integer(1, 28):02d}"


def _table(name: str, columns: str, rows: Iterator[tuple[Any, ...]]) -> DatabaseTable:
    """Make a table of rows without their number, which becomes the first column."""
    names = [column.split()[0] for column in columns.split(", ")]
    numbered_rows = tuple(dict(zip(names, (number, *row), strict=True)) for number, row in enumerate(rows, start=1))
    return DatabaseTable(name, columns, numbered_rows)


# Databases


def _clinic(draw: Draw) -> list[DatabaseTable]:
    fields = ("surgery", "cardiology", "dermatology", "paediatrics", "neurology")
    return [
        _table(
            "doctors",
            "doctor_id INTEGER PRIMARY KEY, name TEXT, specialty TEXT, town TEXT",
            ((name, draw.choice(fields), draw.choice(TOWNS)) for name in _people(draw, 36)),
        ),
        _table(
            "patients",
            "patient_id INTEGER PRIMARY KEY, name TEXT, birth_year INTEGER, town TEXT",
            ((name, draw.integer(1931, 2015), draw.choice(TOWNS)) for name in _people(draw, 150)),
        ),
        _table(
            "visits",
            "visit_id INTEGER PRIMARY KEY, patient_id INTEGER, doctor_id INTEGER, day TEXT, fee INTEGER",
            ((draw.integer(1, 150), draw.integer(1, 36), _day(draw), draw.integer(40, 990)) for _ in range(2200)),
        ),
    ]


def _shipping(draw: Draw) -> list[DatabaseTable]:
    harbours = [
        f"{place} {kind}"
        for place in ("North", "South", "East", "West", "New", "Old", "Fort", "Cape")
        for kind in ("Haven", "Quay", "Sound")
    ]
    return [
        _table(
            "ports",
            "port_id INTEGER PRIMARY KEY, name TEXT, country TEXT",
            ((name, draw.choice(_COUNTRIES)) for name in harbours),
        ),
        _table(
            "vessels",
            "vessel_id INTEGER PRIMARY KEY, name TEXT, built INTEGER, capacity INTEGER",
            ((f"MV {name}", draw.integer(1985, 2019), draw.integer(300, 4000)) for name in _titles(draw, 45)),
        ),
        _table(
            "voyages",
            "voyage_id INTEGER PRIMARY KEY, vessel_id INTEGER, from_port INTEGER, to_port INTEGER,"
            " departed TEXT, containers INTEGER, fuel INTEGER",
            (
                (draw.integer(1, 45), *draw.sample(range(1, 25), 2), _day(draw), draw.integer(20, 900), draw.integer(15, 480))
                for _ in range(1100)
            ),
        ),
    ]


def _school(draw: Draw) -> list[DatabaseTable]:
    subjects = ("algebra", "biology", "chemistry", "drawing", "geography", "history", "music", "physics")
    students = _people(draw, 260)
    return [
        _table(
            "teachers",
            "teacher_id INTEGER PRIMARY KEY, name TEXT, subject TEXT, town TEXT",
            ((name, draw.choice(subjects), draw.choice(TOWNS)) for name in _people(draw, 48)),
        ),
        _table(
            "courses",
            "course_id INTEGER PRIMARY KEY, teacher_id INTEGER, code TEXT, room INTEGER",
            ((draw.integer(1, 48), f"C{number}", draw.integer(100, 499)) for number in draw.sample(range(1000, 9999), 180)),
        ),
        _table(
            "enrolments",
            "enrolment_id INTEGER PRIMARY KEY, course_id INTEGER, student TEXT, year INTEGER, points INTEGER",
            ((draw.integer(1, 180), draw.choice(students), draw.choice(YEARS), draw.integer(8, 100)) for _ in range(2400)),
        ),
    ]


def _energy(draw: Draw) -> list[DatabaseTable]:
    months = [f"{year}-{month:02d}" for year in YEARS for month in range(1, 13)]
    return [
        _table(
            "tariffs",
            "tariff_id INTEGER PRIMARY KEY, name TEXT, price INTEGER",
            ((f"{colour} tariff", price) for colour, price in zip(_COLOURS, draw.sample(range(2, 30), 9), strict=False)),
        ),
        _table(
            "meters",
            "meter_id INTEGER PRIMARY KEY, serial TEXT, town TEXT, tariff_id INTEGER",
            ((f"M-{number}", draw.choice(TOWNS), draw.integer(1, 9)) for number in draw.sample(range(10_000, 99_999), 80)),
        ),
        _table(
            "readings",
            "reading_id INTEGER PRIMARY KEY, meter_id INTEGER, month TEXT, kwh INTEGER",
            ((meter, month, draw.integer(60, 980)) for meter in range(1, 81) for month in months),
        ),
    ]


def _festival(draw: Draw) -> list[DatabaseTable]:
    directors = _people(draw, 40)
    return [
        _table(
            "films",
            "film_id INTEGER PRIMARY KEY, title TEXT, director TEXT, minutes INTEGER",
            ((title, draw.choice(directors), draw.integer(58, 196)) for title in _titles(draw, 120)),
        ),
        _table(
            "venues",
            "venue_id INTEGER PRIMARY KEY, name TEXT, town TEXT, seats INTEGER",
            (
                (f"{colour} Cinema", town, draw.integer(80, 900))
                for colour, town in zip(_COLOURS, draw.shuffled(TOWNS), strict=False)
            ),
        ),
        _table(
            "screenings",
            "screening_id INTEGER PRIMARY KEY, film_id INTEGER, venue_id INTEGER, day TEXT, tickets INTEGER",
            ((draw.integer(1, 120), draw.integer(1, 12), _day(draw), draw.integer(5, 600)) for _ in range(1200)),
        ),
    ]


def _rentals(draw: Draw) -> list[DatabaseTable]:
    customers = _people(draw, 140)
    return [
        _table(
            "shops",
            "shop_id INTEGER PRIMARY KEY, name TEXT, town TEXT",
            ((f"{noun} Cycles", town) for noun, town in zip(_NOUNS, (*draw.shuffled(TOWNS), draw.choice(TOWNS)), strict=True)),
        ),
        _table(
            "bikes",
            "bike_id INTEGER PRIMARY KEY, shop_id INTEGER, model TEXT, daily_rate INTEGER",
            ((draw.integer(1, 13), f"{draw.choice(_COLOURS)} {draw.integer(20, 99)}", draw.integer(7, 60)) for _ in range(150)),
        ),
        _table(
            "rentals",
            "rental_id INTEGER PRIMARY KEY, bike_id INTEGER, customer TEXT, started TEXT, days INTEGER",
            ((draw.integer(1, 150), draw.choice(customers), _day(draw), draw.integer(1, 30)) for _ in range(1800)),
        ),
    ]


def _museum(draw: Draw) -> list[DatabaseTable]:
    borrowers = [f"{town} {kind}" for town in TOWNS for kind in ("Gallery", "Museum")]
    return [
        _table(
            "artists",
            "artist_id INTEGER PRIMARY KEY, name TEXT, born INTEGER, country TEXT",
            ((name, draw.integer(1720, 1960), draw.choice(_COUNTRIES)) for name in _people(draw, 60)),
        ),
        _table(
            "objects",
            "object_id INTEGER PRIMARY KEY, artist_id INTEGER, title TEXT, value INTEGER",
            ((draw.integer(1, 60), title, draw.integer(300, 95_000)) for title in _titles(draw, 180)),
        ),
        _table(
            "loans",
            "loan_id INTEGER PRIMARY KEY, object_id INTEGER, borrower TEXT, started TEXT, insured INTEGER",
            ((draw.integer(1, 180), draw.choice(borrowers), _day(draw), draw.integer(500, 99_000)) for _ in range(1300)),
        ),
    ]


_MAKERS: Mapping[str, Callable[[Draw], list[DatabaseTable]]] = {
    "clinic": _clinic,
    "energy": _energy,
    "festival": _festival,
    "museum": _museum,
    "rentals": _rentals,
    "school": _school,
    "shipping": _shipping,
}
NAMES = tuple(_MAKERS)
