"""The shop: the rows of its tables, drawn from a number.

Money is kept in whole cents, days as ISO dates. Line 0 of an order is its shipping fee.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from whichloop.datasets.generating import Draw, draw_new, draw_until

from ..story import Wording

Row = dict[str, Any]
"""Column → value, in the table's order."""
WORDING = Wording(__file__)
SHIPPING = "SHIPPING"
"""What stands in the place of a SKU on line 0."""
PLENTY = (35, 140)
"""Pieces in stock of what is not short: no day of the month, so that no such number stands in a date."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "customers": ("customer_id", "name", "email", "city", "tier"),
    "products": ("sku", "product", "variant", "price", "stock", "restock"),
    "orders": ("order_id", "customer_id", "placed", "status", "promised", "delivered", "street", "city", "tracking", "slip"),
    "lines": ("order_id", "line", "sku", "quantity", "unit_price", "clearance", "state", "returned"),
    "refunds": ("refund_id", "order_id", "line", "quantity", "amount"),
    "credits": ("credit_id", "customer_id", "amount"),
    "policy": ("topic", "name", "value"),
}
"""The first column of a table is its key; of `lines` and `policy` the first two are."""


class Shop:
    """The rows of all tables, by key."""

    def __init__(self, today: date) -> None:
        self.today = today
        self.tables: dict[str, dict[Any, Row]] = {name: {} for name in COLUMNS}

    def put(self, table: str, *values: Any) -> Row:
        """Add a row, or put it in the place of the one with the same key."""
        row = dict(zip(COLUMNS[table], values, strict=True))
        self.tables[table][values[:2] if table in ("lines", "policy") else values[0]] = row
        return row

    def open(self, rows: Mapping[str, Iterable[Sequence[Any]]] | None = None) -> None:
        """Put these rows in, and take what stands in the tables then for the state before all changes."""
        for table, table_rows in (rows or {}).items():
            for values in table_rows:
                self.put(table, *values)
        self._opening = {table: {key: [*row.values()] for key, row in rows.items()} for table, rows in self.tables.items()}

    def changes(self) -> dict[str, list[list[Any]]]:
        """Return the rows that are new or different, and under `gone` the keys of missing ones; tables without any left out."""
        changes: dict[str, list[list[Any]]] = {}
        for table, rows in self.tables.items():
            before = self._opening[table]
            if new := [[*row.values()] for key, row in sorted(rows.items()) if before.get(key) != [*row.values()]]:
                changes[table] = new
            for key in sorted(before.keys() - rows):
                changes.setdefault("gone", []).append([table, *(key if isinstance(key, tuple) else (key,))])
        return changes

    def lines_of(self, order_id: str) -> list[Row]:
        """Return the lines of an order by number, its shipping first."""
        return [row for key, row in sorted(self.tables["lines"].items()) if key[0] == order_id]

    def orders_of(self, customer_id: str) -> list[str]:
        """Return the numbers of a customer's orders, from old to new."""
        orders = [(row["placed"], key) for key, row in self.tables["orders"].items() if row["customer_id"] == customer_id]
        return [key for _, key in sorted(orders)]

    def siblings(self, sku: str) -> list[Row]:
        """Return the other variants of a product, by SKU."""
        own = self.tables["products"][sku]
        return [row for key, row in sorted(self.tables["products"].items()) if row["product"] == own["product"] and key != sku]

    def ago(self, days: int) -> str:
        """Return the day so many days before today; a negative number of days lies ahead."""
        return (self.today - timedelta(days)).isoformat()


def draw_shop(number: int) -> Shop:
    """Draw a shop with its usual goods, customers and orders; the same for the same number."""
    draw, texts = Draw("ecommerce/shop", number), WORDING.texts
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
    for thing in draw.sample(texts["things"], 6):
        product = f"{draw.choice(texts['brands'])} {thing}"
        # Prices in steps of 20 cents: a fee of 5, 10, 15 … percent leaves whole cents.
        stem, price = f"{product.split()[-1][:3].upper()}{draw.integer(100, 999)}", draw.integer(800, 9_000, 20)
        for colour in draw.sample(texts["colours"], 4):
            stock = draw.integer(*PLENTY) if draw.chance(0.7) else 0
            restock = shop.ago(-draw.integer(9, 60)) if not stock else None
            shop.put("products", f"{stem}-{colour[:3].upper()}", product, colour, price, stock, restock)
    goods = list(shop.tables["products"].values())
    for _ in range(8):
        customer = draw_customer(draw, shop)
        for _ in range(draw.integer(0, 2)):
            bought = [(item, draw.integer(1, 3)) for item in draw.sample(goods, draw.integer(1, 2))]
            draw_order(draw, shop, customer, bought, draw.choice(("open", "shipped", "delivered")))
        if draw.chance(0.3):
            shop.put("credits", len(shop.tables["credits"]) + 1, customer["customer_id"], draw.integer(5, 20) * 100)
    shop.open()
    return shop


def draw_customer(draw: Draw, shop: Shop, name: str = "") -> Row:
    """Draw a new customer, with a drawn name if none is given.

    The e-mail address is no part of another one, nor another one of it: a search for it finds one customer.
    """
    texts = WORDING.texts
    name = name or f"{draw.choice(texts['first_names'])} {draw.choice(texts['last_names'])}"
    number, (first, last) = _unused(draw, shop, "customers", "C"), name.lower().split()
    addresses = [row["email"] for row in shop.tables["customers"].values()]
    email = draw_until(
        lambda address: not any(address in other or other in address for other in addresses),
        lambda: f"{draw.choice((first, first[0]))}.{last}{draw.integer(2, 99)}@{draw.choice(texts['mailboxes'])}",
    )
    return shop.put("customers", number, name, email, draw.choice(texts["cities"]), draw.choice(("basic", "silver", "gold")))


def draw_order(draw: Draw, shop: Shop, customer: Row, bought: Sequence[tuple[Row, int]], status: str) -> Row:
    """Draw a new order of (product, quantity) at today's prices, with a shipping fee."""
    number, age = _unused(draw, shop, "orders", "S"), draw.integer(8, 25)
    delivered = shop.ago(draw.integer(1, age - 4)) if status == "delivered" else None
    promised = delivered or shop.ago(-draw.integer(1, 9))
    street = f"{draw.integer(1, 140)} {draw.choice(WORDING.texts['streets'])}"
    tracking = None if status == "open" else f"T{draw.integer(10**8, 10**9 - 1)}"
    place, slip = (street, customer["city"]), draw.integer(10_000, 99_999)
    order = shop.put(
        "orders", number, customer["customer_id"], shop.ago(age), status, promised, delivered, *place, tracking, slip
    )  # fmt: skip
    shop.put("lines", number, 0, SHIPPING, 1, draw.integer(300, 1_400, 20), 0, status, 0)
    for line, (product, quantity) in enumerate(bought, 1):
        shop.put("lines", number, line, product["sku"], quantity, product["price"], 0, status, 0)
    return order


def _unused(draw: Draw, shop: Shop, table: str, letter: str) -> str:
    return draw_new(shop.tables[table], lambda: f"{letter}{draw.integer(10_000, 99_999)}")
