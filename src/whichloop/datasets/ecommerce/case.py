"""A case: what a story puts into a drawn shop, the plan that settles it, and its draft; and stories of credits and prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whichloop.datasets.generating import Draft, Draw, PlanWriter, part
from whichloop.protocol import Ref

from .shop import (
    CITIES,
    FIRST_NAMES,
    LAST_NAMES,
    STREETS,
    Row,
    Shop,
    changed,
    dollars_from_cents,
    draw_customer,
    draw_order,
    draw_shop,
)

ANSWER_FORMAT = (
    "Answer with the dollars, the number, the day (YYYY-MM-DD) or the code alone. "
    'If it cannot be determined, the right answer is "not determined".'
)
ASIDES = (
    "The ticket has been open for {n} hours.",
    "{name} from the warehouse passed it on.",
    "It is ticket {n} of this week.",
    "The call came in on line {n} and was cut off.",
    "{name} was going to look into it, and fell ill.",
    "There is a note of {n} words on it in the archive, which nobody can read.",
    "{name} has promised an answer before noon.",
    "The parcel service raises its rates by {n} percent soon.",
    "{name} in bookkeeping would like to see it closed.",
    "A survey of {n} customers found our service friendly.",
    "The letter that it is about arrived without a stamp.",
    "{name} wrote it down on the back of a delivery note.",
)
"""Sentences that do not matter."""
REFUSAL = (
    "If the policy is against it, change nothing and answer with the code under which it has refusals filed.",
    "Should the policy not allow it, leave all as it is; the answer is then the policy's filing code for refusals.",
    "Where the policy says no, nothing may be changed, and its code for filing refusals is the answer.",
)
"""What a story asks for where the policy may be against it."""


class Case:
    """A drawn shop, what a story puts into it, and the plan that settles the story."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.number = draw.integer(1, 10**9)
        self.shop = draw_shop(self.number)
        self.plan = PlanWriter()
        self._drawn = self.shop.rows()
        self._opening = self._drawn

    # What the story puts in.

    def customer(self) -> Row:
        """Draw a customer who is easily taken for two others: one has the same first name, one the same last name."""
        first, other_first = self.draw.sample(FIRST_NAMES, 2)
        last, other_last = self.draw.sample(LAST_NAMES, 2)
        customers = [
            draw_customer(self.draw, self.shop, name)
            for name in (f"{first} {last}", f"{first} {other_last}", f"{other_first} {last}")
        ]
        for other in customers[1:]:
            draw_order(self.draw, self.shop, other, [(item, 1) for item in self.articles(1)], "delivered")
        return customers[0]

    def articles(self, count: int, but: str = "") -> list[Row]:
        """Draw variants of so many different products other than `but`."""
        goods = list(self.shop.tables["products"].values())
        names = self.draw.sample(sorted({row["product"] for row in goods} - {but}), count)
        return [self.draw.choice([row for row in goods if row["product"] == name]) for name in names]

    def order(self, customer: Row, bought: Sequence[tuple[Row, int]], status: str = "open", *, age: int = 0, late: int = 0) -> Row:
        """Place an order of these goods; `age`: days since it came, `late`: days by which it came after the promised day."""
        order = draw_order(self.draw, self.shop, customer, self.draw.shuffled(bought), status)
        if age:
            order |= {"placed": self.shop.ago(age + late + self.draw.integer(3, 7)), "delivered": self.shop.ago(age)}
            order["promised"] = self.shop.ago(age + late)
        return order

    def other_orders(self, customer: Row, count: int, but: str = "") -> None:
        """Place orders of the same customer that the story is not about, of other products than `but`."""
        for _ in range(count):
            bought = [(self.articles(1, but)[0], self.draw.integer(1, 3))]
            draw_order(self.draw, self.shop, customer, bought, self.draw.choice(("shipped", "delivered")))

    def new_address(self) -> tuple[str, str]:
        """Draw a street and a city that no order goes to yet."""
        return f"{self.draw.integer(141, 300)} {self.draw.choice(STREETS)}", self.draw.choice(CITIES)

    def line(self, order: Row, article: Row) -> Row:
        return next(line for line in self.shop.lines_of(order) if line["sku"] == article["sku"])

    def shipping(self, order: Row) -> Row:
        return self.shop.tables["lines"][order["order_id"], 0]

    def rule(self, topic: str, name: str) -> Any:
        """Return a number of the policy."""
        return self.shop.tables["policy"][topic, name]["value"]

    def who(self, customer: Row) -> str:
        """Name a customer as questions do: the address is unique, the name is not."""
        forms = ("{name} ({email})", "{name}, who writes from {email},", "our customer {name}, e-mail {email},")
        return self.draw.choice(forms).format(**customer)

    # What the plan looks up.

    def read_policy(self, topic: str) -> Ref:
        return self.plan.call(f"Read the policy on {topic.replace('_', ' ')}.", "read_policy", {"topic": topic})

    def read_order(self, order_id: str) -> Ref:
        return self.plan.call(f"Look up order {order_id}.", "get_order", {"order_id": order_id})

    def find(self, customer: Row) -> Ref:
        """Plan to find the customer by e-mail address."""
        customers = self.plan.call(f"Find whose address {customer['email']} is.", "find_customers", {"text": customer["email"]})
        return part(customers, 0)

    def find_order(self, customer: Row, order: Row) -> Ref:
        """Plan to find the order among all that the customer has placed."""
        return self.read_orders(self.find(customer), customer)[order["order_id"]]

    def read_orders(self, entry: Ref, customer: Row) -> dict[str, Ref]:
        """Plan to read all orders of a customer who has been found, by number."""
        seen = {}
        for index, order in enumerate(self.shop.orders_of(customer)):
            goal = f"Look up the customer's order number {index + 1}."
            seen[order["order_id"]] = self.plan.call(goal, "get_order", {"order_id": part(entry, "orders", index)})
        return seen

    # What the plan does.

    def refund(
        self, goal: str, order_id: Any, line: Ref, quantity: int | Ref, fee_percent: int | Ref = 0, *, after: Iterable[Ref] = ()
    ) -> Ref:
        arguments = {"order_id": order_id, "line": line, "quantity": quantity, "fee_percent": fee_percent}
        return self.plan.call(goal, "refund_line", arguments, after=after)

    def redirect(self, goal: str, order_id: Any, place: tuple[str, str], *, after: Iterable[Ref] = (), fails: bool = False) -> Ref:
        """Plan to send an order to another street and city."""
        arguments = {"order_id": order_id, "street": place[0], "city": place[1]}
        return self.plan.call(goal, "change_address", arguments, after=after, fails=fails)

    # What comes of it.

    def settle(self) -> None:
        """Declare the world complete: from here on, what the books change is what the trial has to change."""
        self._opening = self.shop.rows()

    def draft(self, request: str, answer: Any, expected: Any, scorer: str = "numeric") -> Draft:
        """Return the task. `request`: what is asked, without the day and the form of the answer."""
        aside = self.draw.choice(ASIDES).format(n=self.draw.integer(4, 29), name=self.draw.choice(FIRST_NAMES))
        return Draft(
            question=f"Today is {self.shop.today.isoformat()}. {aside} {request[0].upper()}{request[1:]} {ANSWER_FORMAT}",
            plan=self.plan.plan(answer),
            expected=expected,
            scorer=scorer,
            world={"shop": self.number, "rows": changed(self._opening, self._drawn)},
            end_state=changed(self.shop.rows(), self._opening),
        )


def called(article: Row) -> str:
    """Name an article as customers do."""
    return f"{article['product']} in {article['variant']}"


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


def goodwill(draw: Draw) -> Draft:
    """A late parcel earns a credit by tier, unless there have been enough."""
    case, refused = Case(draw), draw.chance(0.35)
    customer, (article,), most = case.customer(), case.articles(1), case.rule("goodwill", "yearly_credits")
    late = case.rule("goodwill", "late_days") + draw.integer(0, 6)
    order = case.order(customer, [(article, draw.integer(1, 3))], "delivered", age=draw.integer(2, 30), late=late)
    case.other_orders(customer, 1, but=article["product"])
    for _ in range(most if refused else draw.integer(0, most - 1)):
        credit(case.shop, customer, draw.integer(3, 25))
    case.settle()

    seen = case.find_order(customer, order)
    rules, entry = case.read_policy("goodwill"), Ref(case.plan.calls[0].id, (0,))
    if refused:
        answer, expected = part(rules, "file_code"), case.rule("goodwill", "file_code")
    else:
        arguments = {"customer_id": part(entry, "customer_id"), "amount": part(rules, customer["tier"])}
        given = case.plan.call("Give the credit.", "give_credit", arguments, after=(seen,))
        answer, expected = (
            part(given, "credit_balance"),
            dollars_from_cents(credit(case.shop, customer, case.rule("goodwill", customer["tier"]))),
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
        answer, expected = part(matched, "amount"), dollars_from_cents(match_price(case.shop, line, article["price"]))
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
    refund(case.shop, line, pieces)
    open_order = part(seen[third["order_id"]], "order_id")
    case.redirect("Redirect what is still here.", open_order, (street, city), after=seen.values())
    third |= {"street": street, "city": city}
    amount = {"customer_id": part(entry, "customer_id"), "amount": part(goodwill, customer["tier"])}
    given = case.plan.call("Make good for the delay.", "give_credit", amount, after=seen.values())
    balance = credit(case.shop, customer, case.rule("goodwill", customer["tier"]))
    who, what = case.who(customer), called(article)
    request = draw.pick(
        f"Three wishes of {who} at once. First, {pieces} of the {what} come back, sealed. Second, the parcel with the "
        f"{called(late)} was late, and the goodwill that the policy provides for is asked for. Third, the order that has not "
        f"left yet goes to {street}, {city}. See to all of it. What is the balance of credits then?",
        f"{who} writes a long letter. The order still in the house shall go to {street} in {city}; {pieces} unopened pieces of "
        f"the {what} are on their way back; and for the {called(late)}, which came days late, there is to be a credit. The "
        "policy allows each of these. Answer with the customer's credit balance once all is done.",
    )
    return case.draft(request, part(given, "credit_balance"), dollars_from_cents(balance))
