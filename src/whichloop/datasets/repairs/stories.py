"""The tasks: readings to collect, parts to buy, orders to write, and what goes wrong on the way. Their wording: `wording.toml`."""

from __future__ import annotations

from collections.abc import Callable

from whichloop.protocol import Ref

from ..facts import drawn
from ..generating import Draft, part
from ..story import DeadEnd
from .plant import ALARMS_A_PAGE, HALLS, JOBS, PAGES, QUANTITIES
from .repair import Repair, Trouble

# Readings


def _readings(of: str) -> Callable[[Repair], Draft]:
    """Make a story that asks for the load index of one machine whose three sensors have these troubles."""

    def tell(s: Repair) -> Draft:
        s.name, troubles = "readings", [drawn(s, said, {}) for said in s.wording.texts["readings"][of]]
        asset, machine = s.machine()
        described, name = s.describe(asset, drops=sum(troubles[3:])), machine["name"]
        return s.task(s.index(asset, described, s.shuffled(troubles[:3])), locals())

    tell.__name__ = of
    return tell


def _two_machines(s: Repair) -> Draft:
    """Readings of two machines, each with its trouble; the one with the higher load gets a work order."""
    job, two = s.choice(JOBS), s.sample(list(s.plant.machines.items()), 2)
    described, indices = [(asset, s.describe(asset)) for asset, _ in two], dict[str, Ref]()
    for asset, ref in described:
        troubles: list[Trouble] = s.shuffled(["none", "none", s.choice(("garbage", "out of range", "moved"))])
        indices[asset] = s.index(asset, ref, troubles)
    if len(set(s.seen(list(indices.values())))) < 2:
        raise DeadEnd
    higher = max(indices, key=lambda asset: s.seen(indices[asset]))
    s.open_order(higher, higher, job, after=list(indices.values()))
    first, second = (f"the {machine['name']} ({asset})" for asset, machine in two)
    return s.task(indices[higher], locals())


# Orders


def _retired(s: Repair) -> Draft:
    """The tool that knows machines by name is retired."""
    job, (asset, machine) = s.choice(JOBS), s.machine()
    described, name = s.find(asset, machine), machine["name"]
    return s.task(s.open_order(part(described, "asset"), asset, job), locals())


def _in_doubt(s: Repair) -> Draft:
    """The line is cut while a work order is sent; in every second case it has arrived."""
    job, name_known, (asset, machine) = s.choice(JOBS), s.chance(0.5), s.machine()
    before = [s.find(asset, machine)] if name_known else [s.describe(asset)]
    number = s.open_order_in_doubt(asset, job, is_kept=s.chance(0.5), after=before)
    called = f"the {machine['name']}" if name_known else f"the machine {asset}"
    return s.task(number, locals())


def _quote(s: Repair) -> Draft:
    """Prices change between quote and purchase, once or twice."""
    quantity, (asset, machine) = s.integer(2, 9), s.machine()
    described, name = s.describe(asset, drops=s.integer(0, 1)), machine["name"]
    bought = s.buy(part(described, "part"), machine["part"], quantity, stale=s.integer(1, 2))
    return s.task(part(bought, "paid"), locals())


def _shopping_list(s: Repair) -> Draft:
    """One of three parts can be had at once, one at a new price, one only as its successor."""
    fine, dearer, gone, successor = s.sample(list(s.plant.parts), 4)
    s.trouble[f"order_part/{gone}"] = {"successor": successor}
    amounts, last = {number: s.integer(2, 9) for number in s.shuffled([fine, dearer, gone])}, list[Ref]()
    for number, quantity in amounts.items():
        if number == gone:
            failed = s.quote(number, number, quantity, fails=True)
            last = [s.buy(successor, successor, quantity, named_by=[failed], after=last)]
        else:
            last = [s.buy(number, number, quantity, stale=int(number == dearer), after=last)]
    wanted = ", ".join(f"{quantity} of {number}" for number, quantity in amounts.items())
    return s.task(part(last[0], "budget_left"), locals())


def _alarm(s: Repair) -> Draft:
    """The list of alarms changes while it is read."""
    job, hall, page, place = s.choice(JOBS), s.choice(HALLS), s.integer(1, PAGES - 1), s.integer(0, ALARMS_A_PAGE - 1)
    alarm = s.plant.alarms[hall][page * ALARMS_A_PAGE + place]
    asset, code = part(_turn_pages(s, hall, page), "alarms", place, "asset"), alarm["code"]
    return s.task(s.open_order(asset, alarm["asset"], job), locals())


def _turn_pages(s: Repair, hall: str, page: int) -> Ref:
    """Read a hall's alarms up to a page; the first cursor expires. Return that page."""
    renewed = s.new_number("K")
    s.trouble[f"list_alarms/{s.plant.cursors[hall][0]}"] = {"goes_on": renewed}
    first = s.call(f"List the alarms of hall {hall}.", "list_alarms", {"hall": hall})
    failed = s.turn_page("Turn to the next page.", hall, part(first, "next"), fails=True)
    seen = s.turn_page("Go on where the list goes on.", hall, renewed, after=[failed])
    return seen if page == 1 else s.turn_page("Turn to the last page.", hall, part(seen, "next"))


def _overhaul(s: Repair) -> Draft:
    """Everything goes wrong: a retired tool, three sensors with their troubles, a work order that may have arrived."""
    job, (asset, machine) = s.choice(JOBS), s.machine()
    described, name = s.find(asset, machine), machine["name"]
    troubles: list[Trouble] = s.shuffled(["rate limit", "moved", s.choice(("garbage", "out of range"))])
    index = s.index(asset, described, troubles)
    number = s.open_order_in_doubt(asset, job, is_kept=s.chance(0.5), after=[index])
    key, answer = s.choice((("ask_index", index), ("ask_order", number)))
    return s.task(answer, locals() | {"ask": s.say(key, {})})


# Questions without an answer


def _blind(s: Repair) -> Draft:
    """A sensor shows nonsense, and its calibrated instrument is gone."""
    job, (asset, machine) = s.choice(JOBS), s.machine()
    described, quantity = s.describe(asset), s.choice(tuple(QUANTITIES))
    s.open_order(asset, asset, job)
    s.read(asset, quantity, described, "lost")
    return s.task(None, locals())


def _list_gone(s: Repair) -> Draft:
    """The list of alarms ends before the one that is asked for."""
    job, hall, (asset, machine) = s.choice(JOBS), s.choice(HALLS), s.machine()
    alarm = s.plant.alarms[hall][s.integer(ALARMS_A_PAGE, ALARMS_A_PAGE * PAGES - 1)]
    s.trouble[f"list_alarms/{s.plant.cursors[hall][0]}"] = {"lost": True}
    s.open_order(asset, asset, job)
    first = s.call(f"List the alarms of hall {hall}.", "list_alarms", {"hall": hall})
    s.turn_page("Turn the page.", hall, part(first, "next"), fails=True)
    name, code = machine["name"], alarm["code"]
    return s.task(None, locals())


def _not_made(s: Repair) -> Draft:
    """One part is bought; the other one is not made any more, and has no price."""
    quantity, other, (number, gone) = s.integer(2, 9), s.integer(2, 9), s.sample(list(s.plant.parts), 2)
    s.trouble[f"order_part/{gone}"] = {"withdrawn": True}
    s.buy(number, number, quantity)
    s.quote(gone, gone, other, fails=True)
    return s.task(None, locals())


STORIES = (
    _readings("dropouts"), _quote, _readings("rate_limit"), _in_doubt, _readings("garbage"), _alarm,
    _overhaul, _retired, _readings("out_of_range"), _shopping_list, _readings("moved"), _two_machines,
)  # fmt: skip
UNANSWERABLE = (_blind, _list_gone, _not_made)
