"""Stories of credits and prices, and one of several wishes at once."""

from __future__ import annotations

from whichloop.datasets.ecommerce import case as books
from whichloop.datasets.generating import Draft, Draw, part
from whichloop.protocol import Ref

from .case import REFUSAL, Case, called
from .shop import dollars_from_cents


def goodwill(draw: Draw) -> Draft:
    """A late parcel earns a credit by tier, unless there have been enough."""
    case, refused = Case(draw), draw.chance(0.35)
    customer, (article,), most = case.customer(), case.articles(1), case.rule("goodwill", "yearly_credits")
    late = case.rule("goodwill", "late_days") + draw.integer(0, 6)
    order = case.order(customer, [(article, draw.integer(1, 3))], "delivered", age=draw.integer(2, 30), late=late)
    case.other_orders(customer, 1, but=article["product"])
    for _ in range(most if refused else draw.integer(0, most - 1)):
        books.credit(case.shop, customer, draw.integer(3, 25))
    case.settle()

    seen = case.find_order(customer, order)
    rules, entry = case.read_policy("goodwill"), Ref(case.plan.calls[0].id, (0,))
    if refused:
        answer, expected = part(rules, "file_code"), case.rule("goodwill", "file_code")
    else:
        arguments = {"customer_id": part(entry, "customer_id"), "amount": part(rules, customer["tier"])}
        credit = case.plan.call("Give the credit.", "give_credit", arguments, after=(seen,))
        answer, expected = (
            part(credit, "credit_balance"),
            dollars_from_cents(books.credit(case.shop, customer, case.rule("goodwill", customer["tier"]))),
        )
    who, what = case.who(customer), called(article)
    request = draw.pick(
        f"{who} waited far too long for the {what} and asks for a goodwill credit. Give it if the policy "
        "lets you. What is the customer's balance of credits then?",
        f"Goodwill is asked for by {who} because the {what} came late. Check, and credit what the tier "
        "gets. Answer with the balance of credits after it.",
    )
    return case.draft(f"{request} {draw.choice(REFUSAL)}", answer, expected, "normalized" if refused else "numeric")


def price_match(draw: Draw) -> Draft:
    """The article has become cheaper since; the difference goes back where the order is young enough."""
    case, refused = Case(draw), draw.chance(0.35)
    customer, (article, other), days = case.customer(), case.articles(2), case.rule("price_match", "days")
    order = case.order(customer, [(article, draw.integer(1, 4)), (other, 1)])
    order["placed"] = case.shop.ago(days + draw.integer(1, 9) if refused else draw.integer(1, days))
    line = case.line(order, article)
    line["unit_price"] = article["price"] + draw.integer(60, 900, 20)
    case.settle()

    seen, rules = case.read_order(order["order_id"]), case.read_policy("price_match")
    place = part(seen, "lines", line["line"])
    now = case.plan.call("See what the article costs today.", "get_product", {"sku": part(place, "sku")})
    if refused:
        answer, expected = part(rules, "file_code"), case.rule("price_match", "file_code")
    else:
        arguments = {"order_id": order["order_id"], "line": part(place, "line"), "unit_price": part(now, "price")}
        matched = case.plan.call("Pay the difference.", "match_price", arguments, after=(rules,))
        answer, expected = part(matched, "amount"), dollars_from_cents(books.match_price(case.shop, line, article["price"]))
    who, what, number = case.who(customer), called(article), order["order_id"]
    request = draw.pick(
        f"{who} has seen that the {what} costs less now than on order {number} and wants the "
        "difference. Match the price if the policy allows it; how much is paid back?",
        f"Price match for order {number}: the {what} is cheaper today. Bring the line down to today's price where "
        f"the rules permit, for {who} and answer with the refund.",
    )
    return case.draft(f"{request} {draw.choice(REFUSAL)}", answer, expected, "normalized" if refused else "numeric")


# Several things at once


def three_wishes(draw: Draw) -> Draft:
    """One order is sent back in part, one has come late, one goes elsewhere."""
    case = Case(draw)
    customer, (article, late, other) = case.customer(), case.articles(3)
    age = draw.integer(2, case.rule("returns", "days"))
    first = case.order(customer, [(article, draw.integer(2, 4)), (other, 1)], "delivered", age=age)
    days = case.rule("goodwill", "late_days") + draw.integer(0, 5)
    case.order(customer, [(late, draw.integer(1, 2))], "delivered", age=draw.integer(2, 40), late=days)
    third = case.order(customer, [(other, draw.integer(1, 3))])
    line, pieces, (street, city) = case.line(first, article), draw.integer(1, 2), case.new_address()
    case.settle()

    entry = case.find(customer)
    seen = case.read_orders(entry, customer)
    returns, goodwill = case.read_policy("returns"), case.read_policy("goodwill")
    back = seen[first["order_id"]]
    place = part(back, "lines", line["line"], "line")
    case.refund("Pay for the goods that come back.", part(back, "order_id"), place, pieces, after=(returns,))
    books.refund(case.shop, line, pieces)
    open_order = part(seen[third["order_id"]], "order_id")
    case.redirect("Redirect what is still here.", open_order, (street, city), after=seen.values())
    third |= {"street": street, "city": city}
    amount = {"customer_id": part(entry, "customer_id"), "amount": part(goodwill, customer["tier"])}
    credit = case.plan.call("Make good for the delay.", "give_credit", amount, after=seen.values())
    balance = books.credit(case.shop, customer, case.rule("goodwill", customer["tier"]))
    who, what = case.who(customer), called(article)
    request = draw.pick(
        f"Three wishes of {who} at once. First, {pieces} of the {what} come back, sealed. Second, the parcel with the "
        f"{called(late)} was late, and the goodwill that the policy provides for is asked for. Third, the order that has not "
        f"left yet goes to {street}, {city}. See to all of it. What is the balance of credits then?",
        f"{who} writes a long letter. The order still in the house shall go to {street} in {city}; {pieces} unopened pieces of "
        f"the {what} are on their way back; and for the {called(late)}, which came days late, there is to be a credit. The "
        "policy allows each of these. Answer with the customer's credit balance once all is done.",
    )
    return case.draft(request, part(credit, "credit_balance"), dollars_from_cents(balance))
