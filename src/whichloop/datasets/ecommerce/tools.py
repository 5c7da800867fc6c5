"""What the back office can do: typed functions over the shop's database. Every statement takes its values as parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import Field

from whichloop.datasets.task import Toolset

from .shop import SHIPPING, Row, ShopDatabase, dollars_from_cents

MAX_FOUND = 10
MIN_SEARCHED = 3
"""Shortest search text: fewer characters would match nearly every customer."""

OrderId = Annotated[str, Field(description="Number of an order, such as S12345.")]
Line = Annotated[int, Field(ge=0, le=1_000, description="Number of a line within its order; 0 is the shipping fee.")]
Sku = Annotated[str, Field(description="Stock number of one variant of a product.")]
Dollars = Annotated[float, Field(ge=0.01, le=10_000, description="Amount in dollars.")]
Topic = Literal["returns", "restocking", "shipping", "goodwill", "price_match"]

POLICY = {
    "returns": (
        "Goods may be sent back within {days} days of delivery, the last day included. Goods bought on clearance are never "
        "taken back."
    ),
    "restocking": "Sealed goods are paid back in full. When goods come back opened, {opened_percent} percent of the price is kept.",
    "shipping": (
        "Orders that are combined ship free where their goods together come to {free_from} dollars or more: then the shipping "
        "fees of all of them are paid back. A fee is paid back too when a parcel arrives after the promised day."
    ),
    "goodwill": (
        "A customer whose parcel arrives {late_days} or more days after the promised day gets one credit: {basic}, {silver} or "
        "{gold} dollars by tier. Nobody gets a credit who has had {yearly_credits} this year."
    ),
    "price_match": "Where an order was placed at most {days} days ago and the price is lower today, the difference is paid back.",
}
REFUSALS = "Requests that this policy does not allow are refused, and filed under the code {file_code}."


class NoSuchRecord(LookupError):
    """Nothing stands under the number that was given."""


class Refused(ValueError):
    """What was asked for cannot be done as things are."""


class OutOfStock(Refused):
    """There are fewer pieces than needed."""


def read_policy(shop: ShopDatabase, topic: Topic) -> dict[str, Any]:
    """Read what the shop's policy says on a topic: the text, and its numbers by name."""
    facts = {row["name"]: row["value"] for row in shop.all("SELECT name, value FROM policy WHERE topic = ? ORDER BY name", topic)}
    return {"topic": topic, "text": f"{POLICY[topic]} {REFUSALS}".format(**facts), **facts}


def find_customers(
    shop: ShopDatabase,
    text: Annotated[str, Field(description="Part of a name, an e-mail address or a city, or a customer's number.")],
) -> list[dict[str, Any]]:
    """Find customers, at most 10, by number: each with tier, the numbers of its orders from old to new, and this year's credits."""
    if len(text.strip()) < MIN_SEARCHED:
        raise Refused(f"Search for at least {MIN_SEARCHED} characters.")
    customers = shop.all(
        "SELECT * FROM customers WHERE instr(lower(name || '|' || email || '|' || city || '|' || customer_id), lower(?)) "
        "ORDER BY customer_id LIMIT ?",
        text.strip(),
        MAX_FOUND,
    )
    return [customer | _standing(shop, customer["customer_id"]) for customer in customers]


def _standing(shop: ShopDatabase, customer_id: str) -> dict[str, Any]:
    orders = shop.all("SELECT order_id FROM orders WHERE customer_id = ? ORDER BY placed, order_id", customer_id)
    credit_count = shop.value("SELECT count(*) FROM credits WHERE customer_id = ?", customer_id)
    return {"orders": [order["order_id"] for order in orders], "credits_this_year": credit_count}


def get_order(shop: ShopDatabase, order_id: OrderId) -> dict[str, Any]:
    """Read an order: when it was placed, promised and delivered, where it goes, and its lines. Line 0 is the shipping fee."""
    order = _order(shop, order_id)
    lines = shop.all(
        "SELECT line, lines.sku, coalesce(product || ', ' || variant, 'shipping fee') AS article, quantity, unit_price, "
        "clearance, state, returned FROM lines LEFT JOIN products USING (sku) WHERE order_id = ? ORDER BY line",
        order_id,
    )
    shown_lines = [
        line | {"unit_price": dollars_from_cents(line["unit_price"]), "clearance": bool(line["clearance"])} for line in lines
    ]
    return {name: value for name, value in order.items() if name != "slip"} | {"lines": shown_lines}


def get_product(shop: ShopDatabase, sku: Sku) -> dict[str, Any]:
    """Read one variant of a product: price and stock today, when more will come in, and the product's other variants."""
    product = _product(shop, sku)
    others = shop.all("SELECT sku, variant FROM products WHERE product = ? AND sku <> ? ORDER BY sku", product["product"], sku)
    price = None if product["price"] is None else dollars_from_cents(product["price"])
    return product | {"price": price, "other_variants": others}


def refund_line(
    shop: ShopDatabase,
    order_id: OrderId,
    line: Line,
    quantity: Annotated[int, Field(ge=1, le=1_000, description="How many pieces are paid back.")],
    fee_percent: Annotated[int, Field(ge=0, le=100, description="Share of the price that the shop keeps, in percent.")],
) -> dict[str, Any]:
    """Take back pieces of a delivered line and pay for them, or pay back a shipping fee (line 0).

    Pieces taken back without a fee go back into stock. Whether the policy allows it is not checked here.
    """
    with _transaction(shop):
        bought = _line(shop, order_id, line)
        if line and bought["state"] != "delivered":
            raise Refused(f"Line {line} of order {order_id} is {bought['state']}: only delivered goods can be taken back.")
        if bought["returned"] + quantity > bought["quantity"]:
            unreturned = bought["quantity"] - bought["returned"]
            raise Refused(f"Line {line} of order {order_id} has {unreturned} left that were not paid back before, not {quantity}.")
        amount = (quantity * bought["unit_price"] * (100 - fee_percent) + 50) // 100
        refund_id = _pay_back(shop, order_id, line, quantity, amount)
        shop.write("UPDATE lines SET returned = returned + ? WHERE order_id = ? AND line = ?", quantity, order_id, line)
        if not fee_percent:
            shop.write("UPDATE products SET stock = stock + ? WHERE sku = ?", quantity, bought["sku"])
        total = shop.value("SELECT sum(amount) FROM refunds WHERE order_id = ?", order_id)
        stock = shop.value("SELECT stock FROM products WHERE sku = ?", bought["sku"])
        return {
            "refund_id": refund_id,
            "amount": dollars_from_cents(amount),
            "paid_back_on_order": dollars_from_cents(total),
            "in_stock": stock,
        }


def exchange_line(shop: ShopDatabase, order_id: OrderId, line: Line, new_sku: Sku) -> dict[str, Any]:
    """Swap all pieces of a line for another variant of the same product, at the price that was paid.

    The new pieces are taken from stock, and the old ones go into stock unless they are still on back order.
    """
    with _transaction(shop):
        bought, new = _line(shop, order_id, line), _product(shop, new_sku)
        old = None if bought["sku"] == SHIPPING else _product(shop, bought["sku"])
        if old is None or old["product"] != new["product"] or old["sku"] == new_sku or bought["returned"]:
            raise Refused(
                f"Line {line} of order {order_id} cannot be swapped for {new_sku}: it is no other variant of it, or went back."
            )
        if new["stock"] < bought["quantity"]:
            raise OutOfStock(f"{new_sku}: {new['stock']} in stock, {bought['quantity']} needed.")
        if bought["state"] != "back order":
            shop.write("UPDATE products SET stock = stock + ? WHERE sku = ?", bought["quantity"], old["sku"])
        shop.write("UPDATE products SET stock = stock - ? WHERE sku = ?", bought["quantity"], new_sku)
        shop.write("UPDATE lines SET sku = ?, state = 'packed' WHERE order_id = ? AND line = ?", new_sku, order_id, line)
        return {"order_id": order_id, "line": line, "sku": new_sku, "left_in_stock": new["stock"] - bought["quantity"]}


def match_price(shop: ShopDatabase, order_id: OrderId, line: Line, unit_price: Dollars) -> dict[str, Any]:
    """Bring a line down to a lower price per piece and pay back the difference."""
    with _transaction(shop):
        bought, price = _line(shop, order_id, line), round(unit_price * 100)
        if price >= bought["unit_price"]:
            raise Refused(f"Line {line} of order {order_id} costs {dollars_from_cents(bought['unit_price'])} a piece already.")
        amount = (bought["unit_price"] - price) * (bought["quantity"] - bought["returned"])
        refund_id = _pay_back(shop, order_id, line, 0, amount)
        shop.write("UPDATE lines SET unit_price = ? WHERE order_id = ? AND line = ?", price, order_id, line)
        return {"refund_id": refund_id, "amount": dollars_from_cents(amount), "unit_price": dollars_from_cents(price)}


def give_credit(shop: ShopDatabase, customer_id: str, amount: Dollars) -> dict[str, Any]:
    """Give a customer a goodwill credit at once. Each call gives another one; nothing is checked against the policy."""
    with _transaction(shop):
        if shop.value("SELECT 1 FROM customers WHERE customer_id = ?", customer_id) is None:
            raise NoSuchRecord(f"There is no customer {customer_id}.")
        shop.write("INSERT INTO credits (customer_id, amount) VALUES (?, ?)", customer_id, round(amount * 100))
        balance = shop.value("SELECT sum(amount) FROM credits WHERE customer_id = ?", customer_id)
        return {"customer_id": customer_id, "amount": amount, "credit_balance": dollars_from_cents(balance)}


def change_address(shop: ShopDatabase, order_id: OrderId, street: str, city: str) -> dict[str, Any]:
    """Send an order that has not left yet to another address. A new packing slip is printed; its number is returned."""
    with _transaction(shop):
        order = _order(shop, order_id)
        if order["status"] != "open":
            raise Refused(f"Order {order_id} is {order['status']}: the address can be changed only before it leaves.")
        shop.write("UPDATE orders SET street = ?, city = ? WHERE order_id = ?", street, city, order_id)
        return {"order_id": order_id, "street": street, "city": city, "packing_slip": order["slip"]}


def combine_orders(shop: ShopDatabase, order_id: OrderId, other_id: OrderId) -> dict[str, Any]:
    """Move the goods of another open order of the same customer into an open order, so that they leave in one parcel."""
    with _transaction(shop):
        order, other = _order(shop, order_id), _order(shop, other_id)
        if order_id == other_id or order["customer_id"] != other["customer_id"]:
            raise Refused("Only two different orders of one customer can be combined.")
        for one in (order, other):
            if one["status"] != "open":
                raise Refused(f"Order {one['order_id']} is {one['status']}: only open orders can be combined.")
        last = shop.value("SELECT max(line) FROM lines WHERE order_id = ?", order_id)
        for number, moved in enumerate(
            shop.all("SELECT line FROM lines WHERE order_id = ? AND line > 0 ORDER BY line", other_id), 1
        ):
            shop.write(
                "UPDATE lines SET order_id = ?, line = ? WHERE order_id = ? AND line = ?",
                order_id, last + number, other_id, moved["line"],
            )  # fmt: skip
        shop.write("UPDATE orders SET status = 'combined' WHERE order_id = ?", other_id)
        total = shop.value("SELECT sum(quantity * unit_price) FROM lines WHERE order_id = ? AND line > 0", order_id)
        return {"order_id": order_id, "other_id": other_id, "goods_total": dollars_from_cents(total)}


TOOLS: Toolset[ShopDatabase] = Toolset(
    read_policy, find_customers, get_order, get_product, refund_line, exchange_line, match_price, give_credit, change_address,
    combine_orders,
    writes=(refund_line, exchange_line, match_price, give_credit, change_address, combine_orders),
)  # fmt: skip


@contextmanager
def _transaction(shop: ShopDatabase) -> Iterator[None]:
    """Do all of a step or nothing of it."""
    shop.connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        shop.connection.execute("ROLLBACK")
        raise
    shop.connection.execute("COMMIT")


def _order(shop: ShopDatabase, order_id: str) -> Row:
    order = shop.one("SELECT * FROM orders WHERE order_id = ?", order_id)
    if order is None:
        raise NoSuchRecord(f"There is no order {order_id}.")
    return order


def _line(shop: ShopDatabase, order_id: str, line: int) -> Row:
    _order(shop, order_id)
    row = shop.one("SELECT * FROM lines WHERE order_id = ? AND line = ?", order_id, line)
    if row is None:
        raise NoSuchRecord(f"Order {order_id} has no line {line}.")
    return row


def _product(shop: ShopDatabase, sku: str) -> Row:
    product = shop.one("SELECT * FROM products WHERE sku = ?", sku)
    if product is None:
        raise NoSuchRecord(f"There is no product {sku}.")
    return product


def _pay_back(shop: ShopDatabase, order_id: str, line: int, quantity: int, amount: int) -> str:
    before = shop.value("SELECT count(*) FROM refunds WHERE order_id = ? AND line = ?", order_id, line)
    refund_id = f"R{order_id[1:]}-{line}-{before + 1}"
    shop.write("INSERT INTO refunds VALUES (?, ?, ?, ?, ?)", refund_id, order_id, line, quantity, amount)
    return refund_id
