"""Stories of work and trade: what is bought, made, shared and paid, in plans of other shapes than `chains` and `branches` have."""

from __future__ import annotations

import random
from fractions import Fraction

from .steps import NAMES, Steps, WordProblem


def discount(draw: random.Random, steps: Steps) -> WordProblem:
    name, item, price, count = (
        draw.choice(NAMES),
        draw.choice(("chairs", "lamps", "rugs")),
        draw.randint(20, 90),
        draw.randint(3, 15),
    )
    percent = draw.choice((5, 10, 15, 20, 30))
    list_price = steps.call("the price before the discount", "multiply", a=count, b=price)
    off = steps.call("the discount in dollars", "percent_of", percent=percent, number=list_price)
    paid = steps.call("the price after the discount", "subtract", a=list_price, b=off)
    told = (f"{name} orders {count} {item} at ${price} each.", f"The shop takes {percent} percent off the whole order.")
    return WordProblem(told, f"How many dollars does {name} pay?", paid, count * price * Fraction(100 - percent, 100))


def two_percentages(draw: random.Random, steps: Steps) -> WordProblem:
    town, people = draw.choice(("Arlen", "Brigg", "Cove", "Dunmore")), draw.randrange(2000, 9000, 1000)
    grown, first = draw.choice((5, 10, 20, 25)), draw.choice((20, 30, 40))
    more = steps.call("the people who moved in", "percent_of", percent=grown, number=people)
    now = steps.call("the people who live there afterwards", "add", a=people, b=more)
    young = steps.call("the people under twenty", "percent_of", percent=first, number=now)
    told = (f"{town} had {people} inhabitants and has grown by {grown} percent.", f"Now {first} percent are under twenty.")
    wanted = people * Fraction(100 + grown, 100) * Fraction(first, 100)
    return WordProblem(told, f"How many people under twenty live in {town} now?", young, wanted)


def leftover_ribbon(draw: random.Random, steps: Steps) -> WordProblem:
    name, metres, piece = draw.choice(NAMES), draw.randint(3, 19), draw.choice((14, 17, 23, 26, 35))
    pieces, price = metres * 100 // piece, draw.randint(36, 95)
    cost = draw.randint(11, 34) * pieces
    length = steps.call("the centimetres of ribbon", "convert_units", value=metres, from_unit="m", to_unit="cm")
    rest = steps.call("the centimetres that make no whole piece", "remainder", a=length, b=piece)
    used = steps.call("the centimetres in whole pieces", "subtract", a=length, b=rest)
    count = steps.call("the number of whole pieces", "divide", a=used, b=piece)
    taken = steps.call("the cents taken for the pieces", "multiply", a=count, b=price)
    gain = steps.call("the cents that remain", "subtract", a=taken, b=cost)
    told = (
        f"{name} has a ribbon of {metres} m and cuts it into pieces of {piece} cm.",
        f"Each piece is sold for {price} cents, what is too short is thrown away, and the ribbon was bought for {cost} cents.",
    )
    return WordProblem(told, f"How many cents does {name} gain?", gain, pieces * price - cost)


def wasted_board(draw: random.Random, steps: Steps) -> WordProblem:
    name, boards, length, piece = draw.choice(NAMES), draw.randint(3, 18), draw.randint(210, 390), draw.randint(41, 79)
    rest = steps.call("the centimetres left of one board", "remainder", a=length, b=piece)
    whole = steps.call("the centimetres left of all boards", "multiply", a=rest, b=boards)
    told = (f"{name} saws each of {boards} boards of {length} cm into shelves of {piece} cm.", "Ends that are too short are waste.")
    return WordProblem(told, "How many centimetres of board are wasted in all?", whole, length % piece * boards)


def capped_fee(draw: random.Random, steps: Steps) -> WordProblem:
    name, days, rate = draw.choice(NAMES), draw.randint(3, 20), draw.randint(6, 19)
    cap, deposit = draw.randint(60, 200), draw.randint(20, 55)
    daily = steps.call("the rent by the day", "multiply", a=days, b=rate)
    fee = steps.call("the rent that is charged", "minimum", a=daily, b=cap)
    paid = steps.call("the rent with the deposit", "add", a=fee, b=deposit)
    told = (
        f"{name} rents a boat for {days} days at ${rate} a day, but never for more than ${cap}.",
        f"A deposit of ${deposit} comes on top.",
    )
    return WordProblem(told, f"How many dollars does {name} hand over?", paid, min(days * rate, cap) + deposit)


def least_charge(draw: random.Random, steps: Steps) -> WordProblem:
    name, words, cents, least = draw.choice(NAMES), draw.randint(20, 90), draw.choice((4, 5, 8, 10)), draw.randint(180, 600)
    price = steps.call("the cents by the word", "multiply", a=words, b=cents)
    charged = steps.call("the cents that are charged", "maximum", a=price, b=least)
    change = steps.call("the cents of change", "subtract", a=1000, b=charged)
    told = (
        f"{name} places a notice of {words} words at {cents} cents a word; the least charge is {least} cents.",
        f"{name} pays with 1000 cents.",
    )
    return WordProblem(told, f"How many cents does {name} get back?", change, 1000 - max(words * cents, least))


def mean_of_three(draw: random.Random, steps: Steps) -> WordProblem:
    names, (x, y) = draw.sample(NAMES, 3), draw.sample(range(20, 90), 2)
    z = draw.choice([number for number in range(20, 90) if (x + y + number) % 3 == 0 and number not in (x, y)])
    two = steps.call(f"the points of {names[0]} and {names[1]}", "add", a=x, b=y)
    three = steps.call("the points of all three", "add", a=two, b=z)
    mean = steps.call("the mean number of points", "divide", a=three, b=3)
    told = (f"{names[0]} scores {x} points, {names[1]} {y} and {names[2]} {z}.", "They form a team of 3.")
    return WordProblem(told, "How many points is that on average?", mean, Fraction(x + y + z, 3))


def missing_mark(draw: random.Random, steps: Steps) -> WordProblem:
    name, tests, mean = draw.choice(NAMES), draw.randint(4, 9), draw.randint(50, 90)
    low = (tests - 1) * (mean - 9)
    known = draw.randint(low, (tests - 1) * mean)
    total = steps.call("the points that all tests must give", "multiply", a=tests, b=mean)
    last = steps.call("the points that the last test must give", "subtract", a=total, b=known)
    told = (
        f"{name} wants {mean} points on average over {tests} tests.",
        f"All tests but the last have given {known} points together.",
    )
    return WordProblem(told, "How many points must the last test give?", last, tests * mean - known)


def reversed_price(draw: random.Random, steps: Steps) -> WordProblem:
    name, count, price, start = draw.choice(NAMES), draw.randint(3, 14), draw.randint(4, 25), draw.randint(5, 90)
    left = start + 100
    purse = left + count * price
    spent = steps.call("the dollars spent", "subtract", a=purse, b=left)
    each = steps.call("the price of one ticket", "divide", a=spent, b=count)
    told = (f"{name} goes to a fair with ${purse} and buys {count} tickets of one price.", f"Afterwards ${left} are left.")
    return WordProblem(told, "How many dollars does one ticket cost?", each, price)


def profit(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing, count = draw.choice(NAMES), draw.choice(("mugs", "scarves", "kites")), draw.randint(20, 80)
    cost, price = draw.randint(3, 6), draw.randint(12, 25)
    unsold, percent, weeks = draw.randint(3, 9), draw.choice((10, 20, 30)), draw.randint(4, 12)
    wanted = ((count - unsold) * price - count * cost) * Fraction(100 - percent, 100) * weeks
    spent = steps.call(f"the dollars spent on {thing}", "multiply", a=count, b=cost)
    sold = steps.call(f"the number of {thing} sold", "subtract", a=count, b=unsold)
    income = steps.call("the dollars taken", "multiply", a=sold, b=price)
    gain = steps.call("the profit", "subtract", a=income, b=spent)
    tax = steps.call("the tax on the profit of a week", "percent_of", percent=percent, number=gain)
    net = steps.call("the profit of a week after tax", "subtract", a=gain, b=tax)
    season = steps.call("the profit of all weeks", "multiply", a=net, b=weeks)
    told = (
        f"{name} makes {count} {thing} a week, which cost ${cost} each to make.",
        f"All but {unsold} are sold at ${price} each.",
        f"Of the profit {percent} percent go in tax, for {weeks} weeks.",
    )
    return WordProblem(told, f"How many dollars of profit after tax does {name} make in all weeks?", season, wanted)


def unequal_shares(draw: random.Random, steps: Steps) -> WordProblem:
    names, each, gap = draw.sample(NAMES, 2), draw.randint(20, 90), draw.randint(3, 19)
    total = 2 * each + gap
    equal = steps.call("what they would share equally", "subtract", a=total, b=gap)
    less = steps.call(f"the shells of {names[1]}", "divide", a=equal, b=2)
    more = steps.call(f"the shells of {names[0]}", "add", a=less, b=gap)
    told = (f"{names[0]} and {names[1]} are 2 children who find {total} shells.", f"{names[0]} finds {gap} more than {names[1]}.")
    return WordProblem(told, f"How many shells does {names[0]} find?", more, each + gap)


def machine_pair(draw: random.Random, steps: Steps) -> WordProblem:
    fast, slow = draw.sample(range(11, 40), 2)
    minutes, thing = draw.randint(8, 45), draw.choice(("labels", "caps", "bolts"))
    both = steps.call(f"the {thing} from both machines in a minute", "add", a=fast, b=slow)
    time = steps.call("the minutes until the order is done", "divide", a=(fast + slow) * minutes, b=both)
    told = (
        f"One machine makes {fast} {thing} a minute, another one {slow}.",
        f"Both work together on an order of {(fast + slow) * minutes} {thing}.",
    )
    return WordProblem(told, "After how many minutes is the order done?", time, minutes)
