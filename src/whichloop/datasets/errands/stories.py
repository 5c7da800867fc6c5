"""Rounds of errands: what is drawn in a town, and planned there. Their wording stands in `wording.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, part
from ..story import DeadEnd, Story
from ..task import Task, WorldEnvironment
from .town import TOOLS, WORDING, Town


def open_town(task: Task) -> WorldEnvironment[Town]:
    return TOOLS.over(Town(task.world["town"]), Town.state)


class Errands(Story):
    """A town, and what is planned there: errands, each of which needs nothing of the others."""

    wording = WORDING

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        number = self.integer(1, 10**9)
        self.town = Town(number)
        self.begin(TOOLS.over(self.town, Town.state), {"town": number})
        self.asked: list[str] = []
        """What the question asks for, errand by errand."""
        self.changes: list[Ref] = []
        """The calls that change something."""
        self._bought: set[tuple[str, str]] = set()

    def change(self, goal: str, tool: str, arguments: Mapping[str, Any], asked: str) -> None:
        """Plan a call that changes something."""
        self.changes.append(self.call(goal, tool, arguments))
        self.asked.append(asked)

    def buy(self, count: int) -> None:
        """Plan to buy so many things, each in one shop and only once."""
        shelves = [(shop, thing) for shop, prices in self.town.shops.items() for thing in prices]
        for shop, thing in self.sample([shelf for shelf in shelves if shelf not in self._bought], count):
            self._bought.add((shop, thing))
            bought = {"shop": shop, "thing": thing, "quantity": self.integer(2, 12)}
            self.change(f"Get {bought['quantity']} {thing} at {shop}.", "buy", bought, self.say("buy", bought))

    def buy_what_is_sold_out(self) -> dict[str, Any]:
        """Plan to buy something that its shop no longer has."""
        shop, other = self.sample(list(self.town.shops), 2)
        thing, quantity = self.choice(list(self.town.shops[other])), self.integer(2, 12)
        arguments = {"shop": shop, "thing": thing, "quantity": quantity}
        self.call(f"Try to get {quantity} {thing} at {shop}.", "buy", arguments, fails=True)
        self.asked.append(f"buy {quantity} {thing} from {shop}")
        return arguments

    def return_books(self, count: int) -> None:
        for title in self.sample(list(self.town.fines), count):
            self.change(f"Bring back {title}.", "return_book", {"title": title}, f'return the book "{title}" to the library')

    def empty_jars(self, count: int) -> None:
        for jar in self.sample(list(self.town.jars), count):
            dollars = self.integer(5, self.town.jars[jar])
            asked = f"move {dollars} dollars from {jar} into the purse"
            self.change(f"Take {dollars} out of {jar}.", "empty_into_purse", {"jar": jar, "dollars": dollars}, asked)

    def pay_bills(self, count: int) -> None:
        """Plan to look so many bills up, then to pay them."""
        bills = self.sample(list(self.town.bills), count)
        looked_up = [self.call(f"See what {bill} comes to.", "look_up_bill", {"bill": bill}) for bill in bills]
        for bill, entry in zip(bills, looked_up, strict=True):
            self.change(f"Settle {bill}.", "pay_bill", {"bill": bill, "amount": part(entry, "amount")}, f"pay bill {bill}")

    def send_parcels(self, count: int) -> None:
        """Plan to look so many people's addresses up, then to send each a parcel."""
        people = self.sample(list(self.town.addresses), count)
        looked_up = [self.call(f"Find out where {name} lives.", "find_address", {"person": name}) for name in people]
        for name, entry in zip(people, looked_up, strict=True):
            arguments = {"address": part(entry, "address"), "kilograms": self.integer(1, 20)}
            asked = f"send {name} a parcel of {arguments['kilograms']} kilograms"
            self.change(f"Post the parcel of {name}.", "send_parcel", arguments, asked)

    def task(self, key: str, answer: Any, names: Mapping[str, Any]) -> Draft:
        """Return the task whose texts stand under a key."""
        *most, last = self.asked
        request = self.say(key, {**names, "listed": f"{', '.join(most)} and {last}" if most else last})
        if self.seen(answer) is not None and self.seen(answer) <= 0:
            raise DeadEnd
        texts = self.wording.texts
        aside = f"{self.choice(texts['who'])} {self.choice(texts['why']).format(n=self.integer(2, 11))}."
        return self.draft(f"{aside} {request} {texts['answer_format']}", answer)

    def what_is_left(self) -> Draft:
        """Ask for all that has been planned, and for the money that is left."""
        counted = self.call("Count what is left in the purse.", "count_purse", {}, after=self.changes)
        return self.task("left", part(counted, "dollars"), {})


def _shopping(s: Errands) -> Draft:
    s.buy(s.integer(2, 6))
    return s.what_is_left()


def _bills(s: Errands) -> Draft:
    s.pay_bills(s.integer(2, 5))
    return s.what_is_left()


def _parcels(s: Errands) -> Draft:
    s.send_parcels(s.integer(2, 5))
    return s.what_is_left()


def _jars(s: Errands) -> Draft:
    s.empty_jars(s.integer(2, 6))
    return s.what_is_left()


def _books_and_shopping(s: Errands) -> Draft:
    """One to three books to bring back, and as many things to buy."""
    for kind in s.shuffled([s.return_books, s.buy]):
        kind(s.integer(1, 3))
    return s.what_is_left()


def _all_sorts(s: Errands) -> Draft:
    """Three kinds of errands, one or two of each."""
    for kind in s.sample([s.buy, s.return_books, s.empty_jars, s.pay_bills, s.send_parcels], 3):
        kind(s.integer(1, 2))
    return s.what_is_left()


def _sold_out(s: Errands) -> Draft:
    """One of the things cannot be had, and the others are to be bought all the same."""
    s.buy(s.integer(1, 3))
    lacking = s.buy_what_is_sold_out()
    s.buy(1)
    return s.task("sold_out", None, lacking)


STORIES = (_shopping, _bills, _parcels, _jars, _books_and_shopping, _all_sorts)
UNANSWERABLE = (_sold_out,)
