"""The shop's books kept by hand: what each step has to leave behind. Expected end states come from here, never from the tools."""

from __future__ import annotations

from .shop import Row, Shop


def refund(shop: Shop, line: Row, quantity: int, fee_percent: int = 0) -> int:
    """Pay for pieces of a line; sealed ones go back on the shelf. Return the cents paid."""
    fee = quantity * line["unit_price"] * fee_percent
    assert fee % 100 == 0, "a fee in whole cents"
    cents: int = quantity * line["unit_price"] - fee // 100
    line["returned"] += quantity
    if not fee_percent and line["line"]:
        shop.tables["products"][line["sku"]]["stock"] += quantity
    _note(shop, line, quantity, cents)
    return cents


def match_price(shop: Shop, line: Row, price: int) -> int:
    """Bring the pieces of a line that have not come back down to a price; return the cents paid back."""
    cents: int = (line["unit_price"] - price) * (line["quantity"] - line["returned"])
    line["unit_price"] = price
    _note(shop, line, 0, cents)
    return cents


def exchange(shop: Shop, line: Row, new_sku: str) -> int:
    """Swap a line for another variant; return the pieces of it that are left."""
    goods, pieces = shop.tables["products"], line["quantity"]
    if line["state"] != "back order":
        goods[line["sku"]]["stock"] += pieces
    goods[new_sku]["stock"] -= pieces
    line |= {"sku": new_sku, "state": "packed"}
    stock_left: int = goods[new_sku]["stock"]
    return stock_left


def credit(shop: Shop, customer: Row, dollars: int) -> int:
    """Give a credit; return the customer's balance in cents."""
    shop.put("credits", len(shop.tables["credits"]) + 1, customer["customer_id"], dollars * 100)
    return sum(row["amount"] for row in shop.tables["credits"].values() if row["customer_id"] == customer["customer_id"])


def combine(shop: Shop, order: Row, other: Row) -> int:
    """Move the goods of the other order into the first; return the cents of all goods in it."""
    number = len(shop.lines_of(order))
    for line in shop.lines_of(other):
        number += 1
        del shop.tables["lines"][other["order_id"], line["line"]]
        shop.put("lines", *(line | {"order_id": order["order_id"], "line": number}).values())
    other["status"] = "combined"
    return sum(line["quantity"] * line["unit_price"] for line in shop.lines_of(order))


def _note(shop: Shop, line: Row, quantity: int, cents: int) -> None:
    before = [row for row in shop.tables["refunds"].values() if (row["order_id"], row["line"]) == (line["order_id"], line["line"])]
    refund_id = f"R{line['order_id'][1:]}-{line['line']}-{len(before) + 1}"
    shop.put("refunds", refund_id, line["order_id"], line["line"], quantity, cents)
