"""Forms about money: an invoice, a payslip, the account of a grant, a lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..generating import Draft
from .desk import (
    COUNTRIES,
    FIRMS,
    GOODS,
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
    return desk.form(
        {
            "buyer|customer|bill_to": desk.group(
                {
                    "name|company": text(order["head"]["buyer"]),
                    "country|country_code": one_of(order["head"]["country"], COUNTRIES),
                    "contact|attention": or_null(text(order["head"]["contact"])),
                }
            ),
            "lines|items|positions": rows(
                [_invoice_line(desk, *line) for line in zip(lines, amounts, strict=True)], 1, draw.integer(5, 9)
            ),
            "totals|sums|summary": desk.group(
                {
                    "net|net_sum": number(net),
                    "discount|rebate": number(discount),
                    "payable|due": number(payable),
                    "payable_converted|due_converted": number(converted),
                    "currency|order_currency": one_of(order["head"]["currency"], sorted(desk.records.rates)),
                }
            ),
        }
    )


def _invoice_line(desk: Desk, line: FetchedSection, amount: Any) -> FormField:
    return desk.group(
        {
            "item|article|goods": text(line["item"]),
            "quantity|count|pieces": whole(line["quantity"], 1),
            "unit_price|price_each": number(line["unit_price"]),
            "amount|line_total": number(amount),
        }
    )


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
    return desk.form(
        {
            "employee|person|payee": desk.group(
                {
                    "id|staff_number": coded(slip["head"]["employee"], r"EM-\d{4}"),
                    "name|full_name": text(employee["contract"]["name"]),
                    "grade|band": one_of(employee["contract"]["grade"], draw.shuffled("ABCDEFG")),
                    "company_car|car": or_null(text(employee["contract"]["car"])),
                }
            ),
            "period|month": coded(slip["head"]["period"], r"\d{4}-\d{2}"),
            "earnings|pay_items|wages": rows(
                [_earning(desk, *earned, table) for earned in zip(earnings, kinds, amounts, strict=True)], 1, 6
            ),
            "result|settlement": desk.group(
                {
                    "gross|gross_pay": number(gross),
                    "deductions|taken_off": desk.group({"tax|wage_tax": number(tax), "pension": number(slip["head"]["pension"])}),
                    "net|net_pay": number(net),
                }
            ),
        }
    )


def _earning(desk: Desk, earning: FetchedSection, kind: Any, amount: Any, table: Mapping[str, str]) -> FormField:
    return desk.group(
        {
            "kind|wage_type": one_of(kind, sorted(table.values())),
            "hours|hours_worked": whole(earning["hours"]),
            "amount|value": number(amount),
        }
    )


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
    return desk.form(
        {
            "award|grant": desk.group(
                {
                    "leader|principal": text(record["head"]["leader"]),
                    "partner|partner_firm": or_null(text(record["head"]["partner"])),
                }
            ),
            "items|expenses|costs": rows(
                [
                    desk.group(
                        {
                            "purpose|title": text(item["title"]),
                            "as_paid|original": desk.group(
                                {
                                    "sum|amount": number(item["amount"]),
                                    "currency": one_of(item["currency"], sorted(desk.records.rates)),
                                }
                            ),
                            "cost|converted": number(cost),
                            "approved|is_approved": yes_no(item["approved"]),
                        }
                    )
                    for item, cost in zip(items, costs, strict=True)
                ],
                1,
                5,
            ),
            "balance|account": desk.group(
                {"granted|budget": whole(record["head"]["granted"]), "spent|used": number(total), "left|remaining": number(unspent)}
            ),
        }
    )


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
    return desk.form(
        {
            "property|premises": _premises(desk, address),
            "tenant|lessee": text(terms["tenant"]),
            "residents|others": rows(
                [desk.group({"name": text(item["name"]), "since|moved_in": day(item["since"])}) for item in residents], 0, 5
            ),
            "term|duration": desk.group(
                {
                    "first_day|from": day(terms["from"]),
                    "last_day|to": day(terms["to"]),
                    "days|length": whole(days),
                    "earliest_end|end_by_notice": day(notice),
                }
            ),
            "money|payments": desk.group({"monthly|rent": number(terms["rent"]), "deposit|security": number(deposit)}),
        }
    )


def _premises(desk: Desk, place: FetchedSection) -> FormField:
    address = desk.group(
        {
            "street": text(place["street"]),
            "number|house": whole(place["house"], 1),
            "postcode|zip": coded(place["postcode"], r"[A-Z]\d{2}-\d{3}"),
            "town|city": text(place["town"]),
        }
    )
    return desk.group({"address": address, "floor|storey": or_null(whole(place["floor"]))})
