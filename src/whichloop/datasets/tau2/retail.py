"""tau2-bench's domain `retail`: a shop's orders, products and customers, and the tools of its service. Own code.

The rules are tau2's, but for one: where several items of an order are changed at once, tau2 gives all of them the price and the
options of the last one; here each gets its own.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack

from typing_extensions import TypedDict

from ..importing.json_files import JsonRow
from .domain import SERVICE, Domain, Record, RefusedCall, TrialTables, first, payment_method, rows, shape, table

PENDING = ("pending", "pending (item modified)")


class AddressFields(TypedDict):
    """An address, as a tool takes it."""

    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str


ADDRESS = shape(JsonRow, **dict.fromkeys(("address1", "address2", "city", "country", "state", "zip"), str))
TABLES = shape(
    JsonRow,
    products=table(name=str, product_id=str, variants=table(item_id=str, options=dict[str, Any], available=bool, price=float)),
    users=table(
        user_id=str,
        name=shape(JsonRow, first_name=str, last_name=str),
        address=ADDRESS,
        email=str,
        payment_methods=table(source=str, id=str),
        orders=list[str],
    ),
    orders=table(
        order_id=str,
        user_id=str,
        status=str,
        items=rows(item_id=str, product_id=str, price=float),
        payment_history=rows(transaction_type=Literal["payment", "refund"], amount=float, payment_method_id=str),
    ),
)
"""The shape of `db.json`: each table by the ids of its records."""

# Looking up.


def find_user_id_by_email(db: TrialTables, email: str) -> str:
    """Find a customer's user id by their e-mail address; prefer this to the search by name."""
    wanted, lacking = email.lower(), f"No customer has the e-mail address {email!r}"
    return str(first(db.each("users"), lambda user: user["email"].lower() == wanted, lacking)["user_id"])


def find_user_id_by_name_zip(db: TrialTables, first_name: str, last_name: str, zip: str) -> str:  # noqa: A002  # tau2's own name
    """Find a customer's user id by name and postal code, where the e-mail address is not known or finds nobody."""
    wanted = (first_name.lower(), last_name.lower(), zip)

    def fits(user: Record) -> bool:
        name = user["name"]
        return (name["first_name"].lower(), name["last_name"].lower(), user["address"]["zip"]) == wanted

    return str(first(db.each("users"), fits, f"No customer is called {first_name} {last_name} in {zip!r}")["user_id"])


def get_user_details(db: TrialTables, user_id: str) -> Record:
    """Get a customer's name, address, payment methods, and the ids of their orders."""
    return db.get("users", user_id)


def get_order_details(db: TrialTables, order_id: str) -> Record:
    """Get an order: its items, status, address and payments."""
    return db.get("orders", order_id)


def get_product_details(db: TrialTables, product_id: str) -> Record:
    """Get all variants of a product: options, price, and whether each is available."""
    return db.get("products", product_id)


def get_item_details(db: TrialTables, item_id: str) -> Record:
    """Get one variant of a product: options, price, and whether it is available."""
    product = first(db.each("products"), lambda product: item_id in product["variants"], f"There is no item {item_id!r}")
    return dict(product["variants"][item_id])


def list_all_product_types(db: TrialTables) -> dict[str, str]:
    """List the names of all products with their product ids."""
    return dict(sorted((str(product["name"]), str(product["product_id"])) for product in db.each("products")))


# Pending orders.


def cancel_pending_order(db: TrialTables, order_id: str, reason: Literal["no longer needed", "ordered by mistake"]) -> Record:
    """Cancel an order that is pending, and refund it; a gift card is refunded at once. Returns: The order as it is now."""
    order = _with_status(db, order_id, "pending")
    for payment in order["payment_history"][:]:
        _pay(db, order, payment["payment_method_id"], -payment["amount"])
    order |= {"status": "cancelled", "cancel_reason": reason}
    return order


def modify_pending_order_address(db: TrialTables, order_id: str, **address: Unpack[AddressFields]) -> Record:
    """Change the address that a pending order is sent to. Returns: The order as it is now."""
    order = _with_status(db, order_id, *PENDING)
    order["address"] = ADDRESS(**address).model_dump()
    return order


def modify_pending_order_items(
    db: TrialTables, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Replace items of a pending order by other variants of the same products. It can be done once for an order.

    Returns: The order as it is now.
    """
    order = _with_status(db, order_id, "pending")
    variants = _replacements(db, order, item_ids, new_item_ids)
    if any(old == new for old, new in zip(item_ids, new_item_ids, strict=True)):
        raise RefusedCall("A new item is the old one")
    difference = _difference(order, item_ids, variants)
    _can_pay(db, order, payment_method_id, difference)
    _pay(db, order, payment_method_id, difference)
    for old, variant in zip(item_ids, variants, strict=True):
        item = next(item for item in order["items"] if item["item_id"] == old)
        item |= {"item_id": variant["item_id"], "price": variant["price"], "options": dict(variant["options"])}
    order["status"] = PENDING[1]
    return order


def modify_pending_order_payment(db: TrialTables, order_id: str, payment_method_id: str) -> Record:
    """Pay a pending order by another payment method of the customer; the first one is refunded.

    Returns: The order as it is now.
    """
    order = _with_status(db, order_id, *PENDING)
    payments = order["payment_history"]
    if len(payments) != 1 or payments[0]["transaction_type"] != "payment":
        raise RefusedCall("The order has not been paid by one payment")
    paid = payments[0]
    if paid["payment_method_id"] == payment_method_id:
        raise RefusedCall("The order has been paid by this payment method")
    _can_pay(db, order, payment_method_id, paid["amount"])
    _pay(db, order, payment_method_id, paid["amount"])
    _pay(db, order, paid["payment_method_id"], -paid["amount"])
    return order


def modify_user_address(db: TrialTables, user_id: str, **address: Unpack[AddressFields]) -> Record:
    """Change a customer's own address; orders keep theirs. Returns: The customer as they are now."""
    user = db.edit("users", user_id)
    user["address"] = ADDRESS(**address).model_dump()
    return user


# Delivered orders.


def return_delivered_order_items(db: TrialTables, order_id: str, item_ids: list[str], payment_method_id: str) -> Record:
    """Take back items of a delivered order. An order can be returned or exchanged once. Returns: The order as it is now."""
    order = _with_status(db, order_id, "delivered")
    method = _method(db, order, payment_method_id)
    if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
        raise RefusedCall("The refund goes to a gift card, or to the payment method that paid the order")
    _has_items(order, item_ids)
    order |= {"status": "return requested", "return_items": sorted(item_ids), "return_payment_method_id": payment_method_id}
    return order


def exchange_delivered_order_items(
    db: TrialTables, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Exchange items of a delivered order for other variants of the same products. An order can be returned or exchanged once.

    Returns: The order as it is now.
    """
    order = _with_status(db, order_id, "delivered")
    difference = _difference(order, item_ids, _replacements(db, order, item_ids, new_item_ids))
    _can_pay(db, order, payment_method_id, difference)
    order |= {
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return order


# Rules.


def _with_status(db: TrialTables, order_id: str, *statuses: str) -> Record:
    """Return the order, to be changed. Raises NotFound, and RefusedCall for one in another status."""
    order = db.edit("orders", order_id)
    if order["status"] not in statuses:
        raise RefusedCall(f"Order {order_id} is not {statuses[0]}, but {order['status']}")
    return order


def _has_items(order: Record, item_ids: list[str]) -> None:
    there = [item["item_id"] for item in order["items"]]
    for item_id in item_ids:
        if item_ids.count(item_id) > there.count(item_id):
            raise RefusedCall(f"Order {order['order_id']} holds item {item_id} {there.count(item_id)} times")


def _replacements(db: TrialTables, order: Record, item_ids: list[str], new_item_ids: list[str]) -> list[Record]:
    """The variants that take the place of items. Raises NotFound and RefusedCall."""
    _has_items(order, item_ids)
    if len(item_ids) != len(new_item_ids):
        raise RefusedCall("There is not a new item for each old one")
    products = {item["item_id"]: item["product_id"] for item in order["items"]}
    variants = []
    for old, new in zip(item_ids, new_item_ids, strict=True):
        variant = db.get("products", products[old])["variants"].get(new)
        if variant is None or not variant["available"]:
            raise RefusedCall(f"Item {new} is no variant of the product of {old}, or not available")
        variants.append(variant)
    return variants


def _difference(order: Record, item_ids: list[str], variants: list[Record]) -> float:
    prices = {item["item_id"]: item["price"] for item in order["items"]}
    return float(round(sum(variant["price"] - prices[old] for old, variant in zip(item_ids, variants, strict=True)), 2))


def _method(db: TrialTables, order: Record, payment_method_id: str) -> Record:
    return payment_method(db.edit("users", order["user_id"]), payment_method_id)


def _can_pay(db: TrialTables, order: Record, payment_method_id: str, amount: float) -> None:
    method = _method(db, order, payment_method_id)
    if method["source"] == "gift_card" and method["balance"] < amount:
        raise RefusedCall(f"The balance of {payment_method_id} is too low")


def _pay(db: TrialTables, order: Record, payment_method_id: str, amount: float) -> None:
    """Note a payment, or a refund below 0, of an order; a gift card's balance changes, other payment methods have none."""
    kind, method = "payment" if amount > 0 else "refund", _method(db, order, payment_method_id)
    order["payment_history"].append({"transaction_type": kind, "amount": abs(amount), "payment_method_id": payment_method_id})
    if method["source"] == "gift_card":
        method["balance"] = round(method["balance"] - amount, 2)


CHANGES = (
    *(cancel_pending_order, modify_pending_order_address, modify_pending_order_items, modify_pending_order_payment),
    *(modify_user_address, return_delivered_order_items, exchange_delivered_order_items),
)
DOMAIN = Domain(
    name="retail",
    table="orders",
    tables=TABLES,
    tools=(
        *(find_user_id_by_email, find_user_id_by_name_zip, get_user_details, get_order_details, get_product_details),
        *(get_item_details, list_all_product_types, *SERVICE, *CHANGES),
    ),
    writes=CHANGES,
    customer=True,
)
