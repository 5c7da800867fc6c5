"""Stories in which each call needs the result of the one before, some with a conversion of units; then stories of branches that
join, of comparisons, of a division by zero, and stories without an answer."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from whichloop.datasets import calculator
from whichloop.datasets.generating import plain_number
from whichloop.protocol import PlannedCall, Ref, resolve

NAMES = (
    "Amina", "Bruno", "Chiara", "Dmitri", "Esi", "Farid", "Greta", "Hana", "Ivo", "Jia",
    "Kofi", "Lucia", "Mateo", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Sven", "Tala",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A word problem before it becomes a task."""

    sentences: tuple[str, ...]
    """Its sentences, in order."""
    question: str
    answer: Ref | None
    expected: Fraction | int | None
    """The answer, worked out without the tools; None if there is no answer."""


class Steps:
    """The plan of a story as it is being written."""

    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []
        self._resolved_calls: list[tuple[str, Any]] = []
        self._values: dict[str, Any] = {}

    def call(self, goal: str, tool: str, **arguments: Any) -> Ref:
        """Plan a call that finds `goal`, and return the reference to its result."""
        ref, resolved = self._plan(goal, tool, arguments, fails=False)
        self._values[ref.call] = _FUNCTIONS[tool](**resolved)
        return ref

    def failing_call(self, goal: str, tool: str, **arguments: Any) -> None:
        """Plan a call that ends in an error."""
        self._plan(goal, tool, arguments, fails=True)

    @property
    def repeats(self) -> bool:
        """Whether two calls are the same once results stand in the place of references."""
        return any(call in self._resolved_calls[:index] for index, call in enumerate(self._resolved_calls))

    def _plan(self, goal: str, tool: str, arguments: dict[str, Any], fails: bool) -> tuple[Ref, dict[str, Any]]:
        ref, resolved = Ref(f"c{len(self.calls) + 1}"), resolve(arguments, self._values)
        self.calls.append(PlannedCall(ref.call, tool, arguments, f"Find {goal}.", fails=fails))
        self._resolved_calls.append((tool, resolved))
        return ref, resolved


_FUNCTIONS = {tool.name: tool.function for tool in calculator.TOOLS}


def price_text(amount: Fraction) -> str:
    return f"${float(amount):.2f}"


# Chains


def library(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("books", "records", "board games", "atlases"))
    shelves, each, new = draw.randint(6, 40), draw.randint(15, 60), draw.randint(5, 95)
    held = steps.call(f"the number of {thing} on the shelves", "multiply", a=shelves, b=each)
    total = steps.call(f"the number of {thing} with the new ones", "add", a=held, b=new)
    sentences = (
        f"{name} looks after a library with {shelves} shelves.",
        f"Each shelf holds {each} {thing}, and {new} new {thing} have just arrived.",
    )
    return WordProblem(sentences, f"How many {thing} does the library have now?", total, shelves * each + new)


def bakery(draw: random.Random, steps: Steps) -> WordProblem:
    name, item = draw.choice(NAMES), draw.choice(("rolls", "muffins", "pretzels", "scones", "bagels"))
    trays, each, bag = draw.randint(5, 18), draw.randint(8, 36), draw.randint(3, 9)
    burnt = trays * each % bag + bag * draw.randint(1, 2)  # the rest fills whole bags
    baked = steps.call(f"the number of {item} baked", "multiply", a=trays, b=each)
    good = steps.call(f"the number of {item} that are not burnt", "subtract", a=baked, b=burnt)
    bags = steps.call("the number of full bags", "divide", a=good, b=bag)
    sentences = (
        f"{name} bakes {trays} trays of {item}, {each} on each tray.",
        f"{burnt} {item} are burnt and thrown away.",
        f"The other {item} are packed into bags of {bag}.",
    )
    return WordProblem(sentences, "How many bags are filled?", bags, Fraction(trays * each - burnt, bag))


def savings(draw: random.Random, steps: Steps) -> WordProblem:
    name, amount = draw.choice(NAMES), draw.randint(20, 90)
    sentences = [f"{name} starts the year with ${amount} in a savings box."]
    months = ("January", "February", "March", "April", "May", "June", "July", "August")[: draw.randint(4, 8)]
    box: Any = amount
    for month in months:
        goal, some = f"the dollars in the box at the end of {month}", draw.randint(5, 60)
        event = draw.choice(("in", "in", "out", "double", "halve"))
        if event == "halve" and amount % 2 == 0 and amount > 40:
            sentences.append(f"In {month} {name} gives away half of what is in the box.")
            box, amount = steps.call(goal, "divide", a=box, b=2), amount // 2
        elif event == "double" and amount < 200:
            sentences.append(f"In {month} an aunt doubles what is in the box.")
            box, amount = steps.call(goal, "multiply", a=box, b=2), amount * 2
        elif event == "out" and amount > some:
            sentences.append(f"In {month} {name} takes out ${some}.")
            box, amount = steps.call(goal, "subtract", a=box, b=some), amount - some
        else:
            sentences.append(f"In {month} {name} puts in ${some}.")
            box, amount = steps.call(goal, "add", a=box, b=some), amount + some
    return WordProblem(tuple(sentences), f"How many dollars are in the box at the end of {months[-1]}?", box, amount)


def bus(draw: random.Random, steps: Steps) -> WordProblem:
    vehicle, aboard = draw.choice(("bus", "ferry", "tram", "cable car")), draw.randint(25, 60)
    places = ("Mill Lane", "Harbour Gate", "Old Market", "Castle Hill", "North Pier", "Garden Road")
    stops = draw.sample(places, draw.randint(2, 4))
    sentences = [f"A {vehicle} sets off with {aboard} passengers."]
    now: Any = aboard
    for stop in stops:
        off, on = draw.randint(2, min(20, aboard - 2)), draw.randint(2, 25)
        sentences.append(f"At {stop} {off} passengers leave and {on} come aboard.")
        now = steps.call(f"the number of passengers who stay aboard at {stop}", "subtract", a=now, b=off)
        now = steps.call(f"the number of passengers after {stop}", "add", a=now, b=on)
        aboard += on - off
    return WordProblem(tuple(sentences), f"How many passengers are aboard after {stops[-1]}?", now, aboard)


def wages(draw: random.Random, steps: Steps) -> WordProblem:
    name, job = draw.choice(NAMES), draw.choice(("gardener", "courier", "tutor", "painter"))
    hours, rate = draw.randint(12, 45), draw.randint(14, 38)
    percent, bonus = draw.choice((5, 10, 15, 20, 25)), draw.randint(20, 90)
    gross = steps.call("the pay before the deduction", "multiply", a=hours, b=rate)
    held = steps.call("the deduction", "percent_of", percent=percent, number=gross)
    net = steps.call("the pay after the deduction", "subtract", a=gross, b=held)
    total = steps.call("the pay with the bonus", "add", a=net, b=bonus)
    sentences = (
        f"{name} works {hours} hours as a {job} for ${rate} an hour.",
        f"{percent} percent of that pay is held back.",
        f"Afterwards {name} gets a bonus of ${bonus}, from which nothing is held back.",
    )
    question = f"How many dollars does {name} get in all?"
    return WordProblem(sentences, question, total, hours * rate * Fraction(100 - percent, 100) + bonus)


def novel(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing = draw.choice(NAMES), draw.choice(("novel", "chronicle", "saga"))
    volumes, pages, minutes = draw.randint(3, 9), draw.randint(110, 390), draw.randint(2, 5)
    daily = draw.choice([number for number in range(23, 48) if volumes * pages % number])
    total = steps.call("the number of pages in all volumes", "multiply", a=volumes, b=pages)
    rest = steps.call("the number of pages left for the last day", "remainder", a=total, b=daily)
    time = steps.call("the minutes spent on the last day", "multiply", a=rest, b=minutes)
    sentences = (
        f"{name} reads a {thing} in {volumes} volumes of {pages} pages each.",
        f"{name} reads {daily} pages every day, and on the last day the pages that are left, which are fewer.",
        f"A page takes {minutes} minutes.",
    )
    return WordProblem(
        sentences, f"For how many minutes does {name} read on the last day?", time, volumes * pages % daily * minutes
    )


# Unit conversions


def catering(draw: random.Random, steps: Steps) -> WordProblem:
    name, food = draw.choice(NAMES), draw.choice(("rice", "salmon", "beans", "potatoes"))
    guests, grams = draw.randint(12, 90), draw.randrange(110, 360, 5)
    price, delivery = draw.randint(3, 24), draw.randint(6, 30)
    heap = steps.call(f"the grams of {food} for all guests", "multiply", a=guests, b=grams)
    kilograms = steps.call(f"the kilograms of {food}", "convert_units", value=heap, from_unit="g", to_unit="kg")
    cost = steps.call(f"the price of the {food}", "multiply", a=kilograms, b=price)
    total = steps.call("the price with delivery", "add", a=cost, b=delivery)
    sentences = (
        f"{name} cooks for {guests} guests and reckons with {grams} g of {food} for each.",
        f"A kilogram of {food} costs ${price}, and delivery costs ${delivery} for the whole order.",
    )
    return WordProblem(sentences, f"How many dollars does {name} pay?", total, Fraction(guests * grams * price, 1000) + delivery)


def hike(draw: random.Random, steps: Steps) -> WordProblem:
    name, pace = draw.choice(NAMES), draw.choice((40, 50, 60, 75, 80))
    first, second = draw.sample(range(11, 49), 2)  # hundreds of metres
    minutes = math.ceil((first + second) * 100 / pace) + draw.randint(4, 18)
    climb, lake, village = (
        minutes * pace - (first + second) * 100,
        plain_number(Fraction(first, 10)),
        plain_number(Fraction(second, 10)),
    )
    up = steps.call("the metres to the lake", "convert_units", value=lake, from_unit="km", to_unit="m")
    down = steps.call("the metres to the village", "convert_units", value=village, from_unit="km", to_unit="m")
    some = steps.call("the metres to lake and village", "add", a=up, b=down)
    whole = steps.call("the metres of the whole walk", "add", a=some, b=climb)
    time = steps.call("the minutes of the walk", "divide", a=whole, b=pace)
    sentences = (
        f"{name} walks {lake} km to a lake, {village} km on to a village and the last {climb} m to a hut.",
        f"{name} covers {pace} m in a minute.",
    )
    return WordProblem(sentences, f"How many minutes does {name} walk?", time, minutes)


def factory(draw: random.Random, steps: Steps) -> WordProblem:
    item = draw.choice(("lamps", "hinges", "kettles", "toy trains"))
    hours, every, machines = draw.randint(4, 12), draw.choice((2, 3, 4, 5, 6)), draw.randint(3, 14)
    box, price = draw.choice((4, 6, 8)), draw.randint(11, 48)
    output = hours * 60 // every * machines
    faulty = output % box + box * draw.randint(1, 4)
    minutes = steps.call("the length of the shift in minutes", "convert_units", value=hours, from_unit="hour", to_unit="minute")
    each = steps.call(f"the number of {item} from one machine", "divide", a=minutes, b=every)
    total = steps.call(f"the number of {item} from all machines", "multiply", a=each, b=machines)
    good = steps.call(f"the number of {item} without fault", "subtract", a=total, b=faulty)
    boxes = steps.call("the number of boxes", "divide", a=good, b=box)
    income = steps.call("the income in dollars", "multiply", a=boxes, b=price)
    sentences = (
        f"A factory makes {item} on {machines} machines, in shifts of {hours} hours.",
        f"Each machine finishes one piece every {every} minutes.",
        f"{faulty} pieces of a shift are faulty; the others are packed in boxes of {box}, sold for ${price} a box.",
    )
    return WordProblem(sentences, "How many dollars does a shift bring in?", income, Fraction(output - faulty, box) * price)


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
