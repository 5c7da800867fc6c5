"""The tasks: readings to collect, parts to buy, orders to write, and what goes wrong on the way.

Where an argument stands in an error's text alone, the plan holds it as a literal, after the call that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.datasets.generating import DeadEnd, Draft, part, told_by
from whichloop.protocol import Ref

from .plant import ALARMS_A_PAGE, HALLS, JOBS, PAGES, QUANTITIES
from .repair import RULES, Repair, Trouble

_template = told_by(Repair)


# Readings


def _readings(repair: Repair, troubles: Sequence[Trouble], drops: int = 0) -> Draft:
    """Ask for the load index of one machine whose three sensors have these troubles, in any order."""
    draw = repair.draw
    ((asset, machine),) = repair.machines(1)
    described = repair.describe(asset, drops=drops)
    shuffled = draw.shuffled(troubles)
    values = [repair.read(asset, quantity, described, trouble) for quantity, trouble in zip(QUANTITIES, shuffled, strict=True)]
    name = machine["name"]
    request = draw.pick(
        f"What is the load index of the {name} (asset {asset}) now, from its temperature, pressure and vibration?",
        f"Work out how loaded asset {asset}, the {name}, is at present: its load index, from its three sensors.",
        f"The {name}, asset {asset}, may run too hard. Collect its readings and answer with its load index.",
        f"We need the present load index of {asset}. The sensors of the {name} have their moods: see that each reading holds.",
        f"Before the {name} ({asset}) is switched up, take all three of its readings. What load index do they make?",
    )
    return repair.draft(f"{request} {draw.choice(RULES)}", repair.index(asset, values), repair.true_index(asset))


@_template
def _dropouts(repair: Repair) -> Draft:
    """Lines drop once or twice and then hold."""
    return _readings(repair, ("drops once", "drops twice", "none"), drops=repair.draw.integer(0, 1))


@_template
def _rate_limit(repair: Repair) -> Draft:
    """One or two sensors are read too often: a ticket, a wait, a permit."""
    return _readings(repair, ("rate limit", "none", repair.draw.choice(("none", "rate limit"))))


@_template
def _garbage(repair: Repair) -> Draft:
    """A sensor shows something other than a number."""
    return _readings(repair, ("garbage", "none", repair.draw.choice(("none", "drops once", "out of range"))))


@_template
def _out_of_range(repair: Repair) -> Draft:
    """A sensor shows a number that it cannot measure."""
    return _readings(repair, ("out of range", "out of range", repair.draw.choice(("none", "garbage"))))


@_template
def _moved(repair: Repair) -> Draft:
    """A sensor's place has another one now, or had another one for a while."""
    draw = repair.draw
    return _readings(repair, (draw.choice(("moved", "moved twice")), "none", draw.choice(("none", "moved", "drops once"))))


@_template
def _two_machines(repair: Repair) -> Draft:
    """Readings of two machines, each with its trouble; the one with the higher load gets a work order."""
    draw, job = repair.draw, repair.draw.choice(JOBS)
    two = repair.machines(2)
    machines = [(asset, repair.describe(asset)) for asset, _ in two]
    indices = {}
    for asset, described in machines:
        troubles: list[Trouble] = draw.shuffled(["none", "none", draw.choice(("garbage", "out of range", "moved"))])
        values = [repair.read(asset, quantity, described, trouble) for quantity, trouble in zip(QUANTITIES, troubles, strict=True)]
        indices[asset] = repair.index(asset, values)
    higher, lower = sorted((asset for asset, _ in two), key=repair.true_index, reverse=True)
    if repair.true_index(higher) == repair.true_index(lower):
        raise DeadEnd
    repair.open_order(higher, higher, job, after=list(indices.values()))
    first, second = (f"the {machine['name']} ({asset})" for asset, machine in two)
    request = draw.pick(
        f"Of {first} and {second} the one with the higher load index is to be seen to: open a work order to {job} it. What is "
        "that load index?",
        f"Compare the load indices of {first} and {second}. Put the machine where it is higher down for a work order, "
        f'"{job}", and answer with its index.',
    )
    return repair.draft(f"{request} {draw.choice(RULES)}", indices[higher], repair.true_index(higher))


# Orders


@_template
def _retired(repair: Repair) -> Draft:
    """The tool that knows machines by name is retired."""
    draw, job = repair.draw, repair.draw.choice(JOBS)
    ((asset, machine),) = repair.machines(1)
    described = repair.find(asset, machine)
    number = repair.open_order(part(described, "asset"), asset, job)
    name = machine["name"]
    request = draw.pick(
        f"Open a work order to {job} the {name}. Which number does it get?",
        f'The {name} needs attention: put it down for "{job}" and answer with the number of the work order.',
        f"Please have somebody {job} the {name}. I want the number of that work order, and no second one.",
    )
    return repair.draft(request, number, repair.orders[-1][0], "normalized")


@_template
def _in_doubt(repair: Repair) -> Draft:
    """The line is cut while a work order is sent; in every second case it has arrived."""
    draw = repair.draw
    job, name_known = draw.choice(JOBS), draw.chance(0.5)
    ((asset, machine),) = repair.machines(1)
    before = [repair.find(asset, machine)] if name_known else [repair.describe(asset)]
    number = repair.open_order_in_doubt(asset, job, is_kept=draw.chance(0.5), after=before)
    called = f"the {machine['name']}" if name_known else f"the machine {asset}"
    request = draw.pick(
        f'Look up {called} and see that there is one new work order "{job}" for it, and not two. What is its number?',
        f"Check that {called} is what it should be, then open exactly one work order to {job} it, and answer with its number.",
        f'After looking at its description, book "{job}" for {called}. The lines are bad today, and a double order is as '
        "bad as none. Which number does the new order have?",
    )
    return repair.draft(request, number, repair.orders[-1][0], "normalized")


@_template
def _quote(repair: Repair) -> Draft:
    """Prices change between quote and purchase, once or twice."""
    draw, quantity = repair.draw, repair.draw.integer(2, 9)
    ((asset, machine),) = repair.machines(1)
    described = repair.describe(asset, drops=draw.integer(0, 1))
    bought = repair.buy(part(described, "part"), machine["part"], quantity, stale=draw.integer(1, 2))
    name = machine["name"]
    request = draw.pick(
        f"Buy {quantity} spare parts for the {name}, asset {asset}, at whatever they cost by now. How many dollars is that?",
        f"The store is out of the spare part of {asset}, the {name}. Order {quantity} of it at the price of the day; what has "
        "been paid for them?",
        f"Get {quantity} pieces of the part that the {name} ({asset}) takes. Answer with the dollars paid in the end.",
    )
    return repair.draft(request, part(bought, "paid"), repair.purchases[-1][2])


@_template
def _shopping_list(repair: Repair) -> Draft:
    """One of three parts can be had at once, one at a new price, one only as its successor."""
    draw = repair.draw
    fine, dearer, gone, successor = draw.sample(list(repair.plant.parts), 4)
    repair.trouble[f"order_part/{gone}"] = {"successor": successor}
    amounts = {number: draw.integer(2, 9) for number in draw.shuffled([fine, dearer, gone])}
    last: list[Ref] = []
    for number, quantity in amounts.items():
        if number == gone:
            goal = f"Ask what {number} would cost."
            failed = repair.plan.call(goal, "order_part", {"part": number, "quantity": quantity}, fails=True)
            last = [repair.buy(successor, successor, quantity, named_by=[failed], after=last)]
        else:
            last = [repair.buy(number, number, quantity, stale=int(number == dearer), after=last)]
    wanted = ", ".join(f"{quantity} of {number}" for number, quantity in amounts.items())
    request = draw.pick(
        f"Buy these parts at today's prices: {wanted}. Where a part is no longer made, take what replaces it. How many dollars "
        "of the budget are left?",
        f"For the overhaul we need {wanted}, or their successors. Order all three and answer with what remains of the budget.",
    )
    return repair.draft(request, part(last[0], "budget_left"), repair.plant.budget - sum(paid for _, _, paid in repair.purchases))


@_template
def _alarm(repair: Repair) -> Draft:
    """The list of alarms changes while it is read."""
    draw = repair.draw
    job, hall = draw.choice(JOBS), draw.choice(HALLS)
    page = draw.integer(1, PAGES - 1)
    alarm = repair.plant.alarms[hall][page * ALARMS_A_PAGE + (place := draw.integer(0, ALARMS_A_PAGE - 1))]
    seen = _turn_pages(repair, hall, page)
    asset = part(seen, "alarms", place, "asset")
    number, code = repair.open_order(asset, alarm["asset"], job), alarm["code"]
    request = draw.pick(
        f'Alarm {code} of hall {hall}: open a work order "{job}" for the machine that raised it, and answer with its number.',
        f'Somewhere in the alarms of hall {hall} is {code}. Put the machine behind it down for "{job}". What is the number '
        "of that work order?",
        f"Who raised {code} in hall {hall}? That machine gets a work order to {job} it; the order's number is the answer.",
    )
    return repair.draft(request, number, repair.orders[-1][0], "normalized")


def _turn_pages(repair: Repair, hall: str, page: int) -> Ref:
    """Read a hall's alarms up to a page; the first cursor expires. Return that page."""
    cursors, renewed = repair.plant.cursors[hall], repair.new_number("K")
    repair.trouble[f"list_alarms/{cursors[0]}"] = {"goes_on": renewed}
    first = repair.plan.call(f"List the alarms of hall {hall}.", "list_alarms", {"hall": hall})
    arguments = {"hall": hall, "cursor": part(first, "next")}
    failed = repair.plan.call("Turn to the next page.", "list_alarms", arguments, fails=True)
    seen = repair.plan.call("Go on where the list goes on.", "list_alarms", {"hall": hall, "cursor": renewed}, after=[failed])
    if page == 1:
        return seen
    return repair.plan.call("Turn to the last page.", "list_alarms", {"hall": hall, "cursor": part(seen, "next")})


@_template
def _overhaul(repair: Repair) -> Draft:
    """Everything goes wrong: a retired tool, three sensors with their troubles, a work order that may have arrived."""
    draw, job = repair.draw, repair.draw.choice(JOBS)
    ((asset, machine),) = repair.machines(1)
    described = repair.find(asset, machine)
    troubles: list[Trouble] = draw.shuffled(["rate limit", "moved", draw.choice(("garbage", "out of range"))])
    values = [repair.read(asset, quantity, described, trouble) for quantity, trouble in zip(QUANTITIES, troubles, strict=True)]
    index = repair.index(asset, values)
    number = repair.open_order_in_doubt(asset, job, is_kept=draw.chance(0.5), after=[index])
    name = machine["name"]
    ask, answer, expected, scorer = draw.pick(
        ("Answer with the load index.", index, repair.true_index(asset), "numeric"),
        ("Answer with the number of the work order.", number, repair.orders[-1][0], "normalized"),
    )
    request = draw.pick(
        f"First find out the load index of the {name}, then open one work order to {job} it, exactly one.",
        f'The {name} is due: take its load index, and when that is done put it down once for "{job}".',
    )
    return repair.draft(f"{request} {ask} {draw.choice(RULES)}", answer, expected, scorer)


# Questions without an answer


@_template
def _blind(repair: Repair) -> Draft:
    """A sensor shows nonsense, and its calibrated instrument is gone."""
    draw, job = repair.draw, repair.draw.choice(JOBS)
    ((asset, machine),) = repair.machines(1)
    described, quantity = repair.describe(asset), draw.choice(tuple(QUANTITIES))
    repair.open_order(asset, asset, job)
    repair.read(asset, quantity, described, "lost")
    request = draw.pick(
        f"Put {asset}, the {machine['name']}, down for a work order to {job} it in any case. What is its {quantity}?",
        f'Whatever its {quantity}, the {machine["name"]} ({asset}) gets one work order, "{job}". How high is that {quantity}?',
    )
    return repair.draft(f"{request} {draw.choice(RULES)}", None, None)


@_template
def _list_gone(repair: Repair) -> Draft:
    """The list of alarms ends before the one that is asked for."""
    draw = repair.draw
    job, hall = draw.choice(JOBS), draw.choice(HALLS)
    ((asset, machine),) = repair.machines(1)
    alarm = repair.plant.alarms[hall][draw.integer(ALARMS_A_PAGE, ALARMS_A_PAGE * PAGES - 1)]
    repair.trouble[f"list_alarms/{repair.plant.cursors[hall][0]}"] = {"lost": True}
    repair.open_order(asset, asset, job)
    first = repair.plan.call(f"List the alarms of hall {hall}.", "list_alarms", {"hall": hall})
    name, code = machine["name"], alarm["code"]
    repair.plan.call("Turn the page.", "list_alarms", {"hall": hall, "cursor": part(first, "next")}, fails=True)
    request = draw.pick(
        f'Book "{job}" for the {name} ({asset}), once. Apart from that: which asset has raised {code} in hall {hall}?',
        f"Which asset number stands beside {code} among the alarms of hall {hall}? Besides, the {name} ({asset}) needs a work "
        f"order to {job} it; open it.",
    )
    return repair.draft(request, None, None)


@_template
def _not_made(repair: Repair) -> Draft:
    """One part is bought; the other one is not made any more, and has no price."""
    draw = repair.draw
    quantity, other = draw.integer(2, 9), draw.integer(2, 9)
    number, gone = draw.sample(list(repair.plant.parts), 2)
    repair.trouble[f"order_part/{gone}"] = {"withdrawn": True}
    repair.buy(number, number, quantity)
    repair.plan.call(f"Ask what {gone} would cost.", "order_part", {"part": gone, "quantity": other}, fails=True)
    request = draw.pick(
        f"Buy {quantity} of part {number}. And what would {other} of {gone} cost? Do not buy those.",
        f"Order {quantity} pieces of {number} now. The answer that I need is another one: the price of {other} pieces of "
        f"{gone}, which are not to be ordered yet.",
    )
    return repair.draft(request, None, None)


TEMPLATES = (
    _dropouts, _quote, _rate_limit, _in_doubt, _garbage, _alarm,
    _overhaul, _retired, _out_of_range, _shopping_list, _moved, _two_machines,
)  # fmt: skip


UNANSWERABLE = (_blind, _list_gone, _not_made)
