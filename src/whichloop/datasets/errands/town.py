"""The town: shops, people, bills, a library, jars of coins and a purse, and the tools over them.

Every write takes effect once more each time that it is called, and its result depends on its arguments alone: calls that need
nothing of each other may run in any order, and only how often each of them ran shows in the end.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from whichloop.datasets.generating import Draw, distinct
from whichloop.datasets.task import InvalidRequest, Toolset, UnknownName, look_up

from ..story import Wording

WORDING = Wording(__file__)
POSTAGE, PER_KILOGRAM = 3, 2


class SoldOut(LookupError):
    """A shop has nothing left of what it is asked for."""


class Town:
    """One trial's town, the same for the same number; all money is in whole dollars."""

    def __init__(self, number: int) -> None:
        draw, texts = Draw("errands/town", number), WORDING.texts
        goods = draw.shuffled(texts["goods"])
        self.shops = {
            shop: {thing: draw.integer(2, 29) for thing in goods[6 * place : 6 * place + 6]}
            for place, shop in enumerate(draw.sample(texts["shops"], 7))
        }
        """Shop → price of each thing that it sells."""
        houses = distinct(10, lambda: f"{draw.integer(1, 99)} {draw.choice(texts['streets'])}")
        self.addresses: dict[str, str] = dict(zip(draw.sample(texts["people"], len(houses)), houses, strict=True))
        bills = distinct(8, lambda: f"B{draw.integer(1_000, 9_999)}")
        self.bills = {bill: {"payee": draw.choice(texts["payees"]), "amount": draw.integer(12, 160)} for bill in bills}
        self.fines: dict[str, int] = {title: draw.integer(1, 9) for title in draw.sample(texts["titles"], 8)}
        """Title of a borrowed book → what its return costs."""
        self.jars: dict[str, int] = {jar: draw.integer(60, 300) for jar in texts["jars"]}
        self.purse = draw.integer(2_000, 9_000)
        self.purchases: list[list[str | int]] = []
        """Shop, thing, quantity."""
        self.parcels: list[list[str | int]] = []
        """Address, kilograms."""
        self.payments: list[list[str | int]] = []
        """Number of the bill, dollars."""
        self.returned: list[str] = []
        """Titles."""

    def state(self) -> dict[str, Any]:
        """Return what has been done, and the money that is left."""
        done = {name: sorted(getattr(self, name)) for name in ("purchases", "parcels", "payments", "returned")}
        return {**done, "jars": self.jars, "purse": self.purse}


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
    town.purchases.append([shop, thing, quantity])
    return {"shop": shop, "thing": thing, "quantity": quantity, "paid": paid}


def find_address(town: Town, person: str) -> dict[str, Any]:
    """Look up where a person lives."""
    return {"person": person, "address": look_up(town.addresses, person, f"Nobody in town is called {person!r}.")}


def send_parcel(
    town: Town, address: str, kilograms: Annotated[int, Field(ge=1, le=30, description="Weight of the parcel.")]
) -> dict[str, Any]:
    """Send a parcel to an address, and pay the postage from the purse. Each call sends one more."""
    if address not in town.addresses.values():
        raise UnknownName(f"There is no house at {address!r}.")
    postage = POSTAGE + PER_KILOGRAM * kilograms
    town.purse -= postage
    town.parcels.append([address, kilograms])
    return {"address": address, "kilograms": kilograms, "postage": postage}


def look_up_bill(town: Town, bill: Bill) -> dict[str, Any]:
    """Look up whom a bill is from, and what it comes to."""
    return {"bill": bill, **look_up(town.bills, bill, f"There is no bill {bill}.")}


def pay_bill(town: Town, bill: Bill, amount: Dollars) -> dict[str, Any]:
    """Pay a bill from the purse. Each call pays once more."""
    if amount != look_up_bill(town, bill)["amount"]:
        raise InvalidRequest(f"Bill {bill} does not come to {amount} dollars.")
    town.purse -= amount
    town.payments.append([bill, amount])
    return {"bill": bill, "paid": amount}


def return_book(town: Town, title: str) -> dict[str, Any]:
    """Bring a book back to the library, and pay its fine from the purse. Each call pays once more."""
    fine = look_up(town.fines, title, f"The library has lent no book called {title!r}.")
    town.purse -= fine
    town.returned.append(title)
    return {"title": title, "fine": fine}


def empty_into_purse(town: Town, jar: str, dollars: Dollars) -> dict[str, Any]:
    """Take money out of a jar, and put it into the purse. Each call takes once more."""
    town.jars[jar] = look_up(town.jars, jar, f"There is no jar called {jar!r}.") - dollars
    town.purse += dollars
    return {"jar": jar, "taken": dollars}


def count_purse(town: Town) -> dict[str, Any]:
    """Count the money in the purse, in dollars."""
    return {"dollars": town.purse}


def _price(town: Town, shop: str, thing: str) -> int:
    prices = look_up(town.shops, shop, f"There is no shop called {shop!r}.")
    problem = f"{shop.capitalize()} has no {thing} any more, and does not know what they will cost."
    return look_up(prices, thing, problem, SoldOut)


TOOLS: Toolset[Town] = Toolset(
    check_price, buy, find_address, send_parcel, look_up_bill, pay_bill, return_book, empty_into_purse, count_purse,
    writes=(buy, send_parcel, pay_bill, return_book, empty_into_purse),
)  # fmt: skip
DISTRACTORS = frozenset({"check_price"})
