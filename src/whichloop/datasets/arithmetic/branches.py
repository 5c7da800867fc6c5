"""Stories of branches that join, of comparisons, of a division by zero, and stories without an answer."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from ..generating import plain_number
from .chains import NAMES, Steps, WordProblem, price_text

# Branches that join


def orchards(draw: random.Random, steps: Steps) -> WordProblem:
    fruit, names = draw.choice(("apples", "pears", "plums", "cherries")), draw.sample(NAMES, 2)
    sizes = [(draw.randint(4, 20), draw.randint(6, 25), draw.randint(12, 45)) for _ in names]
    picked = []
    for name, (rows, trees, crop) in zip(names, sizes, strict=True):
        planted = steps.call(f"the number of trees of {name}", "multiply", a=rows, b=trees)
        picked.append(steps.call(f"the kilograms of {fruit} from {name}", "multiply", a=planted, b=crop))
    total = steps.call(f"the kilograms of {fruit} from both", "add", a=picked[0], b=picked[1])
    sentences = tuple(
        f"{name} has {rows} rows of {trees} trees, and each tree gives {crop} kg of {fruit}."
        for name, (rows, trees, crop) in zip(names, sizes, strict=True)
    )
    question = f"How many kilograms of {fruit} do {names[0]} and {names[1]} harvest together?"
    return WordProblem(sentences, question, total, sum(math.prod(size) for size in sizes))


def fair(draw: random.Random, steps: Steps) -> WordProblem:
    event = draw.choice(("school fair", "village concert", "charity run", "film night"))
    groups = ("adults", "children", "pensioners")
    guests, prices, clubs = draw.sample(range(20, 140), 3), draw.sample(range(3, 16), 3), draw.randint(2, 6)
    income = sum(count * price for count, price in zip(guests, prices, strict=True))
    rent = income % clubs + clubs * draw.randint(5, 15)
    paid = [steps.call(f"the dollars paid by {groups[i]}", "multiply", a=guests[i], b=prices[i]) for i in range(3)]
    some = steps.call("the dollars paid by adults and children together", "add", a=paid[0], b=paid[1])
    whole = steps.call("the dollars paid by everyone", "add", a=some, b=paid[2])
    dollars_left = steps.call("the dollars left after the rent", "subtract", a=whole, b=rent)
    share = steps.call("the share of one club", "divide", a=dollars_left, b=clubs)
    sentences = (
        f"A {event} is visited by {guests[0]} adults, {guests[1]} children and {guests[2]} pensioners.",
        f"A ticket costs ${prices[0]} for adults, ${prices[1]} for children and ${prices[2]} for pensioners.",
        f"The hall costs ${rent} in rent, and {clubs} clubs share what is left equally.",
    )
    return WordProblem(sentences, "How many dollars does each club get?", share, Fraction(income - rent, clubs))


def tank(draw: random.Random, steps: Steps) -> WordProblem:
    place, can = draw.choice(("farm", "nursery", "vineyard")), draw.choice((4, 5, 6, 8, 12))
    (fast, slow), (long, short) = draw.sample(range(9, 30), 2), draw.sample(range(15, 60), 2)
    inflow = fast * short + slow * long
    lost = inflow % can + can * draw.randint(2, 8)
    one = steps.call("the litres from the pump", "multiply", a=fast, b=short)
    two = steps.call("the litres from the spring", "multiply", a=slow, b=long)
    both = steps.call("the litres from pump and spring", "add", a=one, b=two)
    litres_left = steps.call("the litres left in the tank", "subtract", a=both, b=lost)
    cans = steps.call("the number of cans", "divide", a=litres_left, b=can)
    sentences = (
        f"The empty tank of a {place} gets {fast} l of water a minute from a pump and {slow} l a minute from a spring.",
        f"The pump runs for {short} minutes and the spring for {long} minutes; {lost} l leak out.",
        f"The water that is left is drawn off into cans of {can} l.",
    )
    return WordProblem(sentences, "How many cans are filled?", cans, Fraction(inflow - lost, can))


# Comparisons


def offers(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("pens", "candles", "batteries", "postcards"))
    sizes, cents = draw.sample(range(4, 25), 2), draw.sample(range(45, 180, 5), 2)
    packs = [Fraction(size * cent, 100) for size, cent in zip(sizes, cents, strict=True)]
    count = draw.randint(26, 80)
    cost = Fraction(count * min(cents), 100)
    purse = math.ceil(cost) + draw.randint(3, 40)
    market = steps.call("the price of one piece at the market", "divide", a=plain_number(packs[0]), b=sizes[0])
    kiosk = steps.call("the price of one piece at the kiosk", "divide", a=plain_number(packs[1]), b=sizes[1])
    best = steps.call("the lower price of one piece", "minimum", a=market, b=kiosk)
    paid = steps.call("the price of all pieces", "multiply", a=best, b=count)
    dollars_left = steps.call("the dollars left", "subtract", a=purse, b=paid)
    at_market, at_kiosk = map(price_text, packs)
    sentences = (
        f"A market sells {sizes[0]} {thing} for {at_market}, a kiosk sells {sizes[1]} of them for {at_kiosk}.",
        "Market and kiosk sell single pieces at the rate of their packs.",
        f"{name} has ${purse} and buys {count} {thing} where they are cheaper.",
    )
    return WordProblem(sentences, f"How many dollars does {name} have left?", dollars_left, purse - cost)


def plots(draw: random.Random, steps: Steps) -> WordProblem:
    name, crop = draw.choice(NAMES), draw.choice(("clover", "barley", "lupins", "grass"))
    (east, west), (long, short), grams = draw.sample(range(12, 40), 2), draw.sample(range(15, 60), 2), draw.randint(8, 35)
    one = steps.call("the area of the east plot in square metres", "multiply", a=east, b=long)
    two = steps.call("the area of the west plot in square metres", "multiply", a=west, b=short)
    larger = steps.call("the larger area", "maximum", a=one, b=two)
    seed = steps.call(f"the grams of {crop} seed", "multiply", a=larger, b=grams)
    kilograms = steps.call(f"the kilograms of {crop} seed", "convert_units", value=seed, from_unit="g", to_unit="kg")
    sentences = (
        f"{name} owns an east plot of {east} m by {long} m and a west plot of {west} m by {short} m.",
        f"{name} sows {crop} on the larger plot only, {grams} g of seed on each square metre.",
    )
    question = f"How many kilograms of seed does {name} need?"
    return WordProblem(sentences, question, kilograms, Fraction(max(east * long, west * short) * grams, 1000))


def relay(draw: random.Random, steps: Steps) -> WordProblem:
    names, sport = draw.sample(NAMES, 3), draw.choice(("runs", "rows", "cycles", "skates"))
    laps, lengths = draw.sample(range(6, 30), 3), draw.sample(range(150, 700, 10), 3)
    way = [steps.call(f"the metres of {names[i]}", "multiply", a=laps[i], b=lengths[i]) for i in range(3)]
    high = steps.call(f"the longer way of {names[0]} and {names[1]}", "maximum", a=way[0], b=way[1])
    highest = steps.call("the longest way of all", "maximum", a=high, b=way[2])
    low = steps.call(f"the shorter way of {names[0]} and {names[1]}", "minimum", a=way[0], b=way[1])
    lowest = steps.call("the shortest way of all", "minimum", a=low, b=way[2])
    gap = steps.call("the difference between longest and shortest way", "subtract", a=highest, b=lowest)
    sentences = tuple(f"{names[i]} {sport} {laps[i]} laps of {lengths[i]} m." for i in range(3))
    ways = [count * length for count, length in zip(laps, lengths, strict=True)]
    question = "By how many metres is the longest of the three distances longer than the shortest?"
    return WordProblem(sentences, question, gap, max(ways) - min(ways))


# A division by zero


def parcels(draw: random.Random, steps: Steps) -> WordProblem:
    """In every second draw no crate is left, and the question says what then."""
    company, vans, kilos = draw.choice(("post office", "warehouse", "depot")), draw.randint(2, 7), draw.randint(3, 14)
    crates, crates_free = draw.randint(14, 30), draw.choice((0, draw.randint(2, 6)))
    broken = draw.randint(3, crates - crates_free - 3)
    parcels = vans * (crates_free or 1) * draw.randint(4, 9)
    whole = steps.call("the number of crates that are not broken", "subtract", a=crates, b=broken)
    free = steps.call("the number of crates that are free", "subtract", a=whole, b=crates - crates_free - broken)
    if crates_free:
        load = steps.call("the number of parcels in each crate", "divide", a=parcels, b=free)
    else:
        steps.failing_call("the number of parcels in each crate", "divide", a=parcels, b=free)
        load = steps.call("the number of parcels in each van", "divide", a=parcels, b=vans)
    weight = steps.call("the weight of one load in kilograms", "multiply", a=load, b=kilos)
    sentences = (
        f"A {company} has {crates} crates, of which {broken} are broken and {crates - crates_free - broken} are lent out.",
        f"{parcels} parcels of {kilos} kg each are shared equally among the crates that are free.",
        f"If there are no free crates, the parcels are shared equally among {vans} vans instead.",
    )
    return WordProblem(
        sentences, "How many kilograms does each crate, or else each van, carry?", weight, parcels // (crates_free or vans) * kilos
    )


# Questions without an answer


def shopping(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("candles", "tiles", "lemons", "bulbs", "buttons"))
    boxes, each, price = draw.randint(3, 30), draw.randint(4, 48), draw.randint(2, 19)
    steps.call(f"the number of {thing}", "multiply", a=boxes, b=each)
    sentences = (
        f"{name} buys {boxes} boxes of {each} {thing} each, and a vase for ${price}.",
        f"The {thing} are sold by the piece.",
    )
    return WordProblem(sentences, f"How many dollars does {name} pay for the {thing}?", None, None)


def party(draw: random.Random, steps: Steps) -> WordProblem:
    name, sweet = draw.choice(NAMES), draw.choice(("sweets", "balloons", "stickers", "marbles"))
    children, pieces = draw.randint(9, 30), draw.randint(40, 200)
    early = draw.randint(3, children - 3)
    stay = steps.call("the number of children who stay until six", "subtract", a=children, b=early)
    rest = steps.call("the number of children who stay to the end", "subtract", a=stay, b=children - early)
    steps.failing_call(f"the number of {sweet} for each child", "divide", a=pieces, b=rest)
    sentences = (
        f"{children} children come to a party of {name}; {early} leave at five and {children - early} at six.",
        f"At seven {name} shares {pieces} {sweet} equally among the children who are still at the party.",
    )
    return WordProblem(sentences, f"How many {sweet} does each of these children get?", None, None)


def car_park(draw: random.Random, steps: Steps) -> WordProblem:
    place, name = draw.choice(("theatre", "station", "stadium", "museum")), draw.choice(NAMES)
    gone, come, fee = draw.randint(12, 90), draw.randint(12, 90), draw.randint(2, 15)
    sentences = (
        f"{name} watches the car park of a {place}, which costs ${fee} a day.",
        f"Some cars have been parked overnight; in the morning {gone} of them leave and {come} others arrive.",
    )
    return WordProblem(sentences, f"How many cars stand at the {place} at noon?", None, None)
