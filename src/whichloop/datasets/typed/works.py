"""Forms from workshop and laboratory: what is on record for each, and what is worked out. Forms and requests: `wording.toml`."""

from __future__ import annotations

from typing import Any, cast

from ..generating import Draft
from .desk import (
    ANALYTES,
    COURSES,
    FIRMS,
    GOODS,
    PEOPLE,
    REASONS,
    TOWNS,
    Calendar,
    Desk,
    FormField,
    Opened,
    cents,
    code_table,
    number,
    numbered,
    one_of,
    or_null,
    text,
    whole,
    yes_no,
)


def parts_list(desk: Desk) -> Draft:
    """A unit has a smaller assembly inside, each with parts of its own."""
    draw = desk
    names = draw.sample(GOODS, 5)

    def parts(of: list[str]) -> list[dict[str, object]]:
        return [{"part": name, "count": draw.integer(2, 24), "grams": draw.integer(12, 1_900)} for name in of]

    outer, inner = parts(names[:2]), parts(names[2:])
    code = f"AS-{draw.integer(1_000, 9_999)}"
    head = {"name": f"{draw.choice(FIRMS)} unit", "revision": draw.choice("ABCDEF"), "contains": code, "times": draw.integer(2, 6)}
    reference = f"BM-{draw.integer(10_000, 99_999)}"
    whole_unit = desk.file("parts list", {"head": head} | numbered("part", outer), reference=reference)
    subunit = desk.file(
        "assembly",
        {"head": {"name": f"{draw.choice(TOWNS)} frame", "supplier": draw.choice((None, *FIRMS[:5]))}} | numbered("part", inner),
        reference=whole_unit["head"]["contains"],
    )

    inside, inner_weights = _parts(desk, subunit, len(inner))
    around, outer_weights = _parts(desk, whole_unit, len(outer))
    one = desk.sum("Weigh one assembly.", inner_weights)
    all_inside = desk.times("Weigh all assemblies.", one, whole_unit["head"]["times"])
    total = desk.sum("Weigh the whole unit in grams.", [all_inside, *outer_weights])
    kilograms = desk.units("Give the weight in kilograms.", total, "g", "kg")
    desk.ask(locals())
    head_of = whole_unit["head"]
    return desk.fill(locals())


def _parts(desk: Desk, record: Opened, count: int) -> tuple[list[FormField], list[Any]]:
    """Return the rows of a record's parts, and what each weighs in grams."""
    groups, weights = [], []
    for place in range(1, count + 1):
        item = record[f"part {place}"]
        weight = desk.times(f"Weigh part {place} of the {record.record.kind}.", item["count"], item["grams"])
        fields = {"part|name": text(item["part"]), "count|pieces": whole(item["count"], 1), "grams|total_grams": number(weight)}
        groups.append(desk.group(fields))
        weights.append(weight)
    return groups, weights


def lab_report(desk: Desk) -> Draft:
    """One assay may have been withdrawn: then the result is null, and the reason is what the system says."""
    draw, calendar = desk, Calendar(desk)
    analytes = draw.sample(ANALYTES, draw.integer(3, 4))
    assays = [{"milligrams": cents(draw, 110, 9_800), "limit": draw.integer(10, 90)} for _ in analytes]
    lost = draw.integer(1, len(assays)) if draw.chance(0.6) else 0
    reason = draw.choice(REASONS)
    head: dict[str, Any] = {
        "taken": calendar.after(0, 90),
        "site": draw.choice(TOWNS),
        "analyst": draw.choice((None, *PEOPLE[:6])),
        "accredited": draw.chance(0.5),
        "shelf_days": draw.integer(20, 200),
    }
    panel: dict[str, Any] = {f"assay {place}": name for place, name in enumerate(analytes, 1)}
    withdrawn = {f"assay {lost}": reason} if lost else {}
    kept_assays = {name: assay for name, assay in numbered("assay", assays).items() if name not in withdrawn}
    reference = f"LS-{draw.integer(10_000, 99_999)}"
    record = desk.file("lab report", {"sample": head, "panel": panel} | kept_assays, reference=reference, withdrawn=withdrawn)

    results = [_assay(desk, record, name, reason) for name in panel]
    discard = desk.later("Find the day on which the sample goes.", record["sample"]["taken"], record["sample"]["shelf_days"])
    desk.ask(locals())
    sample = record["sample"]
    return desk.fill(locals())


def _assay(desk: Desk, record: Opened, name: str, reason: str) -> FormField:
    value, margin, why = cast(tuple[Any, Any, Any], (None, None, reason))
    if not record.is_withdrawn(name):
        value, why = record[name]["milligrams"], None
        margin = desk.minus(f"Compare {name} with its limit.", record[name]["limit"], value)
    return desk.group(
        {
            "analyte|substance": one_of(record["panel"][name], ANALYTES),
            "value|milligrams": or_null(number(value)),
            "margin|below_limit_by": or_null(number(margin)),
            "reason|withdrawn_because": or_null(one_of(why, REASONS)),
        }
    )


def calibration(desk: Desk) -> Draft:
    draw, calendar = desk, Calendar(desk)
    table = code_table(draw, "V", ("passed", "passed with remarks", "failed", "not assessed"))
    targets = [draw.integer(5, 900) for _ in range(draw.integer(3, 5))]
    points = [{"nominal": target, "shown": cents(draw, 100 * target - 490, 100 * target + 490)} for target in targets]
    head = {
        "serial": f"{draw.choice('ABCDXYZ')}{draw.integer(100, 999)}-{draw.integer(10, 99)}",
        "done": calendar.after(0, 60),
        "interval_days": draw.integer(90, 800),
        "verdict_code": draw.choice(list(table)),
        "technician": draw.choice(PEOPLE),
        "remark": draw.choice((None, "drift", "new seal", "warm-up")),
    }
    reference = f"CA-{draw.integer(10_000, 99_999)}"
    record = desk.file("calibration", {"head": head} | numbered("point", points), reference=reference)

    done = record["head"]
    readings = [record[name] for name in numbered("point", points)]
    errors = [
        desk.minus(f"Find the error at point {place}.", point["shown"], point["nominal"]) for place, point in enumerate(readings, 1)
    ]
    mean = desk.rounded(
        "Round the mean error.",
        desk.divided_by("Take the mean of the errors.", desk.sum("Add up the errors.", errors), len(errors)),
        3,
    )
    due = desk.later("Find the day of the next calibration.", done["done"], done["interval_days"])
    verdict = desk.code("verdicts", table, done["verdict_code"])
    desk.ask(locals())
    return desk.fill(locals())


def manifest(desk: Desk) -> Draft:
    draw = desk
    table = code_table(draw, "H", ("none", "flammable", "corrosive", "fragile", "perishable"))
    packed = [
        {"label": label, "long": draw.integer(20, 120), "wide": draw.integer(15, 80), "high": draw.integer(10, 60),
         "pounds": draw.integer(4, 90), "hazard_code": draw.choice(list(table))}
        for label in draw.sample(GOODS, draw.integer(2, 3))
    ]  # fmt: skip
    head = {
        "container": f"{''.join(draw.choice('ABCKMSTU') for _ in range(3))}U{draw.integer(1_000_000, 9_999_999)}",
        "seal": draw.choice((None, f"S{draw.integer(1_000, 9_999)}")),
        "from": draw.choice(TOWNS[:10]),
        "to": draw.choice(TOWNS[10:]),
        "is_reefer": draw.chance(0.5),
    }
    reference = f"MF-{draw.integer(10_000, 99_999)}"
    record = desk.file("manifest", {"head": head} | numbered("parcel", packed), reference=reference)

    parcels = [record[name] for name in numbered("parcel", packed)]
    litres, kilograms = [], []
    for place, parcel in enumerate(parcels, 1):
        floor = desk.times(f"Find the floor that parcel {place} takes.", parcel["long"], parcel["wide"])
        volume = desk.times(f"Find the volume of parcel {place}.", floor, parcel["high"])
        litres.append(desk.units(f"Give the volume of parcel {place} in litres.", volume, "ml", "l"))
        kilograms.append(desk.units(f"Give the weight of parcel {place} in kilograms.", parcel["pounds"], "pound", "kg"))
    weight = desk.rounded("Round the weight of all parcels.", desk.sum("Add up the weights.", kilograms), 1)
    hazards = [desk.code("hazards", table, parcel["hazard_code"]) for parcel in parcels]
    desk.ask(locals())
    return desk.fill(locals())


def recipe(desk: Desk) -> Draft:
    draw = desk
    names = draw.sample(("barley", "butter", "chickpeas", "leeks", "lentils", "milk", "mushrooms", "oats", "rice", "spinach"), 3)
    used = [
        {"name": name, "grams": draw.integer(40, 900), "kcal": cents(draw, 20, 700), "is_allergen": draw.chance(0.4)}
        for name in names
    ]
    head = {
        "dish": f"{draw.choice(TOWNS)} {draw.choice(('stew', 'bake', 'soup', 'salad', 'pie'))}",
        "persons": draw.integer(2, 9),
        "course": draw.choice(COURSES),
        "wine": draw.choice((None, "cider", "ale")),
    }
    reference = f"RC-{draw.integer(10_000, 99_999)}"
    record = desk.file("recipe", {"head": head} | numbered("ingredient", used), reference=reference)
    guests = draw.integer(24, 180)
    event = desk.file(
        "banquet", {"order": {"guests": guests, "room": draw.choice(TOWNS)}}, reference=f"BQ-{draw.integer(100, 999)}"
    )

    card, order = record["head"], event["order"]
    lines, energies = [], []
    for place, name in enumerate(numbered("ingredient", used), 1):
        item = record[name]
        for_all = desk.times(f"Take ingredient {place} as often as there are guests.", item["grams"], order["guests"])
        grams = desk.divided_by(f"Divide ingredient {place} by the persons of the recipe.", for_all, card["persons"])
        grams = desk.rounded(f"Round the grams of ingredient {place}.", grams, 0)
        energies.append(desk.times(f"Find the energy in ingredient {place}.", item["grams"], item["kcal"]))
        lines.append(
            desk.group(
                {
                    "name|ingredient": text(item["name"]),
                    "grams|amount": whole(grams),
                    "allergen|is_allergen": yes_no(item["is_allergen"]),
                }
            )
        )
    energy = desk.sum("Add up the energy.", energies)
    each = desk.rounded("Round the energy per person.", desk.divided_by("Share the energy out.", energy, card["persons"]), 1)
    desk.ask(locals())
    return desk.fill(locals())
