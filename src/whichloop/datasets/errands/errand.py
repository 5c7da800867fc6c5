"""A round of errands: a drawn town, the plan of what is done there, and the same steps kept by hand; and the tasks made of such
rounds."""

from __future__ import annotations

from typing import Any

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, part, told_by
from whichloop.protocol import Ref

from .town import PER_KILOGRAM, POSTAGE, Town, draw_town

ANSWER_FORMAT = 'Answer with the number alone. If it cannot be determined, the right answer is "not determined".'
WHO = (
    "Aunt Rosa", "The lodger", "A neighbour", "The landlady", "My cousin", "The old captain", "The choir master",
    "The twins' mother", "The night nurse", "Our teacher", "The baker's widow", "The new clerk", "Grandfather",
)  # fmt: skip
WHY = (
    "has hurt a foot and stays at home", "leaves by the {n} o'clock train", "expects {n} guests", "has had {n} letters about it",
    "is moving house in {n} days", "cannot get away before noon", "has put it off for {n} weeks", "works late until Friday",
    "is away for {n} days", "has promised it to {n} people", "lost the list once already", "sends thanks in advance",
)  # fmt: skip


class Errands:
    """A town, what is planned there, and what it comes to."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.number = draw.integer(1, 10**9)
        self.town: Town = draw_town(self.number)
        self.expected: Town = draw_town(self.number)
        """The town as the errands leave it, kept by hand."""
        self.plan = PlanWriter()
        self.tasks_asked: list[str] = []
        """What the question asks for, errand by errand."""
        self.changing_calls: list[Ref] = []
        """The calls that change something."""
        self._bought: set[tuple[str, str]] = set()

    # Errands, each of which needs nothing of the others.

    def buy(self, count: int) -> None:
        """Plan to buy so many things, each in one shop and only once."""
        shelves = [(shop, thing) for shop, prices in self.town.shops.items() for thing in prices]
        for shop, thing in self.draw.sample([shelf for shelf in shelves if shelf not in self._bought], count):
            self._bought.add((shop, thing))
            quantity = self.draw.integer(2, 12)
            goal = f"Get {quantity} {thing} at {shop}."
            self.changing_calls.append(self.plan.call(goal, "buy", {"shop": shop, "thing": thing, "quantity": quantity}))
            wordings = (f"buy {quantity} {thing} from {shop}", f"fetch {quantity} {thing}, which {shop} sells")
            self.tasks_asked.append(self.draw.pick(*wordings))
            self.expected.purse -= self.town.shops[shop][thing] * quantity
            self.expected.purchases.append((shop, thing, quantity))

    def ask_for_what_is_sold_out(self) -> tuple[str, str]:
        """Plan to buy something that its shop no longer has. Return the shop and the thing."""
        shop, other = self.draw.sample(list(self.town.shops), 2)
        thing = self.draw.choice(list(self.town.shops[other]))
        quantity = self.draw.integer(2, 12)
        goal = f"Try to get {quantity} {thing} at {shop}."
        self.plan.call(goal, "buy", {"shop": shop, "thing": thing, "quantity": quantity}, fails=True)
        self.tasks_asked.append(f"buy {quantity} {thing} from {shop}")
        return shop, thing

    def return_books(self, count: int) -> None:
        for title in self.draw.sample(list(self.town.fines), count):
            self.changing_calls.append(self.plan.call(f"Bring back {title}.", "return_book", {"title": title}))
            self.tasks_asked.append(f'return the book "{title}" to the library')
            self.expected.purse -= self.town.fines[title]
            self.expected.returned.append(title)

    def empty_jars(self, count: int) -> None:
        for jar in self.draw.sample(list(self.town.jars), count):
            dollars = self.draw.integer(5, self.town.jars[jar])
            goal = f"Take {dollars} out of {jar}."
            self.changing_calls.append(self.plan.call(goal, "empty_into_purse", {"jar": jar, "dollars": dollars}))
            self.tasks_asked.append(f"move {dollars} dollars from {jar} into the purse")
            self.expected.purse += dollars
            self.expected.jars[jar] -= dollars

    def pay_bills(self, count: int) -> None:
        """Plan to look so many bills up, then to pay them."""
        numbers = self.draw.sample(list(self.town.bills), count)
        looked_up = [self.plan.call(f"See what {bill} comes to.", "look_up_bill", {"bill": bill}) for bill in numbers]
        for bill, entry in zip(numbers, looked_up, strict=True):
            arguments = {"bill": bill, "amount": part(entry, "amount")}
            self.changing_calls.append(self.plan.call(f"Settle {bill}.", "pay_bill", arguments))
            self.tasks_asked.append(f"pay bill {bill}")
            amount = self.town.bills[bill]["amount"]
            self.expected.purse -= amount
            self.expected.payments.append((bill, amount))

    def send_parcels(self, count: int) -> None:
        """Plan to look so many people's addresses up, then to send each a parcel."""
        people = self.draw.sample(list(self.town.addresses), count)
        looked_up = [self.plan.call(f"Find out where {name} lives.", "find_address", {"person": name}) for name in people]
        for name, entry in zip(people, looked_up, strict=True):
            kilograms = self.draw.integer(1, 20)
            arguments = {"address": part(entry, "address"), "kilograms": kilograms}
            self.changing_calls.append(self.plan.call(f"Post the parcel of {name}.", "send_parcel", arguments))
            self.tasks_asked.append(f"send {name} a parcel of {kilograms} kilograms")
            self.expected.purse -= POSTAGE + PER_KILOGRAM * kilograms
            self.expected.parcels.append((self.town.addresses[name], kilograms))

    # What comes of it.

    def in_words(self) -> str:
        """Return the list of errands."""
        *most, last = self.tasks_asked
        return f"{', '.join(most)} and {last}" if most else last

    def ask_what_is_left(self, question: str) -> Draft:
        """Return the task whose answer is the money left after all of it. `question`: what is asked, without the answer's form."""
        if self.expected.purse <= 0:
            raise DeadEnd
        counted = self.plan.call("Count what is left in the purse.", "count_purse", {}, after=self.changing_calls)
        return self.draft(question, part(counted, "dollars"), self.expected.purse)

    def draft(self, question: str, answer: Any, expected: Any) -> Draft:
        draw = self.draw
        aside = f"{draw.choice(WHO)} {draw.choice(WHY).format(n=draw.integer(2, 11))}."
        return Draft(
            question=f"{aside} {question} {ANSWER_FORMAT}",
            plan=self.plan.plan(answer),
            expected=expected,
            scorer="numeric",
            world={"town": self.number},
            end_state=self.expected.state(),
        )


_template = told_by(Errands)


def _how_much_is_left(errands: Errands) -> Draft:
    """Ask for all that has been planned, and for the money that is left."""
    listed = errands.in_words()
    request = errands.draw.pick(
        f"Please {listed}. How many dollars are in the purse after that?",
        f"Do all of this, each of it once: {listed}. Then answer with the dollars that the purse still holds.",
        f"Here is the round for today: {listed}. When everything is done, what is left in the purse, in dollars?",
        f"Before noon, {listed}; nothing may be forgotten, and nothing done twice. How much money does the purse have then?",
        f"Take the purse and {listed}. Count it once all is done: how many dollars?",
    )
    return errands.ask_what_is_left(request)


@_template
def _shopping(errands: Errands) -> Draft:
    """Two to six things to buy."""
    errands.buy(errands.draw.integer(2, 6))
    return _how_much_is_left(errands)


@_template
def _bills(errands: Errands) -> Draft:
    """Two to five bills, whose amounts have to be looked up first."""
    errands.pay_bills(errands.draw.integer(2, 5))
    return _how_much_is_left(errands)


@_template
def _parcels(errands: Errands) -> Draft:
    """Two to five parcels, whose addresses have to be looked up first."""
    errands.send_parcels(errands.draw.integer(2, 5))
    return _how_much_is_left(errands)


@_template
def _jars(errands: Errands) -> Draft:
    """Money from two to six jars."""
    errands.empty_jars(errands.draw.integer(2, 6))
    return _how_much_is_left(errands)


@_template
def _books_and_shopping(errands: Errands) -> Draft:
    """One to three books to bring back, and as many things to buy."""
    for kind in errands.draw.shuffled([errands.return_books, errands.buy]):
        kind(errands.draw.integer(1, 3))
    return _how_much_is_left(errands)


@_template
def _all_sorts(errands: Errands) -> Draft:
    """Three kinds of errands, one or two of each."""
    kinds = [errands.buy, errands.return_books, errands.empty_jars, errands.pay_bills, errands.send_parcels]
    for kind in errands.draw.sample(kinds, 3):
        kind(errands.draw.integer(1, 2))
    return _how_much_is_left(errands)


@_template
def _sold_out(errands: Errands) -> Draft:
    """One of the things cannot be had, and the others are to be bought all the same."""
    errands.buy(errands.draw.integer(1, 3))
    shop, thing = errands.ask_for_what_is_sold_out()
    errands.buy(1)
    listed = errands.in_words()
    request = errands.draw.pick(
        f"Please {listed}; if something is sold out, do the rest. How many dollars does {shop} ask for one of the {thing}?",
        f"Do what can be done of this: {listed}. What is the price in dollars of a single piece of the {thing} at {shop}?",
    )
    return errands.draft(request, None, None)


TEMPLATES = (_shopping, _bills, _parcels, _jars, _books_and_shopping, _all_sorts)
UNANSWERABLE = (_sold_out,)
