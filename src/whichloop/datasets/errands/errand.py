"""A round of errands: a drawn town, the plan of what is done there, and the same steps kept by hand; and the tasks made of such
rounds.

The town: shops, people, bills, a library, jars of coins and a purse, and the tools over them.

Every write takes effect once more each time that it is called, and its result depends on its arguments alone: calls that need
nothing of each other may run in any order, and only how often each of them ran shows in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, distinct, part, told_by
from whichloop.datasets.task import InvalidRequest, Toolset, UnknownName
from whichloop.protocol import Ref

SHOPS = (
    "the bakery", "the chemist", "the florist", "the grocer", "the ironmonger", "the bookshop", "the tailor", "the toy shop",
    "the dairy", "the stationer",
)  # fmt: skip
GOODS = (
    "almond cakes", "bath towels", "blue candles", "brass hooks", "coffee beans", "corn flour", "cough drops", "cotton socks",
    "darning needles", "egg cups", "fountain pens", "garden gloves", "glass beads", "hand soap", "herbal tea", "honey jars",
    "ink bottles", "jam tarts", "kite strings", "lamp wicks", "lemon drops", "marbles", "mixed nuts", "note books", "olive oil",
    "oven cloths", "paint brushes", "paper bags", "pine cones", "plum jam", "razor blades", "rubber balls", "rye loaves",
    "sealing wax", "sewing thread", "shoe laces", "silk ribbons", "star maps", "tin whistles", "tulip bulbs", "wall nails",
    "wax crayons", "white chalk", "wool yarn",
)  # fmt: skip
PEOPLE = (
    "Ada Brandt", "Boris Lunt", "Carmen Oyelaran", "Dario Weiss", "Edda Marsh", "Femi Castell", "Greta Novak", "Hugo Tamm",
    "Ines Okafor", "Jonas Reed", "Kira Holm", "Leo Santos", "Mara Quist", "Nils Amadi", "Olga Petit", "Pavel Stone",
)  # fmt: skip
STREETS = ("Alder Lane", "Bridge Street", "Castle Row", "Dock Road", "East Gate", "Fair Hill", "Green Walk", "High Street")
PAYEES = ("the water board", "the gasworks", "the dentist", "the tram company", "the chimney sweep", "the music school")
TITLES = (
    "A Winter in Oran", "Beetles of the North", "Cooking for One", "Deep Water", "Eleven Bridges", "Far from the Mill",
    "Grammar for Sailors", "How Clocks Work", "Islands of Salt", "Journeys by Night", "Knots", "Letters to a Gardener",
)  # fmt: skip
JARS = ("the blue jar", "the cracked jar", "the green jar", "the kitchen jar", "the tall jar", "the tin jar")


class SoldOut(LookupError):
    """A shop has nothing left of what it is asked for."""


@dataclass(slots=True)
class Town:
    """One trial's town; all money is in whole dollars."""

    shops: dict[str, dict[str, int]] = field(default_factory=dict)
    """Shop → price of each thing that it sells."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Person → address."""
    bills: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Number → payee and amount."""
    fines: dict[str, int] = field(default_factory=dict)
    """Title of a borrowed book → what its return costs."""
    jars: dict[str, int] = field(default_factory=dict)
    """Jar → dollars in it."""
    purse: int = 0
    purchases: list[tuple[str, str, int]] = field(default_factory=list)
    """Shop, thing, quantity."""
    parcels: list[tuple[str, int]] = field(default_factory=list)
    """Address, kilograms."""
    payments: list[tuple[str, int]] = field(default_factory=list)
    """Number of the bill, dollars."""
    returned: list[str] = field(default_factory=list)
    """Titles."""

    def state(self) -> dict[str, Any]:
        """Return what has been done, and the money that is left."""
        return {
            "purchases": sorted(map(list, self.purchases)),
            "parcels": sorted(map(list, self.parcels)),
            "payments": sorted(map(list, self.payments)),
            "returned": sorted(self.returned),
            "jars": self.jars,
            "purse": self.purse,
        }


def draw_town(number: int) -> Town:
    """Draw a town; the same for the same number."""
    draw, town = Draw("errands/town", number), Town()
    goods = draw.shuffled(GOODS)
    for place, shop in enumerate(draw.sample(SHOPS, 7)):
        town.shops[shop] = {thing: draw.integer(2, 29) for thing in goods[6 * place : 6 * place + 6]}
    houses = distinct(10, lambda: f"{draw.integer(1, 99)} {draw.choice(STREETS)}")
    town.addresses = dict(zip(draw.sample(PEOPLE, len(houses)), houses, strict=True))
    for bill in distinct(8, lambda: f"B{draw.integer(1_000, 9_999)}"):
        town.bills[bill] = {"payee": draw.choice(PAYEES), "amount": draw.integer(12, 160)}
    town.fines = {title: draw.integer(1, 9) for title in draw.sample(TITLES, 8)}
    town.jars = {jar: draw.integer(60, 300) for jar in JARS}
    town.purse = draw.integer(2_000, 9_000)
    return town


# Tools

Shop = Annotated[str, Field(description='A shop of the town, such as "the bakery".')]
Thing = Annotated[str, Field(description="What the shop sells, as the question names it.")]
Quantity = Annotated[int, Field(ge=1, le=99, description="How many pieces.")]
Bill = Annotated[str, Field(description="Number of a bill, such as B1234.")]
Dollars = Annotated[int, Field(ge=1, le=10_000, description="Whole dollars.")]


def check_price(town: Town, shop: Shop, thing: Thing) -> dict[str, Any]:
    """Look at the price of a thing in a shop, without buying it."""
    return {"shop": shop, "thing": thing, "price": _price(town, shop, thing)}


def buy(town: Town, shop: Shop, thing: Thing, quantity: Quantity) -> dict[str, Any]:
    """Buy something, and pay for it from the purse. Each call buys once more."""
    paid = _price(town, shop, thing) * quantity
    town.purse -= paid
    town.purchases.append((shop, thing, quantity))
    return {"shop": shop, "thing": thing, "quantity": quantity, "paid": paid}


def find_address(town: Town, person: str) -> dict[str, Any]:
    """Look up where a person lives."""
    if person not in town.addresses:
        raise UnknownName(f"Nobody in town is called {person!r}.")
    return {"person": person, "address": town.addresses[person]}


def send_parcel(
    town: Town, address: str, kilograms: Annotated[int, Field(ge=1, le=30, description="Weight of the parcel.")]
) -> dict[str, Any]:
    """Send a parcel to an address, and pay the postage from the purse. Each call sends one more."""
    if address not in town.addresses.values():
        raise UnknownName(f"There is no house at {address!r}.")
    postage = POSTAGE + PER_KILOGRAM * kilograms
    town.purse -= postage
    town.parcels.append((address, kilograms))
    return {"address": address, "kilograms": kilograms, "postage": postage}


def look_up_bill(town: Town, bill: Bill) -> dict[str, Any]:
    """Look up whom a bill is from, and what it comes to."""
    if bill not in town.bills:
        raise UnknownName(f"There is no bill {bill}.")
    return {"bill": bill, **town.bills[bill]}


def pay_bill(town: Town, bill: Bill, amount: Dollars) -> dict[str, Any]:
    """Pay a bill from the purse. Each call pays once more."""
    if bill not in town.bills:
        raise UnknownName(f"There is no bill {bill}.")
    if amount != town.bills[bill]["amount"]:
        raise InvalidRequest(f"Bill {bill} does not come to {amount} dollars.")
    town.purse -= amount
    town.payments.append((bill, amount))
    return {"bill": bill, "paid": amount}


def return_book(town: Town, title: str) -> dict[str, Any]:
    """Bring a book back to the library, and pay its fine from the purse. Each call pays once more."""
    if title not in town.fines:
        raise UnknownName(f"The library has lent no book called {title!r}.")
    town.purse -= town.fines[title]
    town.returned.append(title)
    return {"title": title, "fine": town.fines[title]}


def empty_into_purse(town: Town, jar: str, dollars: Dollars) -> dict[str, Any]:
    """Take money out of a jar, and put it into the purse. Each call takes once more."""
    if jar not in town.jars:
        raise UnknownName(f"There is no jar called {jar!r}.")
    town.jars[jar] -= dollars
    town.purse += dollars
    return {"jar": jar, "taken": dollars}


def count_purse(town: Town) -> dict[str, Any]:
    """Count the money in the purse, in dollars."""
    return {"dollars": town.purse}


def _price(town: Town, shop: str, thing: str) -> int:
    if shop not in town.shops:
        raise UnknownName(f"There is no shop called {shop!r}.")
    if thing not in town.shops[shop]:
        raise SoldOut(f"{shop.capitalize()} has no {thing} any more, and does not know what they will cost.")
    return town.shops[shop][thing]


POSTAGE, PER_KILOGRAM = 3, 2
TOOLS: Toolset[Town] = Toolset(
    check_price,
    buy,
    find_address,
    send_parcel,
    look_up_bill,
    pay_bill,
    return_book,
    empty_into_purse,
    count_purse,
    writes=(buy, send_parcel, pay_bill, return_book, empty_into_purse),
)
DISTRACTORS = frozenset({"check_price"})


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
