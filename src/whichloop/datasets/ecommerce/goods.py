"""Stories of goods that come back, of others that are sent instead, of addresses and parcels, and without an answer."""

from __future__ import annotations

from whichloop.datasets.ecommerce import case as books
from whichloop.datasets.generating import Draft, Draw, part
from whichloop.protocol import Ref

from .case import REFUSAL, Case, called
from .shop import PLENTY, dollars_from_cents, draw_customer

# Goods that come back


def return_(draw: Draw) -> Draft:
    """A return that the policy allows is paid back, in full or in part."""
    return _send_back(draw, refused=False)


def refusal(draw: Draw) -> Draft:
    """A return that is too late, or of goods bought on clearance: nothing may change."""
    return _send_back(draw, refused=True)


def _send_back(draw: Draw, refused: bool) -> Draft:
    case, opened, named = Case(draw), draw.chance(0.5), draw.chance(0.5)
    customer, (article, other), days = case.customer(), case.articles(2), case.rule("returns", "days")
    too_late = refused and draw.chance(0.6)
    age = days + draw.integer(1, 12) if too_late else draw.integer(2, days)
    order = case.order(customer, [(article, draw.integer(2, 4)), (other, 1)], "delivered", age=age)
    case.other_orders(customer, 2, but=article["product"])
    line = case.line(order, article)
    line["clearance"] = int(refused and not too_late)
    pieces = draw.integer(1, line["quantity"])
    case.settle()

    seen = case.read_order(order["order_id"]) if named else case.find_order(customer, order)
    rules = case.read_policy("returns")
    if refused:
        answer, expected = part(rules, "file_code"), case.rule("returns", "file_code")
    else:
        fees = case.read_policy("restocking")
        fee_percent = part(fees, "opened_percent") if opened else 0
        number, goal = part(seen, "lines", line["line"], "line"), f"Pay back {pieces} pieces."
        answer = part(case.refund(goal, part(seen, "order_id"), number, pieces, fee_percent, after=(rules, fees)), "amount")
        expected = dollars_from_cents(
            books.refund(case.shop, line, pieces, case.rule("restocking", "opened_percent") if opened else 0)
        )
    which = f"on order {order['order_id']}" if named else "bought here some time ago"
    state = draw.choice(("opened", "out of its box") if opened else ("still sealed", "never unpacked"))
    goods = f"{pieces} of the {called(article)} {which}, {state}"
    who = case.who(customer)
    request = draw.pick(
        f"{who} wants to send back {goods}. Handle it by the book; the answer is the sum paid back.",
        f"A return has been asked for: {goods}. The request is from {who} and has to be settled. How much is paid back?",
        f"Please deal with {who} who would like the money back for {goods}. Give the amount that goes back.",
    )
    return case.draft(f"{request} {draw.choice(REFUSAL)}", answer, expected, "normalized" if refused else "numeric")


def split_refund(draw: Draw) -> Draft:
    """One of three lines comes back sealed and one opened; the third was bought on clearance and stays."""
    case = Case(draw)
    customer, articles = case.customer(), case.articles(3)
    age = draw.integer(1, case.rule("returns", "days"))
    order = case.order(customer, [(article, draw.integer(1, 4)) for article in articles], "delivered", age=age)
    sealed, opened, clearance = (case.line(order, article) for article in articles)
    clearance["clearance"] = 1
    case.settle()

    seen, rules, fees = case.read_order(order["order_id"]), case.read_policy("returns"), case.read_policy("restocking")
    last: tuple[Ref, ...] = (rules,)
    for line, fee, state in ((sealed, 0, "sealed"), (opened, part(fees, "opened_percent"), "opened")):
        place = part(seen, "lines", line["line"])
        goal, pieces = f"Pay back the {state} pieces.", part(place, "quantity")
        last = (case.refund(goal, order["order_id"], part(place, "line"), pieces, fee, after=(*last, fees)),)
    cents = books.refund(case.shop, sealed, sealed["quantity"])
    cents += books.refund(case.shop, opened, opened["quantity"], case.rule("restocking", "opened_percent"))
    names = [called(article) for article in articles]
    who, number = case.who(customer), order["order_id"]
    request = draw.pick(
        f"{who} returns all of order {number}: the {names[0]} sealed, the {names[1]} opened, the "
        f"{names[2]} sealed. Pay back, line by line, what the policy lets go back. How much is that in all?",
        f"Order {number} of {who} has come back as a whole: the {names[2]} and the {names[0]} with "
        f"their seals, the {names[1]} without. Refund the lines that may be refunded and give their sum.",
    )
    return case.draft(request, part(last[0], "paid_back_on_order"), dollars_from_cents(cents))


def recall(draw: Draw) -> Draft:
    """An article has a fault: it is taken back from every order that has it, and counted on the shelf."""
    case, orders = Case(draw), []
    article, *others = case.articles(5)
    article["stock"] = draw.integer(*PLENTY)
    for other in others[: draw.integer(2, 4)]:
        customer, bought = draw_customer(draw, case.shop), [(article, draw.integer(1, 5)), (other, 1)]
        orders.append(case.order(customer, bought, "delivered", age=draw.integer(3, 40)))
    spared = case.order(draw_customer(draw, case.shop), [(other, 2) for other in others[:2]], "delivered", age=draw.integer(3, 40))
    listed_orders = draw.shuffled([*orders, spared])
    case.settle()

    seen = [(order, case.read_order(order["order_id"])) for order in listed_orders]
    last: list[Ref] = [ref for order, ref in seen if order is spared]
    for order, ref in seen:
        if order is spared:
            continue
        line = case.line(order, article)
        place = part(ref, "lines", line["line"])
        goal = f"Take back what order {order['order_id']} has of it."
        last = [case.refund(goal, order["order_id"], part(place, "line"), part(place, "quantity"), after=last)]
        books.refund(case.shop, line, line["quantity"])
    numbers = ", ".join(order["order_id"] for order in listed_orders)
    what = called(article)
    request = draw.pick(
        f"The {what} has a fault and is called back. Go through the orders {numbers} and take back each piece of it that "
        "they hold, sealed and at the full price. How many pieces of it are in stock then?",
        f"Recall of the {what}: refund every piece of it, and nothing else, on these orders without any fee: {numbers}. "
        "All are unopened. Answer with its stock after the last one.",
    )
    return case.draft(request, part(last[0], "in_stock"), case.shop.tables["products"][article["sku"]]["stock"])


# Other goods instead


def exchange(draw: Draw) -> Draft:
    """The customer wants another colour, or if it is short a third one."""
    case, short = Case(draw), draw.chance(0.5)
    customer, (article, other) = case.customer(), case.articles(2)
    order = case.order(customer, [(article, draw.integer(2, 4)), (other, 1)], "delivered", age=draw.integer(2, 12))
    line = case.line(order, article)
    wanted, second = draw.sample(case.shop.siblings(article["sku"]), 2)
    wanted["stock"] = draw.integer(0, line["quantity"] - 1) if short else draw.integer(*PLENTY)
    second["stock"] = draw.integer(*PLENTY)
    case.settle()

    new, new_sku = (second, "second") if short else (wanted, "first")
    seen = case.read_order(order["order_id"])
    place = part(seen, "lines", line["line"])
    own = case.plan.call("Look up the article that was delivered.", "get_product", {"sku": part(place, "sku")})
    choices = [row["sku"] for row in case.shop.siblings(article["sku"])]
    looked = {}
    for rank, row in (("first", wanted), ("second", second)):
        sku = part(own, "other_variants", choices.index(row["sku"]), "sku")
        looked[rank] = case.plan.call(f"See how many the shop has of the {rank} choice.", "get_product", {"sku": sku})
    arguments = {"order_id": order["order_id"], "line": part(place, "line"), "new_sku": part(looked[new_sku], "sku")}
    swapped = case.plan.call("Swap the goods.", "exchange_line", arguments, after=looked.values())
    stock_left = books.exchange(case.shop, line, new["sku"])
    who, what, number = case.who(customer), called(article), order["order_id"]
    request = draw.pick(
        f"{who} got the {what} on order {number} and would rather have all of them in {wanted['variant']}, or in "
        f"{second['variant']} if there are too few. Swap the line. How many of the new colour are left?",
        f"On order {number} of {who} the {what} shall be exchanged: {wanted['variant']} is wanted, and {second['variant']} "
        f"only where {wanted['variant']} does not suffice. Answer with the stock left of what is sent.",
        f"Colour swap for order {number}, from {who} after second thoughts: every {what} on it becomes {wanted['variant']}. "
        f"With too little {wanted['variant']} on the shelf take {second['variant']}. How much of the new one is still there?",
    )
    return case.draft(request, part(swapped, "left_in_stock"), stock_left)


def backorder(draw: Draw) -> Draft:
    """The customer waits if the goods come in time, and takes another colour otherwise."""
    case, waits = Case(draw), draw.chance(0.4)
    customer, (article, other) = case.customer(), case.articles(2)
    order = case.order(customer, [(article, draw.integer(1, 3)), (other, 1)])
    line = case.line(order, article)
    line["state"] = "back order"
    due = draw.integer(9, 50)
    article |= {"stock": 0, "restock": case.shop.ago(-due)}
    new = draw.choice(case.shop.siblings(article["sku"]))
    new |= {"stock": draw.integer(*PLENTY), "restock": None}
    patience = due + draw.integer(1, 6) if waits else due - draw.integer(1, 6)
    case.settle()

    seen = case.find_order(customer, order)
    place = part(seen, "lines", line["line"])
    own = case.plan.call("See when more of the article comes in.", "get_product", {"sku": part(place, "sku")})
    if waits:
        answer, expected = part(own, "restock"), article["restock"]
    else:
        index = [row["sku"] for row in case.shop.siblings(article["sku"])].index(new["sku"])
        arguments = {
            "order_id": part(seen, "order_id"),
            "line": part(place, "line"),
            "new_sku": part(own, "other_variants", index, "sku"),
        }
        answer = part(case.plan.call("Swap the goods that are missing.", "exchange_line", arguments), "left_in_stock")
        expected = books.exchange(case.shop, line, new["sku"])
    last_day = case.shop.ago(-patience)
    who, what = case.who(customer), called(article)
    request = draw.pick(
        f"{who} is still waiting for the {what}. If it comes in by {last_day}, leave the order alone and answer with the "
        f"day on which it does; otherwise swap it for {new['variant']} and answer with what stock is left of that.",
        f"The {what} for {who} is on back order, and {last_day} is the last day that will do. Say when it comes in if that "
        f"is soon enough, without any change. If not, exchange it for {new['variant']}: how many of those remain?",
    )
    return case.draft(request, answer, expected, "normalized" if waits else "numeric")


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
