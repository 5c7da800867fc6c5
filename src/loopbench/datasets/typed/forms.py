"""The kinds of form. Each function puts records on file, plans what is to be looked up in them, and lays the form out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps

from ..generating import Draft, Draw, Source, Template, generate
from ..task import Suite, Task
from ..worlds import WorldEnvironment
from .desk import Calendar, Desk, Field, Value, coded, day, number, one_of, or_null, rows, text, whole, yes_no
from .records import Records, environment

NAME = "typed"

_PEOPLE = (
    "Abel Okoro", "Beata Lind", "Cem Aydin", "Dora Kovacs", "Emil Novak", "Farah Aziz", "Goran Petrov", "Hilde Brandt",
    "Isla Murray", "Joao Pinto", "Kaito Mori", "Lea Fontaine", "Mina Rahimi", "Nils Dahl", "Olga Orlova", "Paolo Ricci",
    "Rosa Diaz", "Samir Haddad", "Tove Berg", "Uma Nair",
)  # fmt: skip
_TOWNS = (
    "Alverton", "Brackwater", "Calder Bay", "Dunmore", "Eastholm", "Farrow", "Glenrock", "Hartwell", "Inverlea", "Jarrow Point",
    "Kestrel Cove", "Lowmarsh", "Millbrook", "Northgate", "Oldcastle", "Penhurst", "Quarryton", "Redcliff", "Stonebridge", "Thornby",
)  # fmt: skip
_FIRMS = (
    "Aster Works", "Borealis Foods", "Cobalt Tools", "Delta Glass", "Ember Textiles", "Fjord Marine", "Granite Labs", "Helix Print",
    "Indigo Rail", "Juniper Farms", "Keystone Paper", "Lumen Optics", "Meridian Air", "Nimbus Data", "Orchard Crafts",
)  # fmt: skip
_GOODS = (
    "bolts", "brackets", "cable drums", "castors", "clamps", "filters", "gaskets", "hinges", "hoses", "lamps",
    "panels", "pumps", "rollers", "sensors", "springs", "valves",
)  # fmt: skip
_RATES = {"EUR": (1, 1), "USD": (84, 98), "GBP": (112, 121), "CHF": (99, 108), "SEK": (8, 10), "PLN": (21, 25), "CAD": (62, 70)}
"""Currency → euro cents for one of it, from and to."""

Form = Mapping[str, Field]
Filled = tuple[str, Form]
"""The question and the form's fields."""

FILLING: dict[str, Callable[[Desk], Filled]] = {}
"""Kind of form → what fills it."""


def _form(fill: Callable[[Desk], Filled]) -> Template:
    """A template that keeps nothing but a key in the task's world: what stands on record is drawn from it again."""
    kind = fill.__name__.strip("_")
    FILLING[kind] = fill

    @wraps(fill)
    def template(draw: Draw) -> Draft:
        key = draw.integer(0, 10**12)
        desk = _desk(kind, key)
        return desk.draft({"form": kind, "key": key}, *fill(desk))

    return template


def _desk(kind: str, key: int) -> Desk:
    return Desk(Draw(NAME, kind, key))


def _open(task: Task) -> WorldEnvironment[Records]:
    desk = _desk(task.world["form"], task.world["key"])
    FILLING[task.world["form"]](desk)
    return environment(desk.records)


# Money


@_form
def _invoice(desk: Desk) -> Filled:
    draw = desk.draw
    firm, currency = draw.choice(_FIRMS), _currencies(desk, 2)
    head = {"buyer": firm, "country": draw.choice(_COUNTRIES), "discount_percent": draw.integer(2, 15), "currency": currency[0]}
    goods = draw.sample(_GOODS, draw.integer(2, 4))
    lines = {
        f"line {place}": {"item": item, "quantity": draw.integer(3, 60), "unit_price": draw.integer(150, 9_900) / 100}
        for place, item in enumerate(goods, 1)
    }
    reference = f"PO-{draw.integer(10_000, 99_999)}"
    order = desk.file("order", {"head": head, **lines}, reference=reference)
    positions, amounts = [], []
    for name in lines:
        line = order[name]
        amount = desk.times(f"Work out the amount of {name}.", line["quantity"], line["unit_price"])
        amounts.append(amount)
        positions.append(
            desk.group(
                {
                    "item|article|goods": text(line["item"]),
                    "quantity|count|pieces": whole(line["quantity"], 1),
                    "unit_price|price_each": number(line["unit_price"]),
                    "amount|line_total": number(amount),
                }
            )
        )
    net = desk.sum("Add up the lines.", amounts)
    discount = desk.rounded("Round the discount.", desk.percent("Find the discount.", order["head"]["discount_percent"], net))
    payable = desk.minus("Take the discount off.", net, discount)
    local = desk.currency("Convert what is payable.", payable, *currency)
    question = draw.choice(
        (
            f"Write the invoice for order {reference}: the discount on the net sum is rounded to cents, "
            f"and the payable amount is also given in {currency[1]}.",
            f"{firm} waits for the invoice on order {reference}. Take off the discount, rounded to cents, from the sum of "
            f"all lines, and state what is payable in the order's currency and in {currency[1]}.",
            f"Bill the order with reference {reference}, line by line; net sum less discount (rounded to cents) is payable, "
            f"in {currency[1]} too.",
        )
    )
    return question, {
        "buyer|customer|bill_to": desk.group(
            {"name|company": text(order["head"]["buyer"]), "country|country_code": one_of(order["head"]["country"], _COUNTRIES)}
        ),
        "lines|items|positions": rows(positions, 1, draw.integer(5, 9)),
        "totals|sums|summary": desk.group(
            {
                "net|net_sum": number(net),
                "discount|rebate": number(discount),
                "payable|due": number(payable),
                "payable_converted|due_converted": number(local),
                "currency|order_currency": one_of(order["head"]["currency"], sorted(desk.records.rates)),
            }
        ),
    }


@_form
def _payslip(desk: Desk) -> Filled:
    draw = desk.draw
    person, number_of = draw.choice(_PEOPLE), f"EM-{draw.integer(1_000, 9_999)}"
    table = _table(draw, "wage type", "W", ("base pay", "overtime", "night work", "on call", "bonus", "sick pay"))
    types = draw.sample(list(table), draw.integer(2, 3))
    period = f"{draw.integer(2019, 2025)}-{draw.integer(1, 12):02d}"
    earnings = {
        f"earning {place}": {"type_code": code, "hours": draw.integer(4, 150), "rate": draw.integer(1_400, 6_900) / 100}
        for place, code in enumerate(types, 1)
    }
    head = {"employee": number_of, "tax_percent": draw.integer(14, 39), "pension": draw.integer(4_000, 29_000) / 100, "period": period}
    reference = f"PS-{draw.integer(10_000, 99_999)}"
    slip = desk.file("payslip", {"head": head, **earnings}, reference=reference)
    contract = {"name": person, "grade": draw.choice("ABCDEFG"), "car": draw.choice((None, None, f"K-{draw.integer(100, 999)}"))}
    employee = desk.file("employee", {"contract": contract}, reference=slip["head"]["employee"])
    paid, amounts = [], []
    for name in earnings:
        earning = slip[name]
        amount = desk.times(f"Work out what {name} comes to.", earning["hours"], earning["rate"])
        amounts.append(amount)
        meaning = desk.code("wage types", table, earning["type_code"])
        paid.append(desk.group({"kind|type": one_of(meaning, sorted(table.values())), "hours": whole(earning["hours"]),
                                "amount|value": number(amount)}))  # fmt: skip
    gross = desk.sum("Add up all earnings.", amounts)
    tax = desk.rounded("Round the tax.", desk.percent("Find the tax.", slip["head"]["tax_percent"], gross))
    net = desk.minus("Take off the pension.", desk.minus("Take off the tax.", gross, tax), slip["head"]["pension"])
    question = draw.choice(
        (
            f"Make out payslip {reference}. The tax is a percentage of the gross pay, rounded to cents; tax and pension are taken off.",
            f"Payroll has to print the slip {reference}: gross pay, the tax on it (rounded to cents), the pension, and what remains.",
            f"Complete the payslip with reference {reference} for the employee that it names. Net is gross less tax (rounded to cents) and pension.",
        )
    )
    return question, {
        "employee|person|payee": desk.group(
            {
                "id|number": coded(slip["head"]["employee"], r"EM-\d{4}"),
                "name|full_name": text(employee["contract"]["name"]),
                "grade|band": one_of(employee["contract"]["grade"], draw.shuffled("ABCDEFG")),
                "company_car|car": or_null(text(employee["contract"]["car"])),
            }
        ),
        "period|month": coded(slip["head"]["period"], r"\d{4}-\d{2}"),
        "earnings|pay_items": rows(paid, 1, 6),
        "result|settlement": desk.group(
            {
                "gross|gross_pay": number(gross),
                "deductions|taken_off": desk.group({"tax": number(tax), "pension": number(slip["head"]["pension"])}),
                "net|net_pay": number(net),
            }
        ),
    }


@_form
def _grant(desk: Desk) -> Filled:
    draw = desk.draw
    leader, firm = draw.choice(_PEOPLE), draw.choice(_FIRMS)
    own, *foreign = _currencies(desk, 4)
    titles = draw.sample(("travel", "equipment", "software", "field work", "printing", "training", "insurance"), 3)
    items = {
        f"item {place}": {"title": title, "amount": draw.integer(30_000, 990_000) / 100, "currency": currency, "approved": draw.chance(0.5)}
        for place, (title, currency) in enumerate(zip(titles, foreign, strict=True), 1)
    }
    head = {"leader": leader, "partner": draw.choice((firm, None)), "granted": draw.integer(20_000, 60_000), "currency": own}
    reference = f"GR-{draw.integer(1_000, 9_999)}"
    grant = desk.file("grant", {"head": head, **items}, reference=reference)
    spent, costs = [], []
    for name, facts in items.items():
        item = grant[name]
        cost = desk.currency(f"Convert the amount of {name}.", item["amount"], facts["currency"], own)
        costs.append(cost)
        spent.append(
            desk.group(
                {
                    "title|purpose": text(item["title"]),
                    "original|as_paid": desk.group(
                        {"amount": number(item["amount"]), "currency|code": one_of(item["currency"], sorted(desk.records.rates))}
                    ),
                    "cost|converted": number(cost),
                    "approved|is_approved": yes_no(item["approved"]),
                }
            )
        )
    total = desk.sum("Add up all costs.", costs)
    left = desk.minus("Find out what is left of the grant.", grant["head"]["granted"], total)
    question = draw.choice(
        (
            f"Report on grant {reference}: every item's cost in the currency of the grant, what was spent, and what is left of it.",
            f"The account of the grant {reference} is due. Convert each item to the grant's own currency before adding up.",
            f"How was grant {reference} used? Put each item down as paid and in the currency in which the grant was given.",
        )
    )
    return question, {
        "grant|award": desk.group(
            {
                "reference|id": coded(grant["head"]["leader"], r"\w+ \w+") if False else text(grant["head"]["leader"]),
                "partner|partner_firm": or_null(text(grant["head"]["partner"])),
            }
        ),
        "items|expenses|costs": rows(spent, 1, 5),
        "balance|account": desk.group({"granted|budget": whole(grant["head"]["granted"]), "spent|used": number(total),
                                       "left|remaining": number(left)}),  # fmt: skip
    }
