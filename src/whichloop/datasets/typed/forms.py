"""The forms: what is on record for each, and what is worked out. Facts, fields and requests: `wording.toml`."""

from __future__ import annotations

from typing import Any

from ..generating import Draft
from .desk import Desk, FormField, Opened


def incident(desk: Desk) -> Draft:
    desk.start_calendar()
    desk.draw_codes()
    hit = desk.rows("asset", "ABCDEFG", desk.integer(2, 3))
    record = desk.file("incident", "IR-[10000-99999]", head=desk.facts("head"), asset=hit)
    report, assets = record["head"], [*record.each("asset")]
    severity = desk.code("severities", report["severity_code"])
    conditions = [desk.code("states", asset["state_code"]) for asset in assets]
    due = desk.once("Find the day by which a reply is due.", "add_days", report["reported"], report["reply_days"])
    hours = desk.once("Add up the hours of standstill.", "sum_values", [asset["hours_down"] for asset in assets])
    return desk.fill(locals())


def itinerary(desk: Desk) -> Draft:
    desk.start_calendar()
    own, other = desk.currencies(2)
    stops = desk.sample(desk.options("towns"), desk.integer(3, 5))
    days = sorted(desk.drawn("day [0-45]") for _ in stops[1:])
    legs = [desk.facts("leg", start=start, end=end, on=on) for start, end, on in zip(stops, stops[1:], days, strict=False)]
    record = desk.file("journey", "TR-[10000-99999]", head=desk.facts("head", own=own), leg=legs)
    trips = [*record.each("leg")]
    minutes = desk.once("Add up the minutes under way.", "sum_values", [trip["minutes"] for trip in trips])
    fares = desk.once("Add up the fares.", "sum_values", [trip["fare"] for trip in trips])
    converted = desk.once("Convert the fares.", "convert_currency", fares, own, other)
    away = desk.once("Count the days from the first leg to the last.", "days_between", trips[0]["on"], trips[-1]["on"])
    return desk.fill(locals())


def loan(desk: Desk) -> Draft:
    """A book, its authors and its copies, of which some are lent out."""
    desk.start_calendar()
    desk.draw_codes()
    meanings = desk.records.tables["copy states"]
    lent = next(code for code, meaning in meanings.items() if meaning == "lent")
    one, two = desk.sample(desk.options("titles"), 2)
    head = desk.facts("head", one=one, two=two)
    names = desk.sample(desk.options("people"), desk.integer(1, 2))
    authors = [dict(zip(("given", "family"), name.split(), strict=True)) for name in names]
    codes = [lent, *(desk.choice(list(meanings)) for _ in range(desk.integer(1, 2)))]
    copies = [desk.facts("copy", code=code) | {"due": desk.drawn("day [0-60]") if code == lent else None} for code in codes]
    today = desk.drawn("day [61-200]")
    record = desk.file("book", "BK-[10000-99999]", head=head, author=authors, copy=copies)
    counter = desk.file("counter", "CT-[10-99]", day=desk.facts("day", today=today))
    volumes = [*record.each("copy")]
    states = [desk.code("copy states", volume["state_code"]) for volume in volumes]
    late = desk.once("Count the days by which copy 1 is late.", "days_between", volumes[0]["due"], counter["day"]["today"])
    fee = desk.once("Work out the fee for copy 1.", "multiply", late, counter["day"]["fee_per_day"])
    _, written = record["head"], [*record.each("author")]
    return desk.fill(locals())


def fixture(desk: Desk) -> Draft:
    desk.start_calendar()
    home, away = desk.sample(desk.options("towns"), 2)
    desk.draw_codes()
    minutes, people = sorted(desk.sample(range(2, 90), 3)), desk.sample(desk.options("people"), 6)
    scored = [
        desk.facts("goal", minute=minute, player=player, helper=helper)
        for minute, player, helper in zip(minutes, people[:3], people[3:], strict=True)
    ]
    head, gate = desk.facts("head", home=home, away=away), desk.facts("gate")
    record = desk.file("match", "MT-[10000-99999]", head=head, gate=gate, goal=scored)
    goals = [*record.each("goal")]
    teams = [desk.code("sides", goal["side_code"]) for goal in goals]
    seats, gate = record["head"]["seats_sold"], record["gate"]
    present = desk.once("Count everybody in the stadium.", "sum_values", [seats, gate["free_tickets"]])
    takings = desk.once("Work out the takings.", "multiply", seats, gate["price"])
    tax = desk.rounded("Round the entertainment tax.", desk.once("Find the tax.", "percent_of", gate["tax_percent"], takings))
    return desk.fill(locals())


def invoice(desk: Desk) -> Draft:
    own, other = desk.currencies(2)
    head = desk.facts("head", own=own)
    order = desk.file("order", "PO-[10000-99999]", head=head, line=desk.rows("line", "goods", desk.integer(2, 4)))
    lines = [*order.each("line")]
    amounts = desk.for_each("Work out the amount of line {}.", "multiply", lines, "quantity", "unit_price")
    net = desk.once("Add up the lines.", "sum_values", amounts)
    part_of_net = desk.once("Find the discount.", "percent_of", order["head"]["discount_percent"], net)
    discount = desk.rounded("Round the discount.", part_of_net)
    payable = desk.once("Take the discount off.", "subtract", net, discount)
    converted = desk.once("Convert what is payable.", "convert_currency", payable, own, other)
    return desk.fill(locals())


def payslip(desk: Desk) -> Draft:
    desk.draw_codes()
    worked = desk.rows("earning", "wage types", desk.integer(2, 3))
    head, contract = desk.facts("head"), desk.facts("contract")
    slip = desk.file("payslip", "PS-[10000-99999]", head=head, earning=worked)
    employee = desk.file("employee", slip["head"]["employee"], contract=contract)
    earnings = [*slip.each("earning")]
    kinds = [desk.code("wage types", earning["type_code"]) for earning in earnings]
    amounts = desk.for_each("Work out what earning {} comes to.", "multiply", earnings, "hours", "rate")
    gross = desk.once("Add up all earnings.", "sum_values", amounts)
    tax = desk.rounded("Round the tax.", desk.once("Find the tax.", "percent_of", slip["head"]["tax_percent"], gross))
    taxed = desk.once("Take off the tax.", "subtract", gross, tax)
    net = desk.once("Take off the pension.", "subtract", taxed, slip["head"]["pension"])
    return desk.fill(locals())


def grant(desk: Desk) -> Draft:
    own, *foreign = desk.currencies(4)
    titles = desk.sample(desk.options("purposes"), 3)
    paid = [desk.facts("item", title=title, currency=currency) for title, currency in zip(titles, foreign, strict=True)]
    record = desk.file("grant", "GR-[1000-9999]", head=desk.facts("head", own=own), item=paid)
    items = [*record.each("item")]
    costs = [
        desk.once(f"Convert the amount of item {place}.", "convert_currency", item["amount"], currency, own)
        for place, (item, currency) in enumerate(zip(items, foreign, strict=True), 1)
    ]
    total = desk.once("Add up all costs.", "sum_values", costs)
    unspent = desk.once("Find out what is left of the grant.", "subtract", record["head"]["granted"], total)
    return desk.fill(locals())


def lease(desk: Desk) -> Draft:
    desk.start_calendar()
    agreed, place = desk.facts("terms"), desk.facts("place")
    others = desk.rows("resident", "people", desk.integer(1, 3))
    record = desk.file("lease", "LE-[10000-99999]", terms=agreed, place=place, resident=others)
    terms, address, residents = record["terms"], record["place"], [*record.each("resident")]
    days = desk.once("Count the days of the term.", "days_between", terms["from"], terms["to"])
    deposit = desk.once("Work out the deposit.", "multiply", terms["rent"], terms["deposit_months"])
    goal = "Find the first day on which notice may have its effect."
    notice = desk.once(goal, "add_days", terms["from"], terms["notice_days"])
    return desk.fill(locals())


def parts_list(desk: Desk) -> Draft:
    """A unit has a smaller assembly inside, each with parts of its own."""
    parts = desk.rows("part", "goods", 5)
    head = desk.facts("head", code=desk.drawn("AS-[1000-9999]"))
    unit = desk.file("parts list", "BM-[10000-99999]", head=head, part=parts[:2])
    subunit = desk.file("assembly", unit["head"]["contains"], head=desk.facts("subunit"), part=parts[2:])
    inside, inner_weights = _parts(desk, subunit)
    around, outer_weights = _parts(desk, unit)
    one = desk.once("Weigh one assembly.", "sum_values", inner_weights)
    all_inside = desk.once("Weigh all assemblies.", "multiply", one, unit["head"]["times"])
    total = desk.once("Weigh the whole unit in grams.", "sum_values", [all_inside, *outer_weights])
    kilograms = desk.once("Give the weight in kilograms.", "convert_units", total, "g", "kg")
    return desk.fill(locals())


def _parts(desk: Desk, record: Opened) -> tuple[list[FormField], list[Any]]:
    """Return the rows of a record's parts, and what each weighs in grams."""
    rows, weights = [], []
    for place, item in enumerate(record.each("part"), 1):
        goal = f"Weigh part {place} of the {record.on_file.kind}."
        weights.append(weight := desk.once(goal, "multiply", item["count"], item["grams"]))
        rows.append(desk.row("part_row", locals()))
    return rows, weights


def lab_report(desk: Desk) -> Draft:
    """One assay may have been withdrawn: then the result is null, and the reason is what the system says."""
    desk.start_calendar()
    analytes = desk.sample(desk.options("analytes"), desk.integer(3, 4))
    assays = [desk.facts("assay") for _ in analytes]
    lost = desk.integer(1, len(assays)) if desk.chance(0.6) else 0
    reason, head = desk.drawn("[reasons]"), desk.facts("sample")
    panel = {f"assay {place}": name for place, name in enumerate(analytes, 1)}
    withdrawn = {f"assay {lost}": reason} if lost else {}
    record = desk.file("lab report", "LS-[10000-99999]", withdrawn, sample=head, panel=panel, assay=assays)
    results = [_assay(desk, record, name, reason) for name in panel]
    sample = record["sample"]
    discard = desk.once("Find the day on which the sample goes.", "add_days", sample["taken"], sample["shelf_days"])
    return desk.fill(locals())


def _assay(desk: Desk, record: Opened, name: str, reason: str) -> FormField:
    found: dict[str, Any] = {"value": None, "margin": None, "why": reason}
    if not record.is_withdrawn(name):
        value = record[name]["milligrams"]
        margin = desk.once(f"Compare {name} with its limit.", "subtract", record[name]["limit"], value)
        found = {"value": value, "margin": margin, "why": None}
    return desk.row("assay_row", found | {"substance": record["panel"][name]})


def calibration(desk: Desk) -> Draft:
    desk.start_calendar()
    desk.draw_codes()
    targets = [desk.integer(5, 900) for _ in range(desk.integer(3, 5))]
    points = [{"nominal": target, "shown": desk.integer(100 * target - 490, 100 * target + 490) / 100} for target in targets]
    record = desk.file("calibration", "CA-[10000-99999]", head=desk.facts("head"), point=points)
    done, readings = record["head"], [*record.each("point")]
    errors = desk.for_each("Find the error at point {}.", "subtract", readings, "shown", "nominal")
    summed = desk.once("Add up the errors.", "sum_values", errors)
    mean = desk.rounded("Round the mean error.", desk.once("Take the mean of the errors.", "divide", summed, len(errors)), 3)
    due = desk.once("Find the day of the next calibration.", "add_days", done["done"], done["interval_days"])
    verdict = desk.code("verdicts", done["verdict_code"])
    return desk.fill(locals())


def manifest(desk: Desk) -> Draft:
    desk.draw_codes()
    packed = desk.rows("parcel", "goods", desk.integer(2, 3))
    record = desk.file("manifest", "MF-[10000-99999]", head=desk.facts("head"), parcel=packed)
    parcels, litres, kilograms = [*record.each("parcel")], list[Any](), list[Any]()
    for place, parcel in enumerate(parcels, 1):
        floor = desk.once(f"Find the floor that parcel {place} takes.", "multiply", parcel["long"], parcel["wide"])
        volume = desk.once(f"Find the volume of parcel {place}.", "multiply", floor, parcel["high"])
        litres.append(desk.once(f"Give the volume of parcel {place} in litres.", "convert_units", volume, "ml", "l"))
        goal = f"Give the weight of parcel {place} in kilograms."
        kilograms.append(desk.once(goal, "convert_units", parcel["pounds"], "pound", "kg"))
    weight = desk.rounded("Round the weight of all parcels.", desk.once("Add up the weights.", "sum_values", kilograms), 1)
    hazards = [desk.code("hazards", parcel["hazard_code"]) for parcel in parcels]
    return desk.fill(locals())


def recipe(desk: Desk) -> Draft:
    used = desk.rows("ingredient", "foods", 3)
    record = desk.file("recipe", "RC-[10000-99999]", head=desk.facts("head"), ingredient=used)
    event = desk.file("banquet", "BQ-[100-999]", order=desk.facts("order"))
    card, order, lines, energies = record["head"], event["order"], list[FormField](), list[Any]()
    for place, item in enumerate(record.each("ingredient"), 1):
        goal = f"Take ingredient {place} as often as there are guests."
        for_all = desk.once(goal, "multiply", item["grams"], order["guests"])
        goal = f"Divide ingredient {place} by the persons of the recipe."
        grams = desk.rounded(f"Round the grams of ingredient {place}.", desk.once(goal, "divide", for_all, card["persons"]), 0)
        energies.append(desk.once(f"Find the energy in ingredient {place}.", "multiply", item["grams"], item["kcal"]))
        lines.append(desk.row("ingredient_row", locals()))
    energy = desk.once("Add up the energy.", "sum_values", energies)
    each = desk.rounded("Round the energy per person.", desk.once("Share the energy out.", "divide", energy, card["persons"]), 1)
    return desk.fill(locals())


FORMS = (
    incident, invoice, lab_report, itinerary, payslip, parts_list, lease, calibration, grant, manifest, loan, recipe, fixture,
)  # fmt: skip
