"""Forms about events and money: what is on record for each, and what is worked out. Forms and requests: `wording.toml`."""

from __future__ import annotations

from typing import Any

from ..generating import Draft
from .desk import (
    CARRIERS,
    COUNTRIES,
    FIRMS,
    GOODS,
    PEOPLE,
    SEVERITIES,
    TOWNS,
    Calendar,
    Desk,
    cents,
    code_table,
    currencies,
    numbered,
)


def incident(desk: Desk) -> Draft:
    draw, calendar = desk, Calendar(desk)
    table = code_table(draw, "S", SEVERITIES)
    states = code_table(draw, "Z", ("running", "degraded", "stopped", "scrapped"))
    hit = [
        {"asset": f"{letter}-{draw.integer(100, 999)}", "hours_down": draw.integer(1, 70), "state_code": draw.choice(list(states))}
        for letter in draw.sample("ABCDEFG", draw.integer(2, 3))
    ]
    head = {
        "site": draw.choice(TOWNS),
        "reported": calendar.after(0, 200),
        "severity_code": draw.choice(list(table)),
        "owner": draw.choice((None, *PEOPLE[8:14])),
        "closed": draw.choice((None, calendar.after(201, 300))),
        "reply_days": draw.integer(5, 45),
    }
    reference = f"IR-{draw.integer(10_000, 99_999)}"
    record = desk.file("incident", {"head": head} | numbered("asset", hit), reference=reference)

    report = record["head"]
    assets = [record[name] for name in numbered("asset", hit)]
    severity = desk.code("severities", table, report["severity_code"])
    conditions = [desk.code("states", states, asset["state_code"]) for asset in assets]
    due = desk.later("Find the day by which a reply is due.", report["reported"], report["reply_days"])
    hours = desk.sum("Add up the hours of standstill.", [asset["hours_down"] for asset in assets])
    desk.ask(locals())
    return desk.fill(locals())


def itinerary(desk: Desk) -> Draft:
    draw, calendar = desk, Calendar(desk)
    own, other = currencies(desk, 2)
    stops = draw.sample(TOWNS, draw.integer(3, 5))
    days = sorted(calendar.after(0, 45) for _ in stops[1:])
    legs = [
        {"from": start, "to": end, "on": when, "minutes": draw.integer(35, 640), "fare": cents(draw, 900, 48_000),
         "by": draw.choice(CARRIERS), "seat": draw.choice((None, f"{draw.integer(1, 40)}{draw.choice('ABCDEF')}"))}
        for start, end, when in zip(stops[:-1], stops[1:], days, strict=True)
    ]  # fmt: skip
    head = {"traveller": draw.choice(PEOPLE), "agency": draw.choice(FIRMS), "currency": own, "is_flexible": draw.chance(0.5)}
    reference = f"TR-{draw.integer(10_000, 99_999)}"
    record = desk.file("journey", {"head": head} | numbered("leg", legs), reference=reference)

    trips = [record[name] for name in numbered("leg", legs)]
    minutes = desk.sum("Add up the minutes under way.", [trip["minutes"] for trip in trips])
    fares = desk.sum("Add up the fares.", [trip["fare"] for trip in trips])
    converted = desk.currency("Convert the fares.", fares, own, other)
    away = desk.days("Count the days from the first leg to the last.", trips[0]["on"], trips[-1]["on"])
    desk.ask(locals())
    return desk.fill(locals())


def loan(desk: Desk) -> Draft:
    """A book, its authors and its copies, of which some are lent out."""
    draw, calendar = desk, Calendar(desk)
    table = code_table(draw, "C", ("on shelf", "lent", "at the binder", "missing"))
    lent = next(code for code, meaning in table.items() if meaning == "lent")
    words = draw.sample(("Light", "Salt", "Harbours", "Winter", "Clocks", "Bridges", "Gardens", "Silence", "Maps"), 2)
    head = {"title": f"{words[0]} and {words[1]}", "shelf": f"{draw.choice('ABCD')}{draw.integer(10, 99)}.{draw.integer(100, 999)}",
            "year": draw.integer(1890, 2023), "translator": draw.choice((None, draw.choice(PEOPLE)))}  # fmt: skip
    authors = [dict(zip(("given", "family"), name.split(), strict=True)) for name in draw.sample(PEOPLE, draw.integer(1, 2))]
    codes = [lent, *(draw.choice(list(table)) for _ in range(draw.integer(1, 2)))]
    copies = [
        {
            "barcode": str(draw.integer(10_000_000, 99_999_999)),
            "state_code": code,
            "due": calendar.after(0, 60) if code == lent else None,
        }
        for code in codes
    ]
    today = calendar.after(61, 200)
    reference = f"BK-{draw.integer(10_000, 99_999)}"
    sections = {"head": head} | numbered("author", authors) | numbered("copy", copies)
    record = desk.file("book", sections, reference=reference)
    counter = desk.file(
        "counter", {"day": {"today": today, "fee_per_day": cents(draw, 5, 90)}}, reference=f"CT-{draw.integer(10, 99)}"
    )

    volumes = [record[name] for name in numbered("copy", copies)]
    states = [desk.code("copy states", table, volume["state_code"]) for volume in volumes]
    late = desk.days("Count the days by which copy 1 is late.", volumes[0]["due"], counter["day"]["today"])
    fee = desk.times("Work out the fee for copy 1.", late, counter["day"]["fee_per_day"])
    _, written = record["head"], [record[name] for name in numbered("author", authors)]
    desk.ask(locals())
    return desk.fill(locals())


def fixture(desk: Desk) -> Draft:
    draw, calendar = desk, Calendar(desk)
    home, away = draw.sample(TOWNS, 2)
    sides = code_table(draw, "T", ("home", "away"))
    minutes, people = sorted(draw.sample(range(2, 90), 3)), draw.sample(PEOPLE, 6)
    scored = [
        {"minute": minute, "player": player, "side_code": draw.choice(list(sides)), "assist": draw.choice((None, helper))}
        for minute, player, helper in zip(minutes, people[:3], people[3:], strict=True)
    ]
    head: dict[str, Any] = {
        "home": f"{home} Rovers",
        "away": f"{away} United",
        "on": calendar.after(0, 250),
        "seats_sold": draw.integer(900, 41_000),
    }
    gate: dict[str, Any] = {
        "price": cents(draw, 600, 4_800),
        "free_tickets": draw.integer(40, 700),
        "tax_percent": draw.integer(5, 24),
    }
    reference = f"MT-{draw.integer(10_000, 99_999)}"
    record = desk.file("match", {"head": head, "gate": gate} | numbered("goal", scored), reference=reference)

    goals = [record[name] for name in numbered("goal", scored)]
    teams = [desk.code("sides", sides, goal["side_code"]) for goal in goals]
    present = desk.sum("Count everybody in the stadium.", [record["head"]["seats_sold"], record["gate"]["free_tickets"]])
    takings = desk.times("Work out the takings.", record["head"]["seats_sold"], record["gate"]["price"])
    tax = desk.rounded("Round the entertainment tax.", desk.percent("Find the tax.", record["gate"]["tax_percent"], takings))
    desk.ask(locals())
    return desk.fill(locals())


def invoice(desk: Desk) -> Draft:
    draw = desk
    own, other = currencies(desk, 2)
    head = {
        "buyer": draw.choice(FIRMS),
        "country": draw.choice(COUNTRIES),
        "discount_percent": draw.integer(2, 15),
        "currency": own,
        "contact": draw.choice((None, *PEOPLE[:4])),
    }
    sold = [
        {"item": item, "quantity": draw.integer(3, 60), "unit_price": cents(draw, 150, 9_900)}
        for item in draw.sample(GOODS, draw.integer(2, 4))
    ]
    reference = f"PO-{draw.integer(10_000, 99_999)}"
    order = desk.file("order", {"head": head} | numbered("line", sold), reference=reference)

    lines = [order[name] for name in numbered("line", sold)]
    amounts = [
        desk.times(f"Work out the amount of line {place}.", line["quantity"], line["unit_price"])
        for place, line in enumerate(lines, 1)
    ]
    net = desk.sum("Add up the lines.", amounts)
    discount = desk.rounded("Round the discount.", desk.percent("Find the discount.", order["head"]["discount_percent"], net))
    payable = desk.minus("Take the discount off.", net, discount)
    converted = desk.currency("Convert what is payable.", payable, own, other)
    desk.ask(locals())
    return desk.fill(locals())


def payslip(desk: Desk) -> Draft:
    draw = desk
    table = code_table(draw, "W", ("base pay", "overtime", "night work", "on call", "bonus", "sick pay"))
    worked = [
        {"type_code": code, "hours": draw.integer(4, 150), "rate": cents(draw, 1_400, 6_900)}
        for code in draw.sample(list(table), draw.integer(2, 3))
    ]
    head = {
        "employee": f"EM-{draw.integer(1_000, 9_999)}",
        "tax_percent": draw.integer(14, 39),
        "pension": cents(draw, 4_000, 29_000),
        "period": f"{draw.integer(2019, 2025)}-{draw.integer(1, 12):02d}",
    }
    contract = {
        "name": draw.choice(PEOPLE),
        "grade": draw.choice("ABCDEFG"),
        "car": draw.choice((None, f"K-{draw.integer(100, 999)}")),
        "bank": draw.choice(FIRMS),
    }
    reference = f"PS-{draw.integer(10_000, 99_999)}"
    slip = desk.file("payslip", {"head": head} | numbered("earning", worked), reference=reference)
    employee = desk.file("employee", {"contract": contract}, reference=slip["head"]["employee"])

    earnings = [slip[name] for name in numbered("earning", worked)]
    kinds = [desk.code("wage types", table, earning["type_code"]) for earning in earnings]
    amounts = [
        desk.times(f"Work out what earning {place} comes to.", earning["hours"], earning["rate"])
        for place, earning in enumerate(earnings, 1)
    ]
    gross = desk.sum("Add up all earnings.", amounts)
    tax = desk.rounded("Round the tax.", desk.percent("Find the tax.", slip["head"]["tax_percent"], gross))
    net = desk.minus("Take off the pension.", desk.minus("Take off the tax.", gross, tax), slip["head"]["pension"])
    desk.ask(locals())
    return desk.fill(locals())


def grant(desk: Desk) -> Draft:
    draw = desk
    own, *foreign = currencies(desk, 4)
    titles = draw.sample(("travel", "equipment", "software", "field work", "printing", "training", "insurance"), 3)
    paid = [
        {"title": title, "amount": cents(draw, 30_000, 990_000), "currency": currency, "approved": draw.chance(0.5)}
        for title, currency in zip(titles, foreign, strict=True)
    ]
    head = {
        "leader": draw.choice(PEOPLE),
        "partner": draw.choice((None, draw.choice(FIRMS))),
        "granted": draw.integer(20_000, 60_000),
        "currency": own,
    }
    reference = f"GR-{draw.integer(1_000, 9_999)}"
    record = desk.file("grant", {"head": head} | numbered("item", paid), reference=reference)

    items = [record[name] for name in numbered("item", paid)]
    costs = [
        desk.currency(f"Convert the amount of item {place}.", item["amount"], currency, own)
        for place, (item, currency) in enumerate(zip(items, foreign, strict=True), 1)
    ]
    total = desk.sum("Add up all costs.", costs)
    unspent = desk.minus("Find out what is left of the grant.", record["head"]["granted"], total)
    desk.ask(locals())
    return desk.fill(locals())


def lease(desk: Desk) -> Draft:
    draw, calendar = desk, Calendar(desk)
    head = {
        "tenant": draw.choice(PEOPLE),
        "from": calendar.after(0, 40),
        "to": calendar.after(380, 1_500),
        "rent": cents(draw, 40_000, 250_000),
        "deposit_months": draw.integer(2, 6),
        "notice_days": draw.choice((30, 42, 60, 90, 120)),
    }
    place = {
        "street": f"{draw.choice(('Mill', 'Harbour', 'Chapel', 'Station'))} {draw.choice(('Lane', 'Road', 'Row'))}",
        "house": draw.integer(2, 240),
        "postcode": f"{draw.choice('ABDEGHKLNS')}{draw.integer(10, 99)}-{draw.integer(100, 999)}",
        "town": draw.choice(TOWNS),
        "floor": draw.choice((None, 1, 2, 3, 4)),
    }
    others = [{"name": name, "since": calendar.after(0, 300)} for name in draw.sample(PEOPLE, draw.integer(1, 3))]
    reference = f"LE-{draw.integer(10_000, 99_999)}"
    record = desk.file("lease", {"terms": head, "place": place} | numbered("resident", others), reference=reference)

    terms, address = record["terms"], record["place"]
    residents = [record[name] for name in numbered("resident", others)]
    days = desk.days("Count the days of the term.", terms["from"], terms["to"])
    deposit = desk.times("Work out the deposit.", terms["rent"], terms["deposit_months"])
    notice = desk.later("Find the first day on which notice may have its effect.", terms["from"], terms["notice_days"])
    desk.ask(locals())
    return desk.fill(locals())
