"""The town: shops, people, bills, a library, jars of coins and a purse, and the tools over them.

Every write takes effect once more each time that it is called, and its result depends on its arguments alone: calls that need
nothing of each other may run in any order, and only how often each of them ran shows in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from whichloop.datasets.generating import Draw, distinct
from whichloop.datasets.task import InvalidRequest, Toolset, UnknownName

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
