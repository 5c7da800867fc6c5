"""The word problems: what is drawn for each. What is told, and which step follows from which, stands in `wording.toml`: a step is
`name = tool(arguments): what it finds`, and the last one is the answer."""

from __future__ import annotations

import math
import operator
from random import Random
from typing import Any

from .. import calculator
from .problem import NAMES, ProblemStory, WordProblem, template

# Chains


@template
def library(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("books", "records", "board games", "atlases"))
    shelves, each, new = draw.randint(6, 40), draw.randint(15, 60), draw.randint(5, 95)
    return s.solve(locals())


@template
def bakery(s: ProblemStory, draw: Random) -> WordProblem:
    name, item = draw.choice(NAMES), draw.choice(("rolls", "muffins", "pretzels", "scones", "bagels"))
    trays, each, bag = draw.randint(5, 18), draw.randint(8, 36), draw.randint(3, 9)
    burnt = trays * each % bag + bag * draw.randint(1, 2)  # the rest fills whole bags
    return s.solve(locals())


@template
def savings(s: ProblemStory, draw: Random) -> WordProblem:
    name, amount = draw.choice(NAMES), draw.randint(20, 90)
    told = [s.say("start", locals())]
    months = ("January", "February", "March", "April", "May", "June", "July", "August")[: draw.randint(4, 8)]
    box: Any = amount
    for month in months:
        some, event = draw.randint(5, 60), draw.choice(("in", "in", "out", "double", "halve"))
        amount = s.seen(box)
        if event == "halve" and amount % 2 == 0 and amount > 40:
            tool, by = "divide", 2
        elif event == "double" and amount < 200:
            tool, by = "multiply", 2
        elif event == "out" and amount > some:
            tool, by = "subtract", some
        else:
            event, tool, by = "in", "add", some
        told.append(s.say(event, locals()))
        box = s.find(f"the dollars in the box at the end of {month}", tool, box, by)
    return s.solve(locals(), box, told)


@template
def bus(s: ProblemStory, draw: Random) -> WordProblem:
    vehicle, aboard = draw.choice(("bus", "ferry", "tram", "cable car")), draw.randint(25, 60)
    places = ("Mill Lane", "Harbour Gate", "Old Market", "Castle Hill", "North Pier", "Garden Road")
    stops, told = draw.sample(places, draw.randint(2, 4)), [s.say("start", locals())]
    now: Any = aboard
    for stop in stops:
        off, on = draw.randint(2, min(20, s.seen(now) - 2)), draw.randint(2, 25)
        told.append(s.say("stop", locals()))
        now = s.find(f"the number of passengers who stay aboard at {stop}", "subtract", now, off)
        now = s.find(f"the number of passengers after {stop}", "add", now, on)
    return s.solve(locals(), now, told)


@template
def wages(s: ProblemStory, draw: Random) -> WordProblem:
    name, job = draw.choice(NAMES), draw.choice(("gardener", "courier", "tutor", "painter"))
    hours, rate = draw.randint(12, 45), draw.randint(14, 38)
    percent, bonus = draw.choice((5, 10, 15, 20, 25)), draw.randint(20, 90)
    return s.solve(locals())


@template
def novel(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("novel", "chronicle", "saga"))
    volumes, pages, minutes = draw.randint(3, 9), draw.randint(110, 390), draw.randint(2, 5)
    daily = draw.choice([number for number in range(23, 48) if volumes * pages % number])
    return s.solve(locals())


# Unit conversions


@template
def catering(s: ProblemStory, draw: Random) -> WordProblem:
    name, food = draw.choice(NAMES), draw.choice(("rice", "salmon", "beans", "potatoes"))
    guests, grams = draw.randint(12, 90), draw.randrange(110, 360, 5)
    price, delivery = draw.randint(3, 24), draw.randint(6, 30)
    return s.solve(locals())


@template
def hike(s: ProblemStory, draw: Random) -> WordProblem:
    name, pace = draw.choice(NAMES), draw.choice((40, 50, 60, 75, 80))
    first, second = draw.sample(range(11, 49), 2)  # hundreds of metres
    minutes = math.ceil((first + second) * 100 / pace) + draw.randint(4, 18)
    climb = minutes * pace - (first + second) * 100
    lake, village = calculator.divide(first, 10), calculator.divide(second, 10)
    return s.solve(locals())


@template
def factory(s: ProblemStory, draw: Random) -> WordProblem:
    item = draw.choice(("lamps", "hinges", "kettles", "toy trains"))
    hours, every, machines = draw.randint(4, 12), draw.choice((2, 3, 4, 5, 6)), draw.randint(3, 14)
    box, price = draw.choice((4, 6, 8)), draw.randint(11, 48)
    output = hours * 60 // every * machines
    faulty = output % box + box * draw.randint(1, 4)
    return s.solve(locals())


# Branches that join


@template
def orchards(s: ProblemStory, draw: Random) -> WordProblem:
    fruit, names = draw.choice(("apples", "pears", "plums", "cherries")), draw.sample(NAMES, 2)
    sizes = [(draw.randint(4, 20), draw.randint(6, 25), draw.randint(12, 45)) for _ in names]
    return s.solve(locals())


@template
def fair(s: ProblemStory, draw: Random) -> WordProblem:
    event = draw.choice(("school fair", "village concert", "charity run", "film night"))
    guests, prices, clubs = draw.sample(range(20, 140), 3), draw.sample(range(3, 16), 3), draw.randint(2, 6)
    rent = sum(map(operator.mul, guests, prices)) % clubs + clubs * draw.randint(5, 15)
    return s.solve(locals())


@template
def tank(s: ProblemStory, draw: Random) -> WordProblem:
    place, can = draw.choice(("farm", "nursery", "vineyard")), draw.choice((4, 5, 6, 8, 12))
    (fast, slow), (long, short) = draw.sample(range(9, 30), 2), draw.sample(range(15, 60), 2)
    inflow = fast * short + slow * long
    lost = inflow % can + can * draw.randint(2, 8)
    return s.solve(locals())


# Comparisons


@template
def offers(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("pens", "candles", "batteries", "postcards"))
    sizes, cents = draw.sample(range(4, 25), 2), draw.sample(range(45, 180, 5), 2)
    packs = [calculator.divide(size * cent, 100) for size, cent in zip(sizes, cents, strict=True)]
    count = draw.randint(26, 80)
    purse = -(-count * min(cents) // 100) + draw.randint(3, 40)
    at_market, at_kiosk = (f"${pack:.2f}" for pack in packs)
    return s.solve(locals())


@template
def plots(s: ProblemStory, draw: Random) -> WordProblem:
    name, crop = draw.choice(NAMES), draw.choice(("clover", "barley", "lupins", "grass"))
    (east, west), (long, short), grams = draw.sample(range(12, 40), 2), draw.sample(range(15, 60), 2), draw.randint(8, 35)
    return s.solve(locals())


@template
def relay(s: ProblemStory, draw: Random) -> WordProblem:
    names, sport = draw.sample(NAMES, 3), draw.choice(("runs", "rows", "cycles", "skates"))
    laps, lengths = draw.sample(range(6, 30), 3), draw.sample(range(150, 700, 10), 3)
    return s.solve(locals())


# A division by zero


@template
def parcels(s: ProblemStory, draw: Random) -> WordProblem:
    """In every second draw no crate is left, and the question says what then."""
    company, vans, kilos = draw.choice(("post office", "warehouse", "depot")), draw.randint(2, 7), draw.randint(3, 14)
    crates, crates_free = draw.randint(14, 30), draw.choice((0, draw.randint(2, 6)))
    broken = draw.randint(3, crates - crates_free - 3)
    lent, parcels = crates - crates_free - broken, vans * (crates_free or 1) * draw.randint(4, 9)
    whole = s.find("the number of crates that are not broken", "subtract", crates, broken)
    free = s.find("the number of crates that are free", "subtract", whole, lent)
    load = s.find("the number of parcels in each crate", "divide", parcels, free)
    if not crates_free:
        load = s.find("the number of parcels in each van", "divide", parcels, vans)
    return s.solve(locals(), s.find("the weight of one load in kilograms", "multiply", load, kilos))


# Questions without an answer


@template
def shopping(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("candles", "tiles", "lemons", "bulbs", "buttons"))
    boxes, each, price = draw.randint(3, 30), draw.randint(4, 48), draw.randint(2, 19)
    return s.solve(locals(), is_solvable=False)


@template
def party(s: ProblemStory, draw: Random) -> WordProblem:
    name, sweet = draw.choice(NAMES), draw.choice(("sweets", "balloons", "stickers", "marbles"))
    children, pieces = draw.randint(9, 30), draw.randint(40, 200)
    early = draw.randint(3, children - 3)
    late = children - early
    return s.solve(locals(), is_solvable=False)


@template
def car_park(s: ProblemStory, draw: Random) -> WordProblem:
    place, name = draw.choice(("theatre", "station", "stadium", "museum")), draw.choice(NAMES)
    gone, come, fee = draw.randint(12, 90), draw.randint(12, 90), draw.randint(2, 15)
    return s.solve(locals(), is_solvable=False)


# Ways, times, weights and areas; work and trade


@template
def frame(s: ProblemStory, draw: Random) -> WordProblem:
    name, (long, wide), edge = draw.choice(NAMES), draw.sample(range(20, 60), 2), draw.randint(3, 9)
    grams, hook = draw.randint(2, 8), draw.randint(11, 19)
    outer_long, outer_wide = long + 2 * edge, wide + 2 * edge
    return s.solve(locals())


@template
def box_volume(s: ProblemStory, draw: Random) -> WordProblem:
    place, (long, wide, deep) = draw.choice(("pond", "pool", "reservoir")), draw.sample(range(2, 12), 3)
    rate = draw.choice([n for n in range(2, 60) if long * wide * deep % n == 0])
    pause, cents = draw.randint(5, 25), draw.randint(3, 9)
    return s.solve(locals())


@template
def meeting(s: ProblemStory, draw: Random) -> WordProblem:
    names, (fast, slow), hours = draw.sample(NAMES, 2), sorted(draw.sample(range(12, 35), 2), reverse=True), draw.randint(2, 9)
    apart = (fast + slow) * hours
    return s.solve(locals())


@template
def chase(s: ProblemStory, draw: Random) -> WordProblem:
    names, slow, faster, hours = draw.sample(NAMES, 2), draw.randint(10, 30), draw.randint(3, 9), draw.randint(2, 9)
    rest = draw.randint(31, 59)
    lead, pace = faster * hours, slow + faster
    return s.solve(locals())


@template
def load_limit(s: ProblemStory, draw: Random) -> WordProblem:
    vehicle, kilos, count, tonnes = (
        draw.choice(("lorry", "barge", "lift")),
        draw.randint(20, 60),
        draw.randint(11, 40),
        draw.randint(3, 9),
    )
    crate, taken = draw.choice((5, 8, 10)), draw.randint(2, 4)
    return s.solve(locals())


@template
def bottles(s: ProblemStory, draw: Random) -> WordProblem:
    name, litres, size = draw.choice(NAMES), draw.randint(3, 40), draw.choice((125, 200, 250, 500))
    free_bottles, price, cost = draw.randint(3, 5), draw.randint(3, 9), draw.randint(41, 69)
    return s.solve(locals())


@template
def two_clocks(s: ProblemStory, draw: Random) -> WordProblem:
    name, hours, minutes, films = draw.choice(NAMES), draw.randint(4, 12), draw.randint(11, 20), draw.randint(3, 9)
    talks, pause = draw.choice((2, 4, 5)), draw.randint(21, 29)
    return s.solve(locals())


@template
def slower_clock(s: ProblemStory, draw: Random) -> WordProblem:
    place, seconds, weeks = draw.choice(("tower", "station", "school")), draw.choice((20, 30, 40, 60)), draw.randint(3, 12)
    extra = draw.randint(2, 6)
    return s.solve(locals())


@template
def scale_model(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing, length = draw.choice(NAMES), draw.choice(("bridge", "ship", "train")), draw.randint(12, 95)
    ratio, base, copies = draw.choice((20, 25, 50)), draw.randint(11, 18), draw.randint(3, 9)
    return s.solve(locals())


@template
def fence(s: ProblemStory, draw: Random) -> WordProblem:
    name, (long, wide), gate, price = draw.choice(NAMES), draw.sample(range(20, 70), 2), draw.randint(3, 9), draw.randint(11, 19)
    return s.solve(locals())


@template
def three_jars(s: ProblemStory, draw: Random) -> WordProblem:
    name, (x, y, z) = draw.choice(NAMES), draw.sample(range(11, 99), 3)
    cents, percent = draw.randint(3, 9), draw.choice((5, 10, 20))
    return s.solve(locals())


@template
def night_share(s: ProblemStory, draw: Random) -> WordProblem:
    lodge, guests, nights, each = (
        draw.choice(("hut", "hostel", "houseboat")),
        draw.randint(3, 9),
        draw.randint(4, 9),
        draw.randint(11, 40),
    )
    bill, meals, tip = guests * each, draw.randint(41, 70), draw.choice((5, 10, 20))
    return s.solve(locals())


@template
def discount(s: ProblemStory, draw: Random) -> WordProblem:
    name, item, price, count = (
        draw.choice(NAMES),
        draw.choice(("chairs", "lamps", "rugs")),
        draw.randint(20, 90),
        draw.randint(3, 15),
    )
    percent, delivery, voucher = draw.choice((5, 10, 15, 20, 30)), draw.randint(21, 48), draw.randint(3, 19)
    return s.solve(locals())


@template
def two_percentages(s: ProblemStory, draw: Random) -> WordProblem:
    town, people = draw.choice(("Arlen", "Brigg", "Cove", "Dunmore")), draw.randrange(2000, 9000, 1000)
    grown, first, moved = draw.choice((5, 10, 20, 25)), draw.choice((20, 30, 40)), draw.randint(11, 70)
    return s.solve(locals())


@template
def leftover_ribbon(s: ProblemStory, draw: Random) -> WordProblem:
    name, metres, piece = draw.choice(NAMES), draw.randint(3, 19), draw.choice((14, 17, 23, 26, 35))
    pieces, price = metres * 100 // piece, draw.randint(36, 95)
    cost = draw.randint(11, 34) * pieces
    return s.solve(locals())


@template
def wasted_board(s: ProblemStory, draw: Random) -> WordProblem:
    name, boards, length, piece = draw.choice(NAMES), draw.randint(3, 18), draw.randint(210, 390), draw.randint(41, 79)
    warped = draw.randint(3, 5)
    return s.solve(locals())


@template
def capped_fee(s: ProblemStory, draw: Random) -> WordProblem:
    name, days, rate = draw.choice(NAMES), draw.randint(3, 20), draw.randint(6, 19)
    cap, cleaning, trips, voucher = draw.randint(60, 200), draw.randint(20, 55), draw.randint(2, 6), draw.randint(11, 19)
    return s.solve(locals())


@template
def least_charge(s: ProblemStory, draw: Random) -> WordProblem:
    name, words, cents, least = draw.choice(NAMES), draw.randint(20, 90), draw.choice((4, 5, 8, 10)), draw.randint(180, 600)
    weeks, percent = draw.randint(2, 6), draw.choice((5, 10, 20))
    return s.solve(locals())


@template
def mean_of_three(s: ProblemStory, draw: Random) -> WordProblem:
    names, (x, y) = draw.sample(NAMES, 3), draw.sample(range(20, 90), 2)
    z = draw.choice([number for number in range(20, 90) if (x + y + number) % 3 == 0 and number not in (x, y)])
    return s.solve(locals())


@template
def missing_mark(s: ProblemStory, draw: Random) -> WordProblem:
    name, tests, mean = draw.choice(NAMES), draw.randint(4, 9), draw.randint(50, 90)
    earlier_points, extra = draw.randint((tests - 1) * (mean - 9), (tests - 1) * mean), draw.randint(3, 9)
    return s.solve(locals())


@template
def reversed_price(s: ProblemStory, draw: Random) -> WordProblem:
    name, count, price, dollars_left = draw.choice(NAMES), draw.randint(3, 14), draw.randint(4, 25), draw.randint(105, 190)
    snack, group = draw.randint(26, 45), draw.randint(15, 40)
    purse = dollars_left + count * price + snack
    return s.solve(locals())


@template
def profit(s: ProblemStory, draw: Random) -> WordProblem:
    name, thing, count = draw.choice(NAMES), draw.choice(("mugs", "scarves", "kites")), draw.randint(20, 80)
    cost, price = draw.randint(3, 6), draw.randint(12, 25)
    unsold, percent, weeks = draw.randint(3, 9), draw.choice((10, 20, 30)), draw.randint(4, 12)
    return s.solve(locals())


@template
def unequal_shares(s: ProblemStory, draw: Random) -> WordProblem:
    names, each, gap = draw.sample(NAMES, 2), draw.randint(20, 90), draw.randint(3, 19)
    total = 2 * each + gap
    return s.solve(locals())


@template
def machine_pair(s: ProblemStory, draw: Random) -> WordProblem:
    fast, slow = draw.sample(range(11, 40), 2)
    minutes, thing = draw.randint(8, 45), draw.choice(("labels", "caps", "bolts"))
    cents = draw.randint(46, 90)
    ordered = (fast + slow) * minutes
    return s.solve(locals())
