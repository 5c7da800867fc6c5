"""Stories of ways, times, weights and areas: units on the way in and out, differences of products, and ratios; then
stories of work and trade: what is bought, made, shared and paid, in plans of other shapes."""

from __future__ import annotations

import random
from fractions import Fraction

from .chains import NAMES, Steps, WordProblem


def frame(draw: random.Random, steps: Steps) -> WordProblem:
    name, (long, wide), edge = draw.choice(NAMES), draw.sample(range(20, 60), 2), draw.randint(3, 9)
    grams, hook = draw.randint(2, 8), draw.randint(11, 19)
    outer = steps.call("the area of the whole picture", "multiply", a=long + 2 * edge, b=wide + 2 * edge)
    inner = steps.call("the area inside of the frame", "multiply", a=long, b=wide)
    border = steps.call("the area of the frame", "subtract", a=outer, b=inner)
    weight = steps.call("the grams of the frame", "multiply", a=border, b=grams)
    whole = steps.call("the grams of frame and hook", "add", a=weight, b=hook)
    sentences = (
        f"{name} hangs up a picture that is {long + 2 * edge} cm by {wide + 2 * edge} cm with its frame.",
        f"Without the frame it is {long} cm by {wide} cm.",
        f"The frame weighs {grams} g for each square centimetre that it covers, and its hook weighs {hook} g.",
    )
    wanted = ((long + 2 * edge) * (wide + 2 * edge) - long * wide) * grams + hook
    return WordProblem(sentences, "How many grams do the frame and its hook weigh together?", whole, wanted)


def box_volume(draw: random.Random, steps: Steps) -> WordProblem:
    place, (long, wide, deep) = draw.choice(("pond", "pool", "reservoir")), draw.sample(range(2, 12), 3)
    rate = draw.choice([n for n in range(2, 60) if long * wide * deep % n == 0])
    pause, cents = draw.randint(5, 25), draw.randint(3, 9)
    floor = steps.call(f"the floor of the {place} in square metres", "multiply", a=long, b=wide)
    room = steps.call(f"the cubic metres in the {place}", "multiply", a=floor, b=deep)
    hours = steps.call("the hours that filling takes", "divide", a=room, b=rate)
    minutes = steps.call("the minutes that filling takes", "convert_units", value=hours, from_unit="hour", to_unit="minute")
    whole = steps.call("the minutes with the pause", "add", a=minutes, b=pause)
    paid = steps.call("the cents for the pump", "multiply", a=whole, b=cents)
    sentences = (
        f"A {place} is {long} m long, {wide} m wide and {deep} m deep.",
        f"It is filled at a rate of {rate} cubic metres an hour.",
        f"The pump stops once for {pause} minutes and costs {cents} cents a minute, even while it stands still.",
    )
    return WordProblem(
        sentences,
        f"How many cents does the pump cost until the {place} is full?",
        paid,
        (Fraction(long * wide * deep * 60, rate) + pause) * cents,
    )


def meeting(draw: random.Random, steps: Steps) -> WordProblem:
    names, (fast, slow), hours = draw.sample(NAMES, 2), sorted(draw.sample(range(12, 35), 2), reverse=True), draw.randint(2, 9)
    closing = steps.call("the kilometres by which they come closer in an hour", "add", a=fast, b=slow)
    time = steps.call("the hours until they meet", "divide", a=(fast + slow) * hours, b=closing)
    way = steps.call(f"the kilometres that {names[0]} has cycled", "multiply", a=time, b=fast)
    other = steps.call(f"the kilometres that {names[1]} has cycled", "multiply", a=time, b=slow)
    gap = steps.call("the difference in kilometres", "subtract", a=way, b=other)
    metres = steps.call("the difference in metres", "convert_units", value=gap, from_unit="km", to_unit="m")
    sentences = (
        f"{names[0]} and {names[1]} live {(fast + slow) * hours} km apart and cycle towards each other.",
        f"{names[0]} covers {fast} km an hour, {names[1]} {slow} km.",
    )
    return WordProblem(
        sentences,
        f"How many metres more than {names[1]} has {names[0]} cycled when they meet?",
        metres,
        (fast - slow) * hours * 1000,
    )


def chase(draw: random.Random, steps: Steps) -> WordProblem:
    names, slow, faster, hours = draw.sample(NAMES, 2), draw.randint(10, 30), draw.randint(3, 9), draw.randint(2, 9)
    rest = draw.randint(31, 59)
    gain = steps.call("the kilometres gained in an hour", "subtract", a=slow + faster, b=slow)
    time = steps.call("the hours until the lead is gone", "divide", a=faster * hours, b=gain)
    way = steps.call(f"the kilometres that {names[1]} has ridden", "multiply", a=time, b=slow + faster)
    back = steps.call("the kilometres there and back", "add", a=way, b=way)
    home = steps.call("the kilometres there and back and to the inn", "add", a=back, b=rest)
    sentences = (
        f"{names[0]} rides {slow} km an hour and has a lead of {faster * hours} km.",
        f"{names[1]} follows on the same road at {slow + faster} km an hour.",
        f"On catching up, {names[1]} turns round, rides back to the start, and from there another {rest} km to an inn.",
    )
    return WordProblem(
        sentences, f"How many kilometres has {names[1]} ridden on reaching the inn?", home, 2 * hours * (slow + faster) + rest
    )


def load_limit(draw: random.Random, steps: Steps) -> WordProblem:
    vehicle, kilos, count, tonnes = (
        draw.choice(("lorry", "barge", "lift")),
        draw.randint(20, 60),
        draw.randint(11, 40),
        draw.randint(3, 9),
    )
    crate, taken = draw.choice((5, 8, 10)), draw.randint(2, 4)
    limit = steps.call("the kilograms that may be loaded", "convert_units", value=tonnes, from_unit="tonne", to_unit="kg")
    rest = steps.call("the number of sacks that stay", "subtract", a=count, b=taken)
    load = steps.call("the kilograms of the sacks that stay", "multiply", a=kilos, b=rest)
    room = steps.call("the kilograms that may still be added", "subtract", a=limit, b=load)
    over = steps.call("the kilograms that make no whole crate", "remainder", a=room, b=crate)
    fit = steps.call("the kilograms of crates that may be added", "subtract", a=room, b=over)
    sentences = (
        f"A {vehicle} may carry {tonnes} tonnes.",
        f"It held {count} sacks of {kilos} kg, of which {taken} have been taken off.",
        f"Only whole crates of {crate} kg can be added.",
    )
    wanted = tonnes * 1000 - kilos * (count - taken)
    return WordProblem(sentences, "How many kilograms of crates may be added at most?", fit, wanted - wanted % crate)


def bottles(draw: random.Random, steps: Steps) -> WordProblem:
    name, litres, size = draw.choice(NAMES), draw.randint(3, 40), draw.choice((125, 200, 250, 500))
    free_bottles, price, cost = draw.randint(3, 5), draw.randint(3, 9), draw.randint(41, 69)
    amount = steps.call("the millilitres of juice", "convert_units", value=litres, from_unit="l", to_unit="ml")
    filled = steps.call("the number of bottles filled", "divide", a=amount, b=size)
    sold = steps.call("the number of bottles sold", "subtract", a=filled, b=free_bottles)
    taken = steps.call("the dollars taken for the bottles", "multiply", a=sold, b=price)
    all_in_all = steps.call("the dollars taken with those for the peel", "add", a=taken, b=cost)
    sentences = (
        f"{name} presses {litres} l of juice and fills bottles of {size} ml.",
        f"{free_bottles} bottles are given away, the others are sold for ${price} each, and a farmer buys the peel for ${cost}.",
    )
    wanted = (Fraction(litres * 1000, size) - free_bottles) * price + cost
    return WordProblem(sentences, f"How many dollars does {name} take in all?", all_in_all, wanted)


def two_clocks(draw: random.Random, steps: Steps) -> WordProblem:
    name, hours, minutes, films = draw.choice(NAMES), draw.randint(4, 12), draw.randint(11, 20), draw.randint(3, 9)
    talks, pause = draw.choice((2, 4, 5)), draw.randint(21, 29)
    evening = steps.call("the minutes of the evening", "convert_units", value=hours, from_unit="hour", to_unit="minute")
    film_minutes = steps.call("the minutes of all films", "multiply", a=minutes, b=films)
    rest = steps.call("the minutes without a film", "subtract", a=evening, b=film_minutes)
    talk = steps.call("the minutes for talk", "subtract", a=rest, b=pause)
    seconds = steps.call("the seconds for talk", "convert_units", value=talk, from_unit="minute", to_unit="second")
    each = steps.call("the seconds for each talk", "divide", a=seconds, b=talks)
    sentences = (
        f"{name} plans an evening of {hours} hours.",
        f"{films} short films of {minutes} minutes are shown, and there is one break of {pause} minutes.",
        f"The rest of the time is shared equally by {talks} talks.",
    )
    wanted = Fraction((hours * 60 - minutes * films - pause) * 60, talks)
    return WordProblem(sentences, "How many seconds does each talk get?", each, wanted)


def slower_clock(draw: random.Random, steps: Steps) -> WordProblem:
    place, seconds, weeks = draw.choice(("tower", "station", "school")), draw.choice((20, 30, 40, 60)), draw.randint(3, 12)
    extra = draw.randint(2, 6)
    days = steps.call("the days in the weeks", "convert_units", value=weeks, from_unit="week", to_unit="day")
    total = steps.call("the days that pass", "add", a=days, b=extra)
    lost = steps.call("the seconds lost", "multiply", a=total, b=seconds)
    sentences = (
        f"A {place} clock loses {seconds} seconds a day.",
        f"It is set right and then left alone for {weeks} weeks and {extra} days.",
    )
    return WordProblem(sentences, "By how many seconds is the clock slow then?", lost, (weeks * 7 + extra) * seconds)


def scale_model(draw: random.Random, steps: Steps) -> WordProblem:
    name, thing, length = draw.choice(NAMES), draw.choice(("bridge", "ship", "train")), draw.randint(12, 95)
    ratio, base, copies = draw.choice((20, 25, 50)), draw.randint(11, 18), draw.randint(3, 9)
    real = steps.call(f"the centimetres of the {thing}", "convert_units", value=length, from_unit="m", to_unit="cm")
    model = steps.call("the centimetres of the model", "divide", a=real, b=ratio)
    whole = steps.call("the centimetres of a model with its base", "add", a=model, b=base)
    row = steps.call("the centimetres of all models", "multiply", a=whole, b=copies)
    millimetres = steps.call("the millimetres of all models", "convert_units", value=row, from_unit="cm", to_unit="mm")
    sentences = (
        f"{name} builds models of a {thing} that is {length} m long.",
        f"The scale is 1 to {ratio}, and a base makes each model {base} cm longer.",
        f"{copies} such models stand in a row, end to end.",
    )
    wanted = (Fraction(length * 100, ratio) + base) * copies * 10
    return WordProblem(sentences, "How many millimetres long is the row?", millimetres, wanted)


def fence(draw: random.Random, steps: Steps) -> WordProblem:
    name, (long, wide), gate, price = draw.choice(NAMES), draw.sample(range(20, 70), 2), draw.randint(3, 9), draw.randint(11, 19)
    half = steps.call("the metres of two sides that meet", "add", a=long, b=wide)
    around = steps.call("the metres around the garden", "add", a=half, b=half)
    built = steps.call("the metres of fence", "subtract", a=around, b=gate)
    paid = steps.call("the price of the fence", "multiply", a=built, b=price)
    sentences = (
        f"The garden of {name} is a rectangle of {long} m by {wide} m.",
        f"A fence runs all the way round it except for a gate {gate} m wide, and costs ${price} a metre.",
    )
    return WordProblem(sentences, "How many dollars does the fence cost?", paid, (2 * (long + wide) - gate) * price)


def three_jars(draw: random.Random, steps: Steps) -> WordProblem:
    name, (x, y, z) = draw.choice(NAMES), draw.sample(range(11, 99), 3)
    cents, percent = draw.randint(3, 9), draw.choice((5, 10, 20))
    first = steps.call("the heavier of the red and the blue jar in grams", "maximum", a=x, b=y)
    heaviest = steps.call("the heaviest jar in grams", "maximum", a=first, b=z)
    some = steps.call("the grams of the red and the blue jar together", "add", a=x, b=y)
    whole = steps.call("the grams of all jars", "add", a=some, b=z)
    rest = steps.call("the grams of the jars that are sold", "subtract", a=whole, b=heaviest)
    price = steps.call("the cents for the jars that are sold", "multiply", a=rest, b=cents)
    off = steps.call("the cents of discount", "percent_of", percent=percent, number=price)
    paid = steps.call("the cents to be paid", "subtract", a=price, b=off)
    sentences = (
        f"{name} weighs three jars of honey: the red one weighs {x} g, the blue one {y} g and the green one {z} g.",
        f"The heaviest is kept; the other jars are sold at {cents} cents a gram, less {percent} percent.",
    )
    return WordProblem(
        sentences,
        "How many cents are the other jars sold for?",
        paid,
        (x + y + z - max(x, y, z)) * cents * Fraction(100 - percent, 100),
    )


def night_share(draw: random.Random, steps: Steps) -> WordProblem:
    lodge, guests, nights, each = (
        draw.choice(("hut", "hostel", "houseboat")),
        draw.randint(3, 9),
        draw.randint(4, 9),
        draw.randint(11, 40),
    )
    bill, meals, tip = guests * each, draw.randint(41, 70), draw.choice((5, 10, 20))
    whole = steps.call("what all nights cost", "multiply", a=bill, b=nights)
    share = steps.call("what one guest pays for all nights", "divide", a=whole, b=guests)
    spent = steps.call("what one guest pays with the meals", "add", a=share, b=meals)
    extra = steps.call("the tip of one guest", "percent_of", percent=tip, number=spent)
    total = steps.call("what one guest pays with the tip", "add", a=spent, b=extra)
    sentences = (
        f"A {lodge} costs ${bill} a night and is shared equally by {guests} guests for {nights} nights.",
        f"Each guest also spends ${meals} on meals, and leaves a tip of {tip} percent on the whole amount.",
    )
    wanted = (each * nights + meals) * Fraction(100 + tip, 100)
    return WordProblem(sentences, "How many dollars does each guest spend with the tip?", total, wanted)


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
