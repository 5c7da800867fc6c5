"""Forms about what happened or will: an incident, a journey, a library loan, a match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..generating import Draft
from .desk import (
    FIRMS,
    PEOPLE,
    TOWNS,
    Calendar,
    Desk,
    FetchedSection,
    FormField,
    cents,
    code_table,
    coded,
    currencies,
    day,
    number,
    numbered,
    one_of,
    or_null,
    rows,
    text,
    whole,
    yes_no,
)

SEVERITIES = ("negligible", "minor", "moderate", "major", "critical")
CARRIERS = ("bus", "ferry", "plane", "train", "tram")


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
    return desk.form(
        {
            "event|incident": desk.group(
                {
                    "site|place": text(report["site"]),
                    "reported|reported_on": day(report["reported"]),
                    "severity|grade": one_of(severity, draw.shuffled(SEVERITIES)),
                }
            ),
            "assets|affected|equipment": rows([_asset(desk, *pair, states) for pair in zip(assets, conditions, strict=True)], 1, 6),
            "follow_up|next": desk.group(
                {
                    "owner|responsible": or_null(text(report["owner"])),
                    "closed|closed_on": or_null(day(report["closed"])),
                    "reply_by|due": day(due),
                }
            ),
            "hours_lost|total_hours": whole(hours),
        }
    )


def _asset(desk: Desk, asset: FetchedSection, condition: Any, states: Mapping[str, str]) -> FormField:
    return desk.group(
        {
            "asset|code": coded(asset["asset"], r"[A-G]-\d{3}"),
            "hours|standstill": whole(asset["hours_down"]),
            "state|condition": one_of(condition, sorted(states.values())),
        }
    )


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
    return desk.form(
        {
            "traveller|passenger": text(record["head"]["traveller"]),
            "legs|stages|segments": rows(
                [
                    desk.group(
                        {
                            "route|way": desk.group({"from": text(trip["from"]), "to": text(trip["to"])}),
                            "date|on": day(trip["on"]),
                            "by|carrier": one_of(trip["by"], CARRIERS),
                            "minutes|duration": whole(trip["minutes"], 1),
                            "seat|place": or_null(coded(trip["seat"], r"\d{1,2}[A-F]")),
                        }
                    )
                    for trip in trips
                ],
                1,
                draw.integer(5, 10),
            ),
            "summary|totals": desk.group(
                {
                    "minutes_total|under_way": whole(minutes),
                    "days_away|days": whole(away),
                    "price|cost": desk.group({"own|booked": number(fares), "converted|abroad": number(converted)}),
                    "flexible|can_change": yes_no(record["head"]["is_flexible"]),
                }
            ),
        }
    )


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
    desk.ask(locals())
    return desk.form(
        {
            "work|book": desk.group(
                {
                    "title|name": text(record["head"]["title"]),
                    "year|published": whole(record["head"]["year"], 1500),
                    "authors|written_by": rows([_author(desk, record[name]) for name in numbered("author", authors)], 1, 4),
                    "translator|translated_by": or_null(text(record["head"]["translator"])),
                }
            ),
            "shelf|call_number": coded(record["head"]["shelf"], r"[A-D]\d{2}\.\d{3}"),
            "copies|volumes|items": rows([_copy(desk, *copy, table) for copy in zip(volumes, states, strict=True)], 1, 5),
            "overdue|reminder": desk.group({"days|days_late": whole(late), "fee|charge": number(fee)}),
        }
    )


def _author(desk: Desk, author: FetchedSection) -> FormField:
    return desk.group({"family|surname": text(author["family"]), "given|first_name": text(author["given"])})


def _copy(desk: Desk, volume: FetchedSection, state: Any, table: Mapping[str, str]) -> FormField:
    return desk.group(
        {
            "barcode|label": coded(volume["barcode"], r"\d{8}"),
            "state|status": one_of(state, sorted(table.values())),
            "due|back_on": or_null(day(volume["due"])),
        }
    )


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
    return desk.form(
        {
            "teams|clubs": desk.group({"home|hosts": text(record["head"]["home"]), "away|guests": text(record["head"]["away"])}),
            "date|played_on": day(record["head"]["on"]),
            "goals|scored": rows(
                [
                    desk.group(
                        {
                            "minute|at": whole(goal["minute"], 1),
                            "player|scorer": text(goal["player"]),
                            "side|for": one_of(team, ("home", "away")),
                            "assist|set_up_by": or_null(text(goal["assist"])),
                        }
                    )
                    for goal, team in zip(goals, teams, strict=True)
                ],
                0,
                draw.integer(6, 12),
            ),
            "gate|box_office": desk.group(
                {"attendance|spectators": whole(present), "takings|income": number(takings), "tax|duty": number(tax)}
            ),
        }
    )
