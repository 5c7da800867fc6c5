"""The shop: its tables, a shop drawn from a number, and the database of one trial.

Money is kept in whole cents, days as ISO dates. Line 0 of an order is its shipping fee.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from whichloop.datasets.generating import Draw, draw_new, draw_until

Row = dict[str, Any]
"""Column → value, in the table's order."""
Rows = dict[str, list[list[Any]]]
"""Table → rows as lists of their columns, sorted by key: how rows travel as JSON."""
Stand = Mapping[str, list[tuple[Any, ...]]]
"""Table → its rows."""

SHIPPING = "SHIPPING"
"""What stands in the place of a SKU on line 0."""

PLENTY = (35, 140)
"""Pieces in stock of what is not short: no day of the month, so that no such number stands in a date."""

SCHEMA = """
CREATE TABLE customers (customer_id TEXT PRIMARY KEY, name TEXT, email TEXT, city TEXT, tier TEXT);
CREATE TABLE products (
    sku TEXT PRIMARY KEY, product TEXT, variant TEXT, price INTEGER, stock INTEGER CHECK (stock >= 0), restock TEXT
);
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, customer_id TEXT, placed TEXT, status TEXT, promised TEXT, delivered TEXT,
    street TEXT, city TEXT, tracking TEXT, slip INTEGER
);
CREATE TABLE lines (
    order_id TEXT, line INTEGER, sku TEXT, quantity INTEGER CHECK (quantity > 0), unit_price INTEGER, clearance INTEGER, state TEXT,
    returned INTEGER CHECK (returned BETWEEN 0 AND quantity), PRIMARY KEY (order_id, line)
);
CREATE TABLE refunds (
    refund_id TEXT PRIMARY KEY, order_id TEXT, line INTEGER, quantity INTEGER, amount INTEGER CHECK (amount >= 0)
);
CREATE TABLE credits (credit_id INTEGER PRIMARY KEY, customer_id TEXT, amount INTEGER CHECK (amount > 0));
CREATE TABLE policy (topic TEXT, name TEXT, value, PRIMARY KEY (topic, name));
CREATE INDEX orders_of_customer ON orders (customer_id);
"""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "customers": ("customer_id", "name", "email", "city", "tier"),
    "products": ("sku", "product", "variant", "price", "stock", "restock"),
    "orders": ("order_id", "customer_id", "placed", "status", "promised", "delivered", "street", "city", "tracking", "slip"),
    "lines": ("order_id", "line", "sku", "quantity", "unit_price", "clearance", "state", "returned"),
    "refunds": ("refund_id", "order_id", "line", "quantity", "amount"),
    "credits": ("credit_id", "customer_id", "amount"),
    "policy": ("topic", "name", "value"),
}
KEY_COLUMNS = {"lines": 2, "policy": 2}
"""How many of the first columns are a table's key; 1 for tables left out here."""
# The names of the tables are ours; values always travel as parameters.
_INSERTS = {name: f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})" for name, columns in COLUMNS.items()}  # noqa: S608
_SELECTS = {name: f"SELECT * FROM {name}" for name in COLUMNS}  # noqa: S608

FIRST_NAMES = (
    "Amina", "Bruno", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hanna", "Ivo", "Jana", "Kofi", "Lucia", "Mateo", "Nadia",
    "Oskar", "Paula", "Quentin", "Rosa", "Sven", "Tala", "Ugo", "Vera", "Willem", "Ximena", "Yusuf", "Zofia",
)  # fmt: skip
LAST_NAMES = (
    "Abbott", "Bergman", "Castell", "Dvorak", "Egger", "Fontaine", "Gruber", "Hartman", "Ibarra", "Jansen", "Keller", "Lindt",
    "Moreau", "Novak", "Okafor", "Petersen", "Quist", "Rossi", "Schmid", "Tanaka", "Ulrich", "Vidal", "Weber", "Yilmaz", "Zeman",
)  # fmt: skip
CITIES = (
    "Aarhus", "Bergen", "Cork", "Dresden", "Evora", "Faro", "Ghent", "Haarlem", "Innsbruck", "Jena", "Krakow", "Lille", "Malmo",
    "Nantes", "Olomouc", "Porto", "Rouen", "Siena", "Trier", "Utrecht",
)  # fmt: skip
STREETS = (
    "Alder Row", "Birch Lane", "Canal Street", "Dyke Road", "Elm Court", "Ferry Quay", "Garden Way", "Hill Street", "Iris Close",
    "Juniper Road", "Kiln Lane", "Linden Walk", "Mill Lane", "North Parade", "Orchard Rise", "Pier Street",
)  # fmt: skip
MAILBOXES = ("mailbox.example", "post.example", "inbox.example", "letters.example")
TIERS = ("basic", "silver", "gold")
COLOURS = ("amber", "black", "cream", "green", "ivory", "navy", "olive", "red", "silver", "teal", "white", "yellow")
BRANDS = (
    "Alvar", "Borea", "Corvo", "Delft", "Enso", "Fjell", "Gallo", "Halm", "Iduna", "Kestrel", "Lumen", "Marlow", "Norra", "Orbit",
    "Pavo", "Rivet", "Solano", "Tarn", "Umbra", "Vesper",
)  # fmt: skip
THINGS = (
    "backpack", "blanket", "bread bin", "camp chair", "coffee mill", "cooler", "desk lamp", "dinner plate", "door mat", "flask",
    "floor lamp", "fruit bowl", "hammock", "headset", "jug", "kettle", "keyboard", "letter box", "mirror", "parasol", "pillow",
    "rain coat", "saucepan", "stool", "suitcase", "tea tray", "toaster", "towel", "umbrella", "wall clock",
)  # fmt: skip


def dollars_from_cents(cents: int) -> float:
    """Return an amount as the tools do."""
    return cents / 100


class Shop:
    """The rows of all tables, by key."""

    def __init__(self, today: date) -> None:
        self.today = today
        self.tables: dict[str, dict[Any, Row]] = {name: {} for name in COLUMNS}

    def put(self, table: str, *values: Any) -> Row:
        """Add a row, or put it in the place of the one with the same key."""
        row = dict(zip(COLUMNS[table], values, strict=True))
        self.tables[table][_key(table, values)] = row
        return row

    def rows(self) -> Stand:
        """Return a copy of what stands in the tables."""
        return {name: [tuple(row.values()) for row in rows.values()] for name, rows in self.tables.items()}

    def put_all(self, rows: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        for table, table_rows in rows.items():
            for values in table_rows:
                self.put(table, *values)

    def lines_of(self, order: Row) -> list[Row]:
        """Return the lines of an order without its shipping, by number."""
        lines = [row for (owner, line), row in self.tables["lines"].items() if owner == order["order_id"] and line]
        return sorted(lines, key=lambda row: int(row["line"]))

    def orders_of(self, customer: Row) -> list[Row]:
        """Return a customer's orders, from old to new."""
        orders = [row for row in self.tables["orders"].values() if row["customer_id"] == customer["customer_id"]]
        return sorted(orders, key=lambda row: (row["placed"], row["order_id"]))

    def siblings(self, sku: str) -> list[Row]:
        """Return the other variants of a product, by SKU."""
        own = self.tables["products"][sku]
        return [row for key, row in sorted(self.tables["products"].items()) if row["product"] == own["product"] and key != sku]

    def ago(self, days: int) -> str:
        """Return the day so many days before today; a negative number of days lies ahead."""
        return (self.today - timedelta(days)).isoformat()


def _key(table: str, values: Sequence[Any]) -> Any:
    return tuple(values[:2]) if KEY_COLUMNS.get(table) == 2 else values[0]


def changed(now: Stand, before: Stand) -> Rows:
    """Return the rows that are new or different, and under `gone` the keys of missing ones; tables without any left out."""
    changes: Rows = {}
    for table, rows in now.items():
        new = {_key(table, row): list(row) for row in set(rows).difference(before[table])}
        if new:
            changes[table] = [row for _, row in sorted(new.items())]
        for key in sorted({_key(table, row) for row in set(before[table]).difference(rows)} - new.keys()):
            changes.setdefault("gone", []).append([table, *(key if isinstance(key, tuple) else (key,))])
    return changes


def draw_shop(number: int) -> Shop:
    """Draw a shop with its usual goods, customers and orders; the same for the same number."""
    draw = Draw("ecommerce/shop", number)
    shop = Shop(date(2025, 2, 1) + timedelta(draw.integer(0, 300)))
    basic = draw.integer(3, 8)
    rules = {
        "returns": {"days": draw.choice((14, 21, 30, 45))},
        "restocking": {"opened_percent": draw.integer(10, 40, 5)},
        "shipping": {"free_from": draw.integer(60, 240, 20)},
        "goodwill": {
            "late_days": draw.integer(2, 6),
            "basic": basic,
            "silver": basic + draw.integer(2, 9),
            "gold": basic + draw.integer(10, 24),
            "yearly_credits": draw.integer(1, 3),
        },
        "price_match": {"days": draw.choice((7, 10, 14, 20))},
    }
    for topic, facts in rules.items():
        code = f"{draw.choice('ABCDEFGHKLMNPRSTUVWX')}{draw.choice('ABCDEFGHKLMNPRSTUVWX')}-{draw.integer(100, 999)}"
        for name, value in {**facts, "file_code": code}.items():
            shop.put("policy", topic, name, value)
    for product in draw.sample(THINGS, 6):
        draw_product(draw, shop, f"{draw.choice(BRANDS)} {product}")
    goods = list(shop.tables["products"].values())
    for _ in range(8):
        customer = draw_customer(draw, shop)
        for _ in range(draw.integer(0, 2)):
            bought = [(item, draw.integer(1, 3)) for item in draw.sample(goods, draw.integer(1, 2))]
            draw_order(draw, shop, customer, bought, draw.choice(("open", "shipped", "delivered")))
        if draw.chance(0.3):
            shop.put("credits", len(shop.tables["credits"]) + 1, customer["customer_id"], draw.integer(5, 20) * 100)
    return shop


def draw_product(draw: Draw, shop: Shop, product: str) -> None:
    """Draw a product in four colours, all at the same price."""
    # Prices in steps of 20 cents: a fee of 5, 10, 15 … percent leaves whole cents.
    stem, price = f"{product.split()[-1][:3].upper()}{draw.integer(100, 999)}", draw.integer(800, 9_000, 20)
    for colour in draw.sample(COLOURS, 4):
        stock = draw.integer(*PLENTY) if draw.chance(0.7) else 0
        restock = shop.ago(-draw.integer(9, 60)) if not stock else None
        shop.put("products", f"{stem}-{colour[:3].upper()}", product, colour, price, stock, restock)


def draw_customer(draw: Draw, shop: Shop, name: str = "") -> Row:
    """Draw a new customer, with a drawn name if none is given; the address for letters is made from it."""
    name = name or f"{draw.choice(FIRST_NAMES)} {draw.choice(LAST_NAMES)}"
    return shop.put(
        "customers",
        _unused(draw, shop, "customers", "C"),
        name,
        _mailbox(draw, shop, *name.lower().split()),
        draw.choice(CITIES),
        draw.choice(TIERS),
    )


def _mailbox(draw: Draw, shop: Shop, first: str, last: str) -> str:
    """Draw an address that is not part of another one, nor another one of it: a search for it finds one customer."""
    addresses = [row["email"] for row in shop.tables["customers"].values()]
    return draw_until(
        lambda address: not any(address in other or other in address for other in addresses),
        lambda: f"{draw.pick(first, first[0])}.{last}{draw.integer(2, 99)}@{draw.choice(MAILBOXES)}",
    )


def draw_order(draw: Draw, shop: Shop, customer: Row, bought: Sequence[tuple[Row, int]], status: str) -> Row:
    """Draw a new order of (product, quantity) at today's prices, with a shipping fee."""
    number, age = _unused(draw, shop, "orders", "S"), draw.integer(8, 25)
    delivered = draw.integer(1, age - 4) if status == "delivered" else None
    order = shop.put(
        "orders",
        number,
        customer["customer_id"],
        shop.ago(age),
        status,
        shop.ago(delivered) if delivered else shop.ago(-draw.integer(1, 9)),
        shop.ago(delivered) if delivered else None,
        f"{draw.integer(1, 140)} {draw.choice(STREETS)}",
        customer["city"],
        None if status == "open" else f"T{draw.integer(10**8, 10**9 - 1)}",
        draw.integer(10_000, 99_999),
    )
    shop.put("lines", number, 0, SHIPPING, 1, draw.integer(300, 1_400, 20), 0, status, 0)
    for line, (product, quantity) in enumerate(bought, 1):
        shop.put("lines", number, line, product["sku"], quantity, product["price"], 0, status, 0)
    return order


def _unused(draw: Draw, shop: Shop, table: str, letter: str) -> str:
    return draw_new(shop.tables[table], lambda: f"{letter}{draw.integer(10_000, 99_999)}")


def _template() -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA)
        return connection.serialize()
    finally:
        connection.close()


_EMPTY = _template()
"""Return the tables without rows: loading these bytes is quicker than creating the tables anew."""


class ShopDatabase:
    """The shop of one trial in an in-memory SQLite database."""

    def __init__(self, shop: Shop) -> None:
        # The loop of the trial may be closed from another thread than the one that opened it; the calls never overlap.
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.deserialize(_EMPTY)
        self._opening = shop.rows()
        self.connection.execute("BEGIN")
        for table, rows in self._opening.items():
            self.connection.executemany(_INSERTS[table], rows)
        self.connection.execute("COMMIT")

    def all(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a query."""
        cursor = self.connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def one(self, sql: str, *values: Any) -> Row | None:
        """Return a query's first row; None if there is no row."""
        return next(iter(self.all(sql, *values)), None)

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of a query's first row; None if there is no row."""
        return next(iter(self.connection.execute(sql, values).fetchone() or ()), None)

    def write(self, sql: str, *values: Any) -> None:
        self.connection.execute(sql, values)

    def changes(self) -> Rows:
        """Return the rows that a trial has added or changed so far, whatever table they stand in."""
        now = {table: self.connection.execute(select).fetchall() for table, select in _SELECTS.items()}
        return changed(now, self._opening)

    def close(self) -> None:
        self.connection.close()
