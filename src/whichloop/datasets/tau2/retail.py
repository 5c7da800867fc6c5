"""tau2-bench's domain `retail`: a shop's orders, products and customers, and the tools of its service. Own code.

The rules are tau2's, but for one: where several items of an order are changed at once, tau2 gives all of them the price and the
options of the last one; here each gets its own.
"""

from __future__ import annotations

from typing import Literal, Unpack

from whichloop.datasets.task import Toolset

from .domain import Domain, NotFound, Record, RefusedCall, TrialTables, calculate, transfer_to_human_agents
from .retail_tables import Address, AddressFields, RetailTables

# Looking up.


def find_user_id_by_email(db: TrialTables, email: str) -> str:
    """Find a customer's user id by their e-mail address; prefer this to the search by name.

    Args:
        email: The customer's e-mail address.
    """
    for user in db.each("users"):
        if user["email"].lower() == email.lower():
            return str(user["user_id"])
    raise NotFound(f"No customer has the e-mail address {email!r}")


def find_user_id_by_name_zip(db: TrialTables, first_name: str, last_name: str, zip: str) -> str:  # noqa: A002  # tau2's own name
    """Find a customer's user id by name and postal code, where the e-mail address is not known or finds nobody.

    Args:
        first_name: The customer's first name.
        last_name: The customer's last name.
        zip: The postal code of the customer's address.
    """
    wanted = (first_name.lower(), last_name.lower(), zip)
    for user in db.each("users"):
        name = user["name"]
        if (name["first_name"].lower(), name["last_name"].lower(), user["address"]["zip"]) == wanted:
            return str(user["user_id"])
    raise NotFound(f"No customer is called {first_name} {last_name} in {zip!r}")


def get_user_details(db: TrialTables, user_id: str) -> Record:
    """Get a customer's name, address, payment methods, and the ids of their orders.

    Args:
        user_id: The customer's user id.
    """
    return db.get("users", user_id)


def get_order_details(db: TrialTables, order_id: str) -> Record:
    """Get an order: its items, status, address and payments.

    Args:
        order_id: The order's id, which begins with a '#'.
    """
    return db.get("orders", order_id)


def get_product_details(db: TrialTables, product_id: str) -> Record:
    """Get all variants of a product: options, price, and whether each is available.

    Args:
        product_id: The product's id, which is not an item's.
    """
    return db.get("products", product_id)


def get_item_details(db: TrialTables, item_id: str) -> Record:
    """Get one variant of a product: options, price, and whether it is available.

    Args:
        item_id: The variant's item id, which is not a product's.
    """
    for product in db.each("products"):
        if item_id in product["variants"]:
            item: Record = product["variants"][item_id]
            return item
    raise NotFound(f"There is no item {item_id!r}")


def list_all_product_types(db: TrialTables) -> dict[str, str]:
    """List the names of all products with their product ids."""
    return dict(sorted((str(product["name"]), str(product["product_id"])) for product in db.each("products")))


# Pending orders.


def cancel_pending_order(db: TrialTables, order_id: str, reason: Literal["no longer needed", "ordered by mistake"]) -> Record:
    """Cancel an order that is pending, and refund it; a gift card is refunded at once.

    Args:
        order_id: The order's id, which begins with a '#'.
        reason: Why the customer cancels.

    Returns:
        The order as it is now.
    """
    _with_status(db, order_id, "pending")
    order = db.edit("orders", order_id)
    refunds = []
    for payment in order["payment_history"]:
        _add_to_gift_card(db, order["user_id"], payment["payment_method_id"], payment["amount"])
        refunds.append(_payment("refund", payment["amount"], payment["payment_method_id"]))
    order["payment_history"] += refunds
    order |= {"status": "cancelled", "cancel_reason": reason}
    return order


def modify_pending_order_address(db: TrialTables, order_id: str, **address: Unpack[AddressFields]) -> Record:
    """Change the address that a pending order is sent to.

    Args:
        order_id: The order's id, which begins with a '#'.
        address1: Street and number.
        address2: Apartment or suite; empty if there is none.
        city: The city.
        state: The state.
        country: The country.
        zip: The postal code.

    Returns:
        The order as it is now.
    """
    _may_be_modified(db, order_id)
    order = db.edit("orders", order_id)
    order["address"] = Address(**address).model_dump()
    return order


def modify_pending_order_items(
    db: TrialTables, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Replace items of a pending order by other variants of the same products. It can be done once for an order.

    Args:
        order_id: The order's id, which begins with a '#'.
        item_ids: The items to be replaced; an item that stands in the order twice may be named twice.
        new_item_ids: For each of them the new item, in the same order.
        payment_method_id: The payment method that pays, or is refunded, the difference in price.

    Returns:
        The order as it is now.
    """
    order = _with_status(db, order_id, "pending")
    variants = _replacements(db, order, item_ids, new_item_ids)
    if any(old == new for old, new in zip(item_ids, new_item_ids, strict=True)):
        raise RefusedCall("A new item is the old one")
    difference = _difference(order, item_ids, variants)
    _can_pay(db, order["user_id"], payment_method_id, difference)
    order = db.edit("orders", order_id)
    order["payment_history"].append(_payment("payment" if difference > 0 else "refund", abs(difference), payment_method_id))
    _add_to_gift_card(db, order["user_id"], payment_method_id, -difference)
    for old, variant in zip(item_ids, variants, strict=True):
        item = next(item for item in order["items"] if item["item_id"] == old)
        item |= {"item_id": variant["item_id"], "price": variant["price"], "options": dict(variant["options"])}
    order["status"] = "pending (item modified)"
    return order


def modify_pending_order_payment(db: TrialTables, order_id: str, payment_method_id: str) -> Record:
    """Pay a pending order by another payment method of the customer; the first one is refunded.

    Args:
        order_id: The order's id, which begins with a '#'.
        payment_method_id: The new payment method.

    Returns:
        The order as it is now.
    """
    order = _may_be_modified(db, order_id)
    payments = order["payment_history"]
    if len(payments) != 1 or payments[0]["transaction_type"] != "payment":
        raise RefusedCall("The order has not been paid by one payment")
    paid = payments[0]
    if paid["payment_method_id"] == payment_method_id:
        raise RefusedCall("The order has been paid by this payment method")
    _can_pay(db, order["user_id"], payment_method_id, paid["amount"])
    order = db.edit("orders", order_id)
    order["payment_history"] += [
        _payment("payment", paid["amount"], payment_method_id),
        _payment("refund", paid["amount"], paid["payment_method_id"]),
    ]
    _add_to_gift_card(db, order["user_id"], payment_method_id, -paid["amount"])
    _add_to_gift_card(db, order["user_id"], paid["payment_method_id"], paid["amount"])
    return order


def modify_user_address(db: TrialTables, user_id: str, **address: Unpack[AddressFields]) -> Record:
    """Change a customer's own address; orders keep theirs.

    Args:
        user_id: The customer's user id.
        address1: Street and number.
        address2: Apartment or suite; empty if there is none.
        city: The city.
        state: The state.
        country: The country.
        zip: The postal code.

    Returns:
        The customer as they are now.
    """
    user = db.edit("users", user_id)
    user["address"] = Address(**address).model_dump()
    return user


# Delivered orders.


def return_delivered_order_items(db: TrialTables, order_id: str, item_ids: list[str], payment_method_id: str) -> Record:
    """Take back items of a delivered order. An order can be returned or exchanged once.

    Args:
        order_id: The order's id, which begins with a '#'.
        item_ids: The items to be returned; an item that stands in the order twice may be named twice.
        payment_method_id: What is refunded: the payment method that paid the order, or a gift card.

    Returns:
        The order as it is now.
    """
    order = _with_status(db, order_id, "delivered")
    method = _method(db, order["user_id"], payment_method_id)
    if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
        raise RefusedCall("The refund goes to a gift card, or to the payment method that paid the order")
    _has_items(order, item_ids)
    order = db.edit("orders", order_id)
    order |= {"status": "return requested", "return_items": sorted(item_ids), "return_payment_method_id": payment_method_id}
    return order


def exchange_delivered_order_items(
    db: TrialTables, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Exchange items of a delivered order for other variants of the same products. An order can be returned or exchanged once.

    Args:
        order_id: The order's id, which begins with a '#'.
        item_ids: The items to be exchanged; an item that stands in the order twice may be named twice.
        new_item_ids: For each of them the new item, in the same order.
        payment_method_id: The payment method that pays, or is refunded, the difference in price.

    Returns:
        The order as it is now.
    """
    order = _with_status(db, order_id, "delivered")
    difference = _difference(order, item_ids, _replacements(db, order, item_ids, new_item_ids))
    _can_pay(db, order["user_id"], payment_method_id, difference)
    order = db.edit("orders", order_id)
    order |= {
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return order


# Rules.


def _with_status(db: TrialTables, order_id: str, status: str) -> Record:
    order = db.get("orders", order_id)
    if order["status"] != status:
        raise RefusedCall(f"Order {order_id} is not {status}, but {order['status']}")
    return order


def _may_be_modified(db: TrialTables, order_id: str) -> Record:
    order = db.get("orders", order_id)
    if "pending" not in order["status"]:
        raise RefusedCall(f"Order {order_id} is not pending, but {order['status']}")
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


def _method(db: TrialTables, user_id: str, payment_method_id: str) -> Record:
    methods: Record = db.get("users", user_id)["payment_methods"]
    if payment_method_id not in methods:
        raise NotFound(f"Customer {user_id} has no payment method {payment_method_id!r}")
    method: Record = methods[payment_method_id]
    return method


def _can_pay(db: TrialTables, user_id: str, payment_method_id: str, amount: float) -> None:
    method = _method(db, user_id, payment_method_id)
    if method["source"] == "gift_card" and method["balance"] < amount:
        raise RefusedCall(f"The balance of {payment_method_id} is too low")


def _add_to_gift_card(db: TrialTables, user_id: str, payment_method_id: str, amount: float) -> None:
    """Change a gift card's balance; other payment methods have none."""
    if _method(db, user_id, payment_method_id)["source"] == "gift_card":
        card = db.edit("users", user_id)["payment_methods"][payment_method_id]
        card["balance"] = round(card["balance"] + amount, 2)


def _payment(kind: str, amount: float, payment_method_id: str) -> Record:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": payment_method_id}


READS = (
    *(find_user_id_by_email, find_user_id_by_name_zip, get_user_details, get_order_details, get_product_details),
    *(get_item_details, list_all_product_types, calculate, transfer_to_human_agents),
)
"""Tools that change nothing."""
CHANGES = (
    *(cancel_pending_order, modify_pending_order_address, modify_pending_order_items, modify_pending_order_payment),
    *(modify_user_address, return_delivered_order_items, exchange_delivered_order_items),
)
DOMAIN = Domain(
    name="retail",
    table="orders",
    tables=RetailTables,
    tools=Toolset(*READS, *CHANGES, writes=CHANGES),
    reads={tool.__name__ for tool in READS},
    customer=True,
)
