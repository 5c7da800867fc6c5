"""Requests that can be met, and a question with them that has no answer."""

from __future__ import annotations

from whichloop.datasets.generating import Draft, Draw, part

from . import books
from .case import Case, called


def unknown_day(draw: Draw) -> Draft:
    """The address can be changed; no day is promised."""
    case = Case(draw)
    customer = case.customer()
    order = case.order(customer, [(article, draw.integer(1, 2)) for article in case.articles(2)])
    order["promised"] = None
    case.other_orders(customer, 1)
    street, city = case.new_address()
    case.settle()

    seen = case.find_order(customer, order)
    case.redirect("Send it to the new place.", part(seen, "order_id"), (street, city))
    order |= {"street": street, "city": city}
    who = case.who(customer)
    request = draw.pick(
        f"Let the open order of {who} go to {street}, {city}. On what day was its delivery promised?",
        f"{who} wants the parcel that has not left yet at {street} in {city}; do that. For when is it promised?",
    )
    return case.draft(request, None, None)


def no_price(draw: Draw) -> Draft:
    """The credit can be given; the article has no price at present."""
    case = Case(draw)
    customer, (article, other) = case.customer(), case.articles(2)
    order = case.order(customer, [(article, 1), (other, 2)], "delivered", age=draw.integer(2, 20))
    article["price"] = None
    promised = draw.integer(2, 30)
    case.settle()

    seen = case.read_order(order["order_id"])
    sku = part(seen, "lines", case.line(order, article)["line"], "sku")
    case.plan.call("See what it costs at present.", "get_product", {"sku": sku})
    case.plan.call("Give what was promised.", "give_credit", {"customer_id": part(seen, "customer_id"), "amount": promised})
    books.credit(case.shop, customer, promised)
    what = called(article)
    request = draw.pick(
        f"We promised a credit of {promised} dollars to the customer of order {order['order_id']}; give it. What does the "
        f"{what} that was on it cost today?",
        f"Whoever placed order {order['order_id']} gets {promised} dollars of goodwill, that is agreed. Then answer with "
        f"today's price of the {what}.",
    )
    return case.draft(request, None, None)


def nobody(draw: Draw) -> Draft:
    """No customer writes from this address, though the name is known."""
    case = Case(draw)
    customer, (article,) = case.customer(), case.articles(1)
    case.order(customer, [(article, 1)])
    email = f"{customer['name'].split()[1].lower()}.{draw.integer(100, 999)}@parcels.example"
    case.settle()

    case.plan.call("Find who writes from there.", "find_customers", {"text": email})
    case.plan.call("Find customers of that name.", "find_customers", {"text": customer["name"]})
    request = draw.pick(
        f"Someone who signs as {customer['name']} writes from {email} and asks for the packing slip of the order. Several "
        "customers bear such names; only the address tells them apart. What is the customer's number?",
        f"Which customer number belongs to {email}? The letter is signed {customer['name']}, but names are not proof here.",
    )
    return case.draft(request, None, None)
