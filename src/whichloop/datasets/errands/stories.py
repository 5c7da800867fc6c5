"""The tasks: rounds of two to six errands that need nothing of each other, and one count after all of them."""

from __future__ import annotations

from whichloop.datasets.generating import Draft, told_by

from .errand import Errands

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
