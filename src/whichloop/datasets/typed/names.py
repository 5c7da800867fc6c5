"""What the forms are about: people, places, goods, and draws that several kinds of form share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..generating import Draw
from .desk import Desk

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

_EURO_CENTS = {"USD": (84, 98), "GBP": (112, 121), "CHF": (101, 108), "SEK": (8, 10), "PLN": (21, 25), "CAD": (62, 70)}
"""Currency → euro cents for one of it, from and to."""


def currencies(desk: Desk, count: int) -> list[str]:
    """Draw different currencies, with rates on record for them and for others."""
    draw = desk.draw
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
