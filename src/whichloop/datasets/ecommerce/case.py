"""A case: what a story puts into a drawn shop, and the plan that settles it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, part
from ..story import Story
from ..task import Task, WorldEnvironment
from .shop import WORDING, Row, Shop, draw_customer, draw_order, draw_shop
from .tools import TOOLS


def _environment(shop: Shop, rows: Mapping[str, Any]) -> WorldEnvironment[Shop]:
    shop.open(rows)
    return TOOLS.over(shop, Shop.changes)


def open_shop(task: Task) -> WorldEnvironment[Shop]:
    return _environment(draw_shop(task.world["shop"]), task.world["rows"])


class Case(Story):
    """A drawn shop, what a story puts into it, and the plan that settles the story."""

    wording = WORDING

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.number = self.integer(1, 10**9)
        self.shop = draw_shop(self.number)

    def settle(self) -> None:
        rows = self.shop.changes()
        self.begin(_environment(self.shop, rows), {"shop": self.number, "rows": rows})

    # What the story puts in.

    def customer(self) -> Row:
        """Draw a customer who is easily taken for two others: one has the same first name, one the same last name."""
        first, other_first = self.sample(WORDING.texts["first_names"], 2)
        last, other_last = self.sample(WORDING.texts["last_names"], 2)
        names = (f"{first} {last}", f"{first} {other_last}", f"{other_first} {last}")
        customers = [draw_customer(self, self.shop, name) for name in names]
        for other in customers[1:]:
            draw_order(self, self.shop, other, [(item, 1) for item in self.articles(1)], "delivered")
        return customers[0]

    def articles(self, count: int, but: str = "") -> list[Row]:
        """Draw variants of so many different products other than `but`."""
        goods = list(self.shop.tables["products"].values())
        names = self.sample(sorted({row["product"] for row in goods} - {but}), count)
        return [self.choice([row for row in goods if row["product"] == name]) for name in names]

    def order(self, customer: Row, bought: Sequence[tuple[Row, int]], status: str = "open", *, age: int = 0, late: int = 0) -> Row:
        """Place an order of these goods; `age`: days since it came, `late`: days by which it came after the promised day."""
        order = draw_order(self, self.shop, customer, self.shuffled(bought), status)
        if age:
            order |= {"placed": self.shop.ago(age + late + self.integer(3, 7)), "delivered": self.shop.ago(age)}
            order["promised"] = self.shop.ago(age + late)
        return order

    def other_orders(self, customer: Row, count: int, but: str = "") -> None:
        """Place orders of the same customer that the story is not about, of other products than `but`."""
        for _ in range(count):
            bought = [(self.articles(1, but)[0], self.integer(1, 3))]
            draw_order(self, self.shop, customer, bought, self.choice(("shipped", "delivered")))

    def new_address(self) -> dict[str, str]:
        """Draw a street and a city that no order goes to yet."""
        texts = WORDING.texts
        return {"street": f"{self.integer(141, 300)} {self.choice(texts['streets'])}", "city": self.choice(texts["cities"])}

    def line(self, order: Row, article: Row) -> Row:
        return next(line for line in self.shop.lines_of(order["order_id"]) if line["sku"] == article["sku"])

    def rule(self, topic: str, name: str) -> Any:
        """Return a number of the policy."""
        return self.shop.tables["policy"][topic, name]["value"]

    # What the plan looks up, and what it does.

    def read_policy(self, topic: str) -> Ref:
        return self.call(f"Read the policy on {topic.replace('_', ' ')}.", "read_policy", {"topic": topic})

    def read_order(self, order: Row) -> Ref:
        return self.call(f"Look up order {order['order_id']}.", "get_order", {"order_id": order["order_id"]})

    def find(self, customer: Row) -> Ref:
        """Plan to find the customer by e-mail address."""
        return part(self.call(f"Find whose address {customer['email']} is.", "find_customers", {"text": customer["email"]}), 0)

    def find_order(self, customer: Row, order: Row) -> Ref:
        """Plan to find the order among all that the customer has placed."""
        return self.read_orders(self.find(customer), customer)[order["order_id"]]

    def read_orders(self, entry: Ref, customer: Row) -> dict[str, Ref]:
        """Plan to read all orders of a customer who has been found, by number."""
        seen = {}
        for index, number in enumerate(self.shop.orders_of(customer["customer_id"])):
            goal = f"Look up the customer's order number {index + 1}."
            seen[number] = self.call(goal, "get_order", {"order_id": part(entry, "orders", index)})
        return seen

    def refund(
        self, goal: str, order_id: Any, line: Ref, quantity: int | Ref, fee_percent: int | Ref = 0, *, after: Iterable[Ref] = ()
    ) -> Ref:
        arguments = {"order_id": order_id, "line": line, "quantity": quantity, "fee_percent": fee_percent}
        return self.call(goal, "refund_line", arguments, after=after)

    def redirect(
        self, goal: str, order_id: Any, place: Mapping[str, str], *, after: Iterable[Ref] = (), fails: bool = False
    ) -> Ref:
        return self.call(goal, "change_address", {"order_id": order_id, **place}, after=after, fails=fails)

    def credit(self, goal: str, customer_id: Ref, amount: int | Ref, *, after: Iterable[Ref] = ()) -> Ref:
        """Plan to give a credit, and return the reference to the balance after it."""
        given = self.call(goal, "give_credit", {"customer_id": customer_id, "amount": amount}, after=after)
        return part(given, "credit_balance")

    # What comes of it.

    def case(self, answer: Any, names: Mapping[str, Any]) -> Draft:
        """Return the task. Who writes is drawn before the wish, where one of the wishes names it."""
        if "{who}" in str(self.wording.find(f"{self.name}.wish")):
            names = {**names, "who": self.say("who", names["customer"])}
        request, texts = self.told(names), WORDING.texts
        aside = self.choice(texts["aside"]).format(n=self.integer(4, 29), name=self.choice(texts["first_names"]))
        today = self.shop.today.isoformat()
        return self.draft(f"Today is {today}. {aside} {request[0].upper()}{request[1:]} {texts['answer_format']}", answer)
