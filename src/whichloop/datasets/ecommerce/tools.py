"""What the back office can do: typed functions over the shop. Each checks all that it needs before it changes anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from whichloop.datasets.task import Toolset, look_up

from .shop import SHIPPING, WORDING, Row, Shop

MAX_FOUND = 10
MIN_SEARCHED = 3
"""Shortest search text: fewer characters would match nearly every customer."""

OrderId = Annotated[str, Field(description="Number of an order, such as S12345.")]
Line = Annotated[int, Field(ge=0, le=1_000, description="Number of a line within its order; 0 is the shipping fee.")]
Sku = Annotated[str, Field(description="Stock number of one variant of a product.")]
Dollars = Annotated[float, Field(ge=0.01, le=10_000, description="Amount in dollars.")]
Topic = Literal["returns", "restocking", "shipping", "goodwill", "price_match"]


class NoSuchRecord(LookupError):
    """Nothing stands under the number that was given."""


class Refused(ValueError):
    """What was asked for cannot be done as things are."""


class OutOfStock(Refused):
    """There are fewer pieces than needed."""


def read_policy(shop: Shop, topic: Topic) -> dict[str, Any]:
    """Read what the shop's policy says on a topic: the text, and its numbers by name."""
    facts = {name: row["value"] for (about, name), row in sorted(shop.tables["policy"].items()) if about == topic}
    texts = WORDING.texts["policy"]
    return {"topic": topic, "text": f"{texts[topic]} {texts['refusals']}".format(**facts), **facts}


def find_customers(
    shop: Shop,
    text: Annotated[str, Field(description="Part of a name, an e-mail address or a city, or a customer's number.")],
) -> list[dict[str, Any]]:
    """Find customers, at most 10, by number: each with tier, the numbers of its orders from old to new, and this year's credits."""
    text = text.strip().lower()
    if len(text) < MIN_SEARCHED:
        raise Refused(f"Search for at least {MIN_SEARCHED} characters.")
    found = []
    for number, row in sorted(shop.tables["customers"].items()):
        if text in f"{row['name']}|{row['email']}|{row['city']}|{number}".lower():
            found.append({**row, "orders": shop.orders_of(number), "credits_this_year": len(_amounts(shop, "credits", number))})
    return found[:MAX_FOUND]


def get_order(shop: Shop, order_id: OrderId) -> dict[str, Any]:
    """Read an order: when it was placed, promised and delivered, where it goes, and its lines. Line 0 is the shipping fee."""
    order, lines = _row(shop, "orders", order_id), []
    for row in shop.lines_of(order_id):
        product = shop.tables["products"].get(row["sku"])
        article = f"{product['product']}, {product['variant']}" if product else "shipping fee"
        line = {"line": row["line"], "sku": row["sku"], "article": article, **row}
        lines.append(line | {"unit_price": row["unit_price"] / 100, "clearance": bool(row["clearance"])})
        del lines[-1]["order_id"]
    return {name: value for name, value in order.items() if name != "slip"} | {"lines": lines}


def get_product(shop: Shop, sku: Sku) -> dict[str, Any]:
    """Read one variant of a product: price and stock today, when more will come in, and the product's other variants."""
    product = _row(shop, "products", sku)
    others = [{"sku": row["sku"], "variant": row["variant"]} for row in shop.siblings(sku)]
    return product | {"price": product["price"] and product["price"] / 100, "other_variants": others}


def refund_line(
    shop: Shop,
    order_id: OrderId,
    line: Line,
    quantity: Annotated[int, Field(ge=1, le=1_000, description="How many pieces are paid back.")],
    fee_percent: Annotated[int, Field(ge=0, le=100, description="Share of the price that the shop keeps, in percent.")],
) -> dict[str, Any]:
    """Take back pieces of a delivered line and pay for them, or pay back a shipping fee (line 0).

    Pieces taken back without a fee go back into stock. Whether the policy allows it is not checked here.
    """
    bought = _line(shop, order_id, line)
    if line and bought["state"] != "delivered":
        raise Refused(f"Line {line} of order {order_id} is {bought['state']}: only delivered goods can be taken back.")
    unreturned = bought["quantity"] - bought["returned"]
    if quantity > unreturned:
        raise Refused(f"Line {line} of order {order_id} has {unreturned} left that were not paid back before, not {quantity}.")
    amount = (quantity * bought["unit_price"] * (100 - fee_percent) + 50) // 100
    paid_back = _pay_back(shop, order_id, line, quantity, amount)
    bought["returned"] += quantity
    product = shop.tables["products"].get(bought["sku"], {"stock": None})
    if line and not fee_percent:
        product["stock"] += quantity
    on_order = sum(_amounts(shop, "refunds", order_id)) / 100
    return {**paid_back, "paid_back_on_order": on_order, "in_stock": product["stock"]}


def exchange_line(shop: Shop, order_id: OrderId, line: Line, new_sku: Sku) -> dict[str, Any]:
    """Swap all pieces of a line for another variant of the same product, at the price that was paid.

    The new pieces are taken from stock, and the old ones go into stock unless they are still on back order.
    """
    bought, new = _line(shop, order_id, line), _row(shop, "products", new_sku)
    old = None if bought["sku"] == SHIPPING else _row(shop, "products", bought["sku"])
    if old is None or old["product"] != new["product"] or old is new or bought["returned"]:
        raise Refused(
            f"Line {line} of order {order_id} cannot be swapped for {new_sku}: it is no other variant of it, or went back."
        )
    if new["stock"] < bought["quantity"]:
        raise OutOfStock(f"{new_sku}: {new['stock']} in stock, {bought['quantity']} needed.")
    if bought["state"] != "back order":
        old["stock"] += bought["quantity"]
    new["stock"] -= bought["quantity"]
    bought |= {"sku": new_sku, "state": "packed"}
    return {"order_id": order_id, "line": line, "sku": new_sku, "left_in_stock": new["stock"]}


def match_price(shop: Shop, order_id: OrderId, line: Line, unit_price: Dollars) -> dict[str, Any]:
    """Bring a line down to a lower price per piece and pay back the difference."""
    bought, price = _line(shop, order_id, line), round(unit_price * 100)
    if price >= bought["unit_price"]:
        raise Refused(f"Line {line} of order {order_id} costs {bought['unit_price'] / 100} a piece already.")
    amount = (bought["unit_price"] - price) * (bought["quantity"] - bought["returned"])
    bought["unit_price"] = price
    return {**_pay_back(shop, order_id, line, 0, amount), "unit_price": price / 100}


def give_credit(shop: Shop, customer_id: str, amount: Dollars) -> dict[str, Any]:
    """Give a customer a goodwill credit at once. Each call gives another one; nothing is checked against the policy."""
    _row(shop, "customers", customer_id)
    shop.put("credits", len(shop.tables["credits"]) + 1, customer_id, round(amount * 100))
    return {"customer_id": customer_id, "amount": amount, "credit_balance": sum(_amounts(shop, "credits", customer_id)) / 100}


def change_address(shop: Shop, order_id: OrderId, street: str, city: str) -> dict[str, Any]:
    """Send an order that has not left yet to another address. A new packing slip is printed; its number is returned."""
    order = _row(shop, "orders", order_id)
    if order["status"] != "open":
        raise Refused(f"Order {order_id} is {order['status']}: the address can be changed only before it leaves.")
    order |= {"street": street, "city": city}
    return {"order_id": order_id, "street": street, "city": city, "packing_slip": order["slip"]}


def combine_orders(shop: Shop, order_id: OrderId, other_id: OrderId) -> dict[str, Any]:
    """Move the goods of another open order of the same customer into an open order, so that they leave in one parcel."""
    order, other = _row(shop, "orders", order_id), _row(shop, "orders", other_id)
    if order is other or order["customer_id"] != other["customer_id"]:
        raise Refused("Only two different orders of one customer can be combined.")
    for one in (order, other):
        if one["status"] != "open":
            raise Refused(f"Order {one['order_id']} is {one['status']}: only open orders can be combined.")
    last = shop.lines_of(order_id)[-1]["line"]
    for number, row in enumerate(shop.lines_of(other_id)[1:], last + 1):
        del shop.tables["lines"][other_id, row["line"]]
        shop.put("lines", order_id, number, *list(row.values())[2:])
    other["status"] = "combined"
    total = sum(row["quantity"] * row["unit_price"] for row in shop.lines_of(order_id)[1:])
    return {"order_id": order_id, "other_id": other_id, "goods_total": total / 100}


TOOLS: Toolset[Shop] = Toolset(
    read_policy, find_customers, get_order, get_product, refund_line, exchange_line, match_price, give_credit, change_address,
    combine_orders,
    writes=(refund_line, exchange_line, match_price, give_credit, change_address, combine_orders),
)  # fmt: skip


def _row(shop: Shop, table: str, key: str) -> Row:
    return look_up(shop.tables[table], key, f"There is no {table.removesuffix('s')} {key}.", NoSuchRecord)


def _line(shop: Shop, order_id: str, line: int) -> Row:
    _row(shop, "orders", order_id)
    return look_up(shop.tables["lines"], (order_id, line), f"Order {order_id} has no line {line}.", NoSuchRecord)


def _amounts(shop: Shop, table: str, owner: str) -> list[int]:
    return [row["amount"] for row in shop.tables[table].values() if list(row.values())[1] == owner]


def _pay_back(shop: Shop, order_id: str, line: int, quantity: int, amount: int) -> dict[str, Any]:
    before = sum((row["order_id"], row["line"]) == (order_id, line) for row in shop.tables["refunds"].values())
    refund_id = f"R{order_id[1:]}-{line}-{before + 1}"
    shop.put("refunds", refund_id, order_id, line, quantity, amount)
    return {"refund_id": refund_id, "amount": amount / 100}
