"""Stories of addresses and parcels."""

from __future__ import annotations

from whichloop.datasets.ecommerce import case as books
from whichloop.datasets.generating import Draft, Draw, part
from whichloop.protocol import Ref

from .case import REFUSAL, Case, called
from .shop import dollars_from_cents


def move(draw: Draw) -> Draft:
    """One of a customer's orders, which has not left yet, goes elsewhere."""
    case = Case(draw)
    customer = case.customer()
    order = case.order(customer, [(article, draw.integer(1, 2)) for article in case.articles(2)])
    case.other_orders(customer, draw.integer(1, 2))
    street, city = case.new_address()
    case.settle()

    seen = case.find_order(customer, order)
    others = [Ref(call.id) for call in case.plan.calls[1:]]
    moved = case.redirect("Send the open order to the new place.", part(seen, "order_id"), (street, city), after=others)
    order |= {"street": street, "city": city}
    who = case.who(customer)
    request = draw.pick(
        f"{who} has moved to {street} in {city}. Correct the address of the one order that is still here.",
        f"{who} has a new address, {street}, {city}. One order has not been sent yet, and it has to go there.",
        f"Redirect the open order of {who} to {street}, {city}; those under way or delivered stay as they are.",
    )
    ask = draw.choice(
        ("Which number does the new packing slip have?", "Answer with the number of the packing slip that is printed.")
    )
    return case.draft(f"{request} {ask}", part(moved, "packing_slip"), order["slip"])


def move_some(draw: Draw) -> Draft:
    """Three orders are named, two have left: to try them all is the quickest way."""
    case = Case(draw)
    customer = case.customer()
    orders = [
        case.order(customer, [(item, draw.integer(1, 3))], status) for item, status in zip(case.articles(3), _STATES, strict=True)
    ]
    street, city = case.new_address()
    listed_orders = draw.shuffled(orders)
    case.settle()

    answer = None
    for order in listed_orders:
        goal = f"Try to send order {order['order_id']} elsewhere."
        moved = case.redirect(goal, order["order_id"], (street, city), fails=order["status"] != "open")
        if order["status"] == "open":
            answer = part(moved, "packing_slip")
            order |= {"street": street, "city": city}
    numbers = " and ".join(", ".join(order["order_id"] for order in listed_orders).rsplit(", ", 1))
    request = draw.pick(
        f"Send the orders {numbers} of {customer['name']} to {street}, {city}. The system refuses those that have left; "
        "there is nothing to be done about them. Which number has the packing slip of the one that could be changed?",
        f"{customer['name']} asks to have {numbers} delivered to {street} in {city}. Just try each; what has gone already "
        "will be turned down. Answer with the new packing slip's number.",
    )
    return case.draft(request, answer, next(order["slip"] for order in orders if order["status"] == "open"))


_STATES = ("open", "shipped", "delivered")


def combine(draw: Draw) -> Draft:
    """Two open orders leave together, and their shipping fees go back where the goods are worth enough."""
    case, free = Case(draw), draw.chance(0.6)
    customer, articles = case.customer(), case.articles(3)
    first = case.order(customer, [(articles[0], draw.integer(1, 3)), (articles[1], draw.integer(1, 2))])
    second = case.order(customer, [(articles[2], draw.integer(1, 4))])
    case.other_orders(customer, 1)
    cents = sum(line["quantity"] * line["unit_price"] for order in (first, second) for line in case.shop.lines_of(order))
    limit = cents // 100 - draw.integer(0, 30) if free else cents // 100 + draw.integer(1, 40)
    case.shop.put("policy", "shipping", "free_from", max(1, limit))
    case.settle()

    seen = {order["order_id"]: case.read_order(order["order_id"]) for order in (first, second)}
    rules = case.read_policy("shipping")
    pair = {"order_id": first["order_id"], "other_id": second["order_id"]}
    joined = case.plan.call("Put both into one parcel.", "combine_orders", pair, after=seen.values())
    total = books.combine(case.shop, first, second)
    for order in (first, second) if free else ():
        goal, line = f"Pay back the shipping of {order['order_id']}.", part(seen[order["order_id"]], "lines", 0, "line")
        case.refund(goal, order["order_id"], line, 1, after=(joined, rules))
        books.refund(case.shop, case.shipping(order), 1)
    who = case.who(customer)
    request = draw.pick(
        f"Move the goods of order {second['order_id']} into {first['order_id']} so that {customer['name']} gets one parcel, "
        "and treat the shipping fees as the policy has it.",
        f"{who} wants one parcel: let {first['order_id']} take in {second['order_id']}, and if that makes "
        "shipping free, pay the fees back.",
    )
    ask = draw.choice(("What are the goods in it worth?", "Answer with the worth of all goods in the combined order."))
    return case.draft(f"{request} {ask}", part(joined, "goods_total"), dollars_from_cents(total))


def late_parcel(draw: Draw) -> Draft:
    """The shipping fee goes back where the parcel came after the promised day."""
    case = Case(draw)
    customer, (article,) = case.customer(), case.articles(1)
    order = case.order(customer, [(article, draw.integer(1, 3))], "delivered", age=draw.integer(2, 30), late=draw.integer(1, 9))
    case.other_orders(customer, 2, but=article["product"])
    case.settle()

    seen = case.find_order(customer, order)
    rules = case.read_policy("shipping")
    line = part(seen, "lines", 0, "line")
    paid = case.refund("Pay the shipping fee back.", part(seen, "order_id"), line, 1, after=(rules,))
    cents = books.refund(case.shop, case.shipping(order), 1)
    who, what = case.who(customer), called(article)
    request = draw.pick(
        f"{who} complains that the parcel with the {what} was late. If so, pay back what the policy on "
        "shipping lets go back. How much is it?",
        f"A late delivery is reported by {who} and it is about the {what}. Refund the shipping if the dates "
        "bear it out, and answer with the refund.",
    )
    return case.draft(f"{request} {draw.choice(REFUSAL)}", part(paid, "amount"), dollars_from_cents(cents))
