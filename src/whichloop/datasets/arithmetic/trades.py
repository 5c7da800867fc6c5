"""Stories of work and trade: what is bought, made, shared and paid, in plans of other shapes than `chains` and `branches` have."""

from __future__ import annotations

import random
from fractions import Fraction

from .chains import NAMES, Steps, WordProblem


def discount(draw: random.Random, steps: Steps) -> WordProblem:
    name, item, price, count = (
        draw.choice(NAMES),
        draw.choice(("chairs", "lamps", "rugs")),
        draw.randint(20, 90),
        draw.randint(3, 15),
    )
    percent, delivery, voucher = draw.choice((5, 10, 15, 20, 30)), draw.randint(21, 48), draw.randint(3, 19)
    list_price = steps.call("the price before the discount", "multiply", a=count, b=price)
    off = steps.call("the discount in dollars", "percent_of", percent=percent, number=list_price)
    reduced = steps.call("the price after the discount", "subtract", a=list_price, b=off)
    delivered = steps.call("the price with delivery", "add", a=reduced, b=delivery)
    paid = steps.call("what is paid in the end", "subtract", a=delivered, b=voucher)
    sentences = (
        f"{name} orders {count} {item} at ${price} each.",
        f"The shop takes {percent} percent off the {item} and charges ${delivery} for delivery.",
        f"A voucher pays for ${voucher} of the bill.",
    )
    wanted = count * price * Fraction(100 - percent, 100) + delivery - voucher
    return WordProblem(sentences, f"How many dollars does {name} pay?", paid, wanted)


def two_percentages(draw: random.Random, steps: Steps) -> WordProblem:
    town, people = draw.choice(("Arlen", "Brigg", "Cove", "Dunmore")), draw.randrange(2000, 9000, 1000)
    grown, first, moved = draw.choice((5, 10, 20, 25)), draw.choice((20, 30, 40)), draw.randint(11, 70)
    more = steps.call("the people who moved in", "percent_of", percent=grown, number=people)
    now = steps.call("the people who lived there afterwards", "add", a=people, b=more)
    young = steps.call("the people under twenty afterwards", "percent_of", percent=first, number=now)
    stayed = steps.call("the people under twenty who stayed", "subtract", a=young, b=moved)
    sentences = (
        f"{town} had {people} inhabitants and grew by {grown} percent.",
        f"After that, {first} percent were under twenty, and {moved} of these have moved away since.",
    )
    wanted = people * Fraction(100 + grown, 100) * Fraction(first, 100) - moved
    return WordProblem(sentences, "How many of those under twenty have stayed?", stayed, wanted)


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
    sentences = (
        f"{name} has a ribbon of {metres} m and cuts it into pieces of {piece} cm.",
        f"The pieces are sold for {price} cents each, the leftover is thrown away, and the ribbon cost {cost} cents.",
    )
    return WordProblem(sentences, f"How many cents of profit does {name} make?", gain, pieces * price - cost)


def wasted_board(draw: random.Random, steps: Steps) -> WordProblem:
    name, boards, length, piece = draw.choice(NAMES), draw.randint(3, 18), draw.randint(210, 390), draw.randint(41, 79)
    warped = draw.randint(3, 5)
    rest = steps.call("the centimetres left of one board", "remainder", a=length, b=piece)
    used = steps.call("the centimetres of one board that become shelves", "subtract", a=length, b=rest)
    each = steps.call("the number of shelves from one board", "divide", a=used, b=piece)
    sawn = steps.call("the number of shelves from all boards", "multiply", a=each, b=boards)
    good = steps.call("the number of good shelves", "subtract", a=sawn, b=warped)
    sentences = (
        f"{name} saws {boards} boards of {length} cm into shelves of {piece} cm, as many as each board gives.",
        f"{warped} of the shelves turn out to be warped and are thrown away.",
    )
    return WordProblem(sentences, f"How many good shelves does {name} have?", good, length // piece * boards - warped)


def capped_fee(draw: random.Random, steps: Steps) -> WordProblem:
    name, days, rate = draw.choice(NAMES), draw.randint(3, 20), draw.randint(6, 19)
    cap, cleaning, trips, voucher = draw.randint(60, 200), draw.randint(20, 55), draw.randint(2, 6), draw.randint(11, 19)
    daily = steps.call("the rent by the day", "multiply", a=days, b=rate)
    fee = steps.call("the rent that is charged", "minimum", a=daily, b=cap)
    trip = steps.call("the rent with the cleaning", "add", a=fee, b=cleaning)
    whole = steps.call("the cost of all trips", "multiply", a=trip, b=trips)
    paid = steps.call("what is paid in the end", "subtract", a=whole, b=voucher)
    sentences = (
        f"{name} rents a boat for {days} days at ${rate} a day, but never pays more than ${cap} of rent for a trip.",
        f"Cleaning costs ${cleaning} on top each time.",
        f"{name} makes {trips} such trips a year, and a voucher takes ${voucher} off the year's bill.",
    )
    wanted = (min(days * rate, cap) + cleaning) * trips - voucher
    return WordProblem(sentences, f"How many dollars does {name} pay in a year?", paid, wanted)


def least_charge(draw: random.Random, steps: Steps) -> WordProblem:
    name, words, cents, least = draw.choice(NAMES), draw.randint(20, 90), draw.choice((4, 5, 8, 10)), draw.randint(180, 600)
    weeks, percent = draw.randint(2, 6), draw.choice((5, 10, 20))
    price = steps.call("the cents by the word", "multiply", a=words, b=cents)
    charged = steps.call("the cents that are charged for a week", "maximum", a=price, b=least)
    whole = steps.call("the cents for all weeks", "multiply", a=charged, b=weeks)
    off = steps.call("the discount in cents", "percent_of", percent=percent, number=whole)
    paid = steps.call("the cents after the discount", "subtract", a=whole, b=off)
    sentences = (
        f"{name} places a notice of {words} words at {cents} cents a word per week; the minimum charge is {least} cents a week.",
        f"The notice appears for {weeks} weeks, and the paper takes {percent} percent off the total.",
    )
    wanted = max(words * cents, least) * weeks * Fraction(100 - percent, 100)
    return WordProblem(sentences, f"How many cents does {name} pay?", paid, wanted)


def mean_of_three(draw: random.Random, steps: Steps) -> WordProblem:
    names, (x, y) = draw.sample(NAMES, 3), draw.sample(range(20, 90), 2)
    z = draw.choice([number for number in range(20, 90) if (x + y + number) % 3 == 0 and number not in (x, y)])
    two = steps.call(f"the points of {names[0]} and {names[1]}", "add", a=x, b=y)
    three = steps.call("the points of all three", "add", a=two, b=z)
    mean = steps.call("the mean number of points", "divide", a=three, b=3)
    sentences = (
        f"{names[0]} scores {x} points, {names[1]} {y} and {names[2]} {z}.",
        "The result of their team of 3 is the mean of these.",
    )
    return WordProblem(sentences, "How many points does the team get?", mean, Fraction(x + y + z, 3))


def missing_mark(draw: random.Random, steps: Steps) -> WordProblem:
    name, tests, mean = draw.choice(NAMES), draw.randint(4, 9), draw.randint(50, 90)
    earlier_points, extra = draw.randint((tests - 1) * (mean - 9), (tests - 1) * mean), draw.randint(3, 9)
    total = steps.call("the points that all tests must give", "multiply", a=tests, b=mean)
    last = steps.call("the points that the last test must give", "subtract", a=total, b=earlier_points)
    needed = steps.call("the points that its tasks must give", "subtract", a=last, b=extra)
    sentences = (
        f"{name} wants an average of {mean} points over {tests} tests.",
        f"All tests but the last have given {earlier_points} points in total.",
        f"The last test gives {extra} points for being handed in on time, which {name} does.",
    )
    question = f"How many points must {name} get for the tasks of the last test?"
    return WordProblem(sentences, question, needed, tests * mean - earlier_points - extra)


def reversed_price(draw: random.Random, steps: Steps) -> WordProblem:
    name, count, price, dollars_left = draw.choice(NAMES), draw.randint(3, 14), draw.randint(4, 25), draw.randint(105, 190)
    snack, group = draw.randint(26, 45), draw.randint(15, 40)
    purse = dollars_left + count * price + snack
    spent = steps.call("the dollars spent", "subtract", a=purse, b=dollars_left)
    tickets = steps.call("the dollars spent on tickets", "subtract", a=spent, b=snack)
    each = steps.call("the price of one ticket", "divide", a=tickets, b=count)
    paid = steps.call("the price of the group's tickets", "multiply", a=each, b=group)
    sentences = (
        f"{name} goes to a fair with ${purse}, buys {count} tickets at one price and a meal for ${snack}, "
        f"and has ${dollars_left} left.",
        f"A group of {group} friends buy a ticket each at that price.",
    )
    return WordProblem(sentences, "How many dollars does the group pay?", paid, price * group)


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
    sentences = (
        f"{name} makes {count} {thing} a week, and each of them costs ${cost} to make.",
        f"All but {unsold} are sold at ${price} each.",
        f"{name} pays {percent} percent of the profit in tax.",
    )
    return WordProblem(sentences, f"How many dollars of profit are left after tax over {weeks} weeks?", season, wanted)


def unequal_shares(draw: random.Random, steps: Steps) -> WordProblem:
    names, each, gap = draw.sample(NAMES, 2), draw.randint(20, 90), draw.randint(3, 19)
    total = 2 * each + gap
    equal = steps.call("what they would share equally", "subtract", a=total, b=gap)
    less = steps.call(f"the shells of {names[1]}", "divide", a=equal, b=2)
    more = steps.call(f"the shells of {names[0]}", "add", a=less, b=gap)
    sentences = (
        f"{names[0]} and {names[1]}, 2 friends, find {total} shells between them.",
        f"{names[0]} finds {gap} more than {names[1]}.",
    )
    return WordProblem(sentences, f"How many shells does {names[0]} find?", more, each + gap)


def machine_pair(draw: random.Random, steps: Steps) -> WordProblem:
    fast, slow = draw.sample(range(11, 40), 2)
    minutes, thing = draw.randint(8, 45), draw.choice(("labels", "caps", "bolts"))
    cents = draw.randint(46, 90)
    both = steps.call(f"the {thing} from both machines in a minute", "add", a=fast, b=slow)
    time = steps.call("the minutes that the machines run", "divide", a=(fast + slow) * minutes, b=both)
    price = steps.call("the cents for the order", "multiply", a=time, b=cents)
    sentences = (
        f"One machine makes {fast} {thing} a minute, another one {slow}.",
        f"Both work together on an order of {(fast + slow) * minutes} {thing}.",
        f"Running both machines costs {cents} cents a minute.",
    )
    return WordProblem(sentences, "How many cents does the order cost?", price, minutes * cents)
