"""Stories of goods that come back, of others that are sent instead, of credits, addresses and parcels, and without an answer.

What each asks for stands under its name in `wording.toml`.
"""

from __future__ import annotations

from whichloop.protocol import Ref

from ..generating import Draft, part
from .case import Case
from .shop import PLENTY, Row, draw_customer

# Goods that come back


def return_(s: Case) -> Draft:
    """A return that the policy allows is paid back, in full or in part."""
    return _send_back(s, refused=False)


def refusal(s: Case) -> Draft:
    """A return that is too late, or of goods bought on clearance: nothing may change."""
    return _send_back(s, refused=True)


def _send_back(s: Case, refused: bool) -> Draft:
    s.name, opened, named = "send_back", s.chance(0.5), s.chance(0.5)
    customer, (article, other), days = s.customer(), s.articles(2), s.rule("returns", "days")
    too_late = refused and s.chance(0.6)
    age = days + s.integer(1, 12) if too_late else s.integer(2, days)
    order = s.order(customer, [(article, s.integer(2, 4)), (other, 1)], "delivered", age=age)
    s.other_orders(customer, 2, but=article["product"])
    line = s.line(order, article)
    line["clearance"] = int(refused and not too_late)
    pieces = s.integer(1, line["quantity"])

    seen = s.read_order(order) if named else s.find_order(customer, order)
    rules = s.read_policy("returns")
    answer = part(rules, "file_code")
    if not refused:
        fees = s.read_policy("restocking")
        fee_percent = part(fees, "opened_percent") if opened else 0
        number, goal = part(seen, "lines", line["line"], "line"), f"Pay back {pieces} pieces."
        answer = part(s.refund(goal, part(seen, "order_id"), number, pieces, fee_percent, after=(rules, fees)), "amount")
    which = f"on order {order['order_id']}" if named else "bought here some time ago"
    state = s.choice(("opened", "out of its box") if opened else ("still sealed", "never unpacked"))
    goods = f"{pieces} of the {article['product']} in {article['variant']} {which}, {state}"
    return s.case(answer, locals())


def split_refund(s: Case) -> Draft:
    """One of three lines comes back sealed and one opened; the third was bought on clearance and stays."""
    customer, articles = s.customer(), s.articles(3)
    age = s.integer(1, s.rule("returns", "days"))
    order = s.order(customer, [(article, s.integer(1, 4)) for article in articles], "delivered", age=age)
    sealed, opened, clearance = (s.line(order, article) for article in articles)
    clearance["clearance"] = 1

    seen, rules, fees = s.read_order(order), s.read_policy("returns"), s.read_policy("restocking")
    last = rules
    for line, fee, state in ((sealed, 0, "sealed"), (opened, part(fees, "opened_percent"), "opened")):
        place = part(seen, "lines", line["line"])
        goal, pieces = f"Pay back the {state} pieces.", part(place, "quantity")
        last = s.refund(goal, order["order_id"], part(place, "line"), pieces, fee, after=(last, fees))
    return s.case(part(last, "paid_back_on_order"), locals())


def recall(s: Case) -> Draft:
    """An article has a fault: it is taken back from every order that has it, and counted on the shelf."""
    article, *others = s.articles(5)
    article["stock"], orders = s.integer(*PLENTY), list[Row]()
    for other in others[: s.integer(2, 4)]:
        customer, bought = draw_customer(s, s.shop), [(article, s.integer(1, 5)), (other, 1)]
        orders.append(s.order(customer, bought, "delivered", age=s.integer(3, 40)))
    spared = s.order(draw_customer(s, s.shop), [(other, 2) for other in others[:2]], "delivered", age=s.integer(3, 40))
    listed = s.shuffled([*orders, spared])

    seen = [(order, s.read_order(order)) for order in listed]
    last = next(ref for order, ref in seen if order is spared)
    for order, ref in seen:
        if order is not spared:
            place = part(ref, "lines", s.line(order, article)["line"])
            goal, pieces = f"Take back what order {order['order_id']} has of it.", part(place, "quantity")
            last = s.refund(goal, order["order_id"], part(place, "line"), pieces, after=[last])
    numbers = [order["order_id"] for order in listed]
    return s.case(part(last, "in_stock"), locals())


# Other goods instead


def exchange(s: Case) -> Draft:
    """The customer wants another colour, or if it is short a third one."""
    short = s.chance(0.5)
    customer, (article, other) = s.customer(), s.articles(2)
    order = s.order(customer, [(article, s.integer(2, 4)), (other, 1)], "delivered", age=s.integer(2, 12))
    line = s.line(order, article)
    wanted, second = s.sample(s.shop.siblings(article["sku"]), 2)
    wanted["stock"] = s.integer(0, line["quantity"] - 1) if short else s.integer(*PLENTY)
    second["stock"] = s.integer(*PLENTY)

    seen = s.read_order(order)
    place = part(seen, "lines", line["line"])
    own = s.call("Look up the article that was delivered.", "get_product", {"sku": part(place, "sku")})
    choices, looked = [row["sku"] for row in s.shop.siblings(article["sku"])], list[Ref]()
    for rank, row in (("first", wanted), ("second", second)):
        sku = part(own, "other_variants", choices.index(row["sku"]), "sku")
        looked.append(s.call(f"See how many the shop has of the {rank} choice.", "get_product", {"sku": sku}))
    arguments = {"order_id": order["order_id"], "line": part(place, "line"), "new_sku": part(looked[short], "sku")}
    swapped = s.call("Swap the goods.", "exchange_line", arguments, after=looked)
    return s.case(part(swapped, "left_in_stock"), locals())


def backorder(s: Case) -> Draft:
    """The customer waits if the goods come in time, and takes another colour otherwise."""
    waits = s.chance(0.4)
    customer, (article, other) = s.customer(), s.articles(2)
    order = s.order(customer, [(article, s.integer(1, 3)), (other, 1)])
    line = s.line(order, article)
    line["state"], due = "back order", s.integer(9, 50)
    article |= {"stock": 0, "restock": s.shop.ago(-due)}
    new = s.choice(s.shop.siblings(article["sku"]))
    new |= {"stock": s.integer(*PLENTY), "restock": None}
    patience = due + s.integer(1, 6) if waits else due - s.integer(1, 6)

    seen = s.find_order(customer, order)
    place = part(seen, "lines", line["line"])
    own = s.call("See when more of the article comes in.", "get_product", {"sku": part(place, "sku")})
    answer = part(own, "restock")
    if not waits:
        index = [row["sku"] for row in s.shop.siblings(article["sku"])].index(new["sku"])
        new_sku = part(own, "other_variants", index, "sku")
        arguments = {"order_id": part(seen, "order_id"), "line": part(place, "line"), "new_sku": new_sku}
        answer = part(s.call("Swap the goods that are missing.", "exchange_line", arguments), "left_in_stock")
    last_day = s.shop.ago(-patience)
    return s.case(answer, locals())


# Credits and prices


def goodwill(s: Case) -> Draft:
    refused = s.chance(0.35)
    customer, (article,), most = s.customer(), s.articles(1), s.rule("goodwill", "yearly_credits")
    late = s.rule("goodwill", "late_days") + s.integer(0, 6)
    order = s.order(customer, [(article, s.integer(1, 3))], "delivered", age=s.integer(2, 30), late=late)
    s.other_orders(customer, 1, but=article["product"])
    for _ in range(most if refused else s.integer(0, most - 1)):
        s.shop.put("credits", len(s.shop.tables["credits"]) + 1, customer["customer_id"], s.integer(3, 25) * 100)

    seen = s.find_order(customer, order)
    rules, entry = s.read_policy("goodwill"), Ref(s.calls[0].id, (0,))
    answer = part(rules, "file_code")
    if not refused:
        answer = s.credit("Give the credit.", part(entry, "customer_id"), part(rules, customer["tier"]), after=(seen,))
    return s.case(answer, locals())


def price_match(s: Case) -> Draft:
    refused = s.chance(0.35)
    customer, (article, other), days = s.customer(), s.articles(2), s.rule("price_match", "days")
    order = s.order(customer, [(article, s.integer(1, 4)), (other, 1)])
    order["placed"] = s.shop.ago(days + s.integer(1, 9) if refused else s.integer(1, days))
    line = s.line(order, article)
    line["unit_price"] = article["price"] + s.integer(60, 900, 20)

    seen, rules = s.read_order(order), s.read_policy("price_match")
    place = part(seen, "lines", line["line"])
    now = s.call("See what the article costs today.", "get_product", {"sku": part(place, "sku")})
    answer = part(rules, "file_code")
    if not refused:
        arguments = {"order_id": order["order_id"], "line": part(place, "line"), "unit_price": part(now, "price")}
        answer = part(s.call("Pay the difference.", "match_price", arguments, after=(rules,)), "amount")
    return s.case(answer, locals())


def three_wishes(s: Case) -> Draft:
    customer, (article, late, other) = s.customer(), s.articles(3)
    age = s.integer(2, s.rule("returns", "days"))
    first = s.order(customer, [(article, s.integer(2, 4)), (other, 1)], "delivered", age=age)
    days = s.rule("goodwill", "late_days") + s.integer(0, 5)
    s.order(customer, [(late, s.integer(1, 2))], "delivered", age=s.integer(2, 40), late=days)
    third = s.order(customer, [(other, s.integer(1, 3))])
    line, pieces, place = s.line(first, article), s.integer(1, 2), s.new_address()

    entry = s.find(customer)
    seen = s.read_orders(entry, customer)
    returns, rules = s.read_policy("returns"), s.read_policy("goodwill")
    back, leaving = seen[first["order_id"]], seen[third["order_id"]]
    number, goal = part(back, "lines", line["line"], "line"), "Pay for the goods that come back."
    s.refund(goal, part(back, "order_id"), number, pieces, after=(returns,))
    s.redirect("Redirect what is still here.", part(leaving, "order_id"), place, after=seen.values())
    amount = part(rules, customer["tier"])
    balance = s.credit("Make good for the delay.", part(entry, "customer_id"), amount, after=seen.values())
    return s.case(balance, locals() | place)


# Addresses and parcels


def move(s: Case) -> Draft:
    customer = s.customer()
    order = s.order(customer, [(article, s.integer(1, 2)) for article in s.articles(2)])
    s.other_orders(customer, s.integer(1, 2))
    place = s.new_address()

    seen = s.find_order(customer, order)
    others = [Ref(call.id) for call in s.calls[1:]]
    moved = s.redirect("Send the open order to the new place.", part(seen, "order_id"), place, after=others)
    return s.case(part(moved, "packing_slip"), locals() | place)


def move_some(s: Case) -> Draft:
    """Three orders are named, two have left: to try them all is the quickest way."""
    customer = s.customer()
    states = ("open", "shipped", "delivered")
    orders = [s.order(customer, [(item, s.integer(1, 3))], status) for item, status in zip(s.articles(3), states, strict=True)]
    place, listed, answer = s.new_address(), s.shuffled(orders), None
    for order in listed:
        has_left, goal = order["status"] != "open", f"Try to send order {order['order_id']} elsewhere."
        moved = s.redirect(goal, order["order_id"], place, fails=has_left)
        answer = answer if has_left else part(moved, "packing_slip")
    numbers = [order["order_id"] for order in listed]
    return s.case(answer, locals() | place)


def combine(s: Case) -> Draft:
    """Two open orders leave together, and their shipping fees go back where the goods are worth enough."""
    free = s.chance(0.6)
    customer, articles = s.customer(), s.articles(3)
    first = s.order(customer, [(articles[0], s.integer(1, 3)), (articles[1], s.integer(1, 2))])
    second = s.order(customer, [(articles[2], s.integer(1, 4))])
    s.other_orders(customer, 1)
    lines = [line for order in (first, second) for line in s.shop.lines_of(order["order_id"])[1:]]
    cents = sum(line["quantity"] * line["unit_price"] for line in lines)
    limit = cents // 100 - s.integer(0, 30) if free else cents // 100 + s.integer(1, 40)
    s.shop.put("policy", "shipping", "free_from", max(1, limit))

    seen = [s.read_order(order) for order in (first, second)]
    rules = s.read_policy("shipping")
    pair = {"order_id": first["order_id"], "other_id": second["order_id"]}
    joined = s.call("Put both into one parcel.", "combine_orders", pair, after=seen)
    for order, ref in zip((first, second), seen, strict=True) if free else ():
        goal = f"Pay back the shipping of {order['order_id']}."
        s.refund(goal, order["order_id"], part(ref, "lines", 0, "line"), 1, after=(joined, rules))
    return s.case(part(joined, "goods_total"), locals())


def late_parcel(s: Case) -> Draft:
    customer, (article,) = s.customer(), s.articles(1)
    order = s.order(customer, [(article, s.integer(1, 3))], "delivered", age=s.integer(2, 30), late=s.integer(1, 9))
    s.other_orders(customer, 2, but=article["product"])
    seen = s.find_order(customer, order)
    rules, goal, line = s.read_policy("shipping"), "Pay the shipping fee back.", part(seen, "lines", 0, "line")
    paid = s.refund(goal, part(seen, "order_id"), line, 1, after=(rules,))
    return s.case(part(paid, "amount"), locals())


# Questions without an answer


def unknown_day(s: Case) -> Draft:
    """The address can be changed; no day is promised."""
    customer = s.customer()
    order = s.order(customer, [(article, s.integer(1, 2)) for article in s.articles(2)])
    order["promised"] = None
    s.other_orders(customer, 1)
    place = s.new_address()
    s.redirect("Send it to the new place.", part(s.find_order(customer, order), "order_id"), place)
    return s.case(None, locals() | place)


def no_price(s: Case) -> Draft:
    """The credit can be given; the article has no price at present."""
    customer, (article, other) = s.customer(), s.articles(2)
    order = s.order(customer, [(article, 1), (other, 2)], "delivered", age=s.integer(2, 20))
    article["price"], promised = None, s.integer(2, 30)
    seen = s.read_order(order)
    sku = part(seen, "lines", s.line(order, article)["line"], "sku")
    s.call("See what it costs at present.", "get_product", {"sku": sku})
    s.credit("Give what was promised.", part(seen, "customer_id"), promised)
    return s.case(None, locals())


def nobody(s: Case) -> Draft:
    """No customer writes from this address, though the name is known."""
    customer, (article,) = s.customer(), s.articles(1)
    s.order(customer, [(article, 1)])
    email = f"{customer['name'].split()[1].lower()}.{s.integer(100, 999)}@parcels.example"
    s.call("Find who writes from there.", "find_customers", {"text": email})
    s.call("Find customers of that name.", "find_customers", {"text": customer["name"]})
    return s.case(None, locals())


STORIES = (
    return_, exchange, move, price_match, split_refund, goodwill, refusal, combine, late_parcel, recall, backorder, move_some,
    three_wishes,
)  # fmt: skip
UNANSWERABLE = (unknown_day, no_price, nobody)
