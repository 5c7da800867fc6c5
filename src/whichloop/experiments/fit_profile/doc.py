"""A fitted profile, and any other one, as documents."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whichloop.metrics.statistics import ALPHA
from whichloop.models.profiles import FAULT_KINDS, FORMS, WEAKNESS_KINDS, Profile
from whichloop.protocol.names import value_text
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Table, lines_of
from whichloop.text.numbers import signed_interval

from .check import FitCheck
from .fit import MIN_POINTS, FittedProfile, remark, warnings_of


def fit_doc(fitted: FittedProfile, check: FitCheck | None, file: Path | None = None) -> Doc:
    """Return what was fitted: the rates above 0, what the loops do under them, and behind it all values with what they rest on.

    `file`: where the profile was written.
    """
    held = check or FitCheck()
    typed = str(file) if file is None or len(file.parts) > 1 else f"./{file}"
    counted = [
        (
            kind,
            f"{rate.rate:.4f}",
            f"[{rate.interval.low:.4f}, {rate.interval.high:.4f}]",
            f"{round(rate.count, 2):g} of {rate.points:.0f}",
            Cell("few points" if rate.points < MIN_POINTS else "", "warn"),
        )
        for kind, rate in fitted.rates.items()
        if rate.interval is not None and rate.count
    ]
    everything = [
        (kind, UNKNOWN if rate.interval is None else f"{rate.rate:.4f}", FAULT_KINDS[kind], remark(rate))
        for kind, rate in fitted.rates.items()
    ]
    off: Mapping[bool, Cell | str] = {True: Cell("OFF", "bad"), False: ""}
    gaps = [
        (*(gap.loop, gap.measure, f"{gap.run:.2f}", f"{gap.profile:.2f}", signed_interval(gap.difference, 2)), off[gap.off])
        for gap in held.gaps
    ]
    level = f"{100 * (1 - ALPHA):g} % interval"
    blocks = (
        Table("Rates above 0, per point", ("kind", "rate", level, "struck of points", ""), tuple(counted)),
        Table(
            "The run against its loops under this profile, per trial",
            ("loop", "measure", "run", "profile", "difference", ""),
            tuple(gaps),
        ),
        lines_of(
            ("Basis", f"{fitted.trials} trials of {fitted.tasks} tasks: {', '.join(fitted.arms)}"),
            ("Checked", f"{held.tasks} tasks × {held.repeats}, {len(held.off)} differences off" if held.gaps else ""),
            ("Warning", f"not checked against the run: {held.problem}" if held.problem else ""),
            ("Warning", [f"off under this profile: {gap.loop}, {gap.measure}" for gap in held.off]),
            ("Warning", warnings_of(fitted)),
            ("Next", shlex.join(["whichloop", "compare", "--profile", typed]) if file else ""),
        ),
        Table("All kinds of fault", ("kind", "rate", "meaning", "rests on"), tuple(everything), detail=True),
        _fields("Other values", fitted.profile),
    )
    title = f"{fitted.profile.name}: {fitted.profile.description}"
    data = {**fitted.as_dict(), "check": check and check.as_dict()}
    return Doc(title, blocks, data)


def profile_doc(profile: Profile) -> Doc:
    blocks: list[Block] = [lines_of(("About", profile.description), ("Evidence", profile.evidence))]
    of_forms = [(f"Loops with {FORMS[form]}: {met.name}", met) for form, met in profile.by_form.items()]
    for title, met in of_forms or [("", profile)]:
        blocks += _of_one_form(title, met)
    return Doc(profile.name, tuple(blocks), {**profile.model_dump(mode="json"), "digest": profile.digest})


def _of_one_form(title: str, profile: Profile) -> list[Block]:
    kinds = [(kind, says, profile.rates.get(kind), profile.sources.get(kind, "")) for kind, says in FAULT_KINDS.items()]
    rates = tuple((kind, f"{rate:g}", says) for kind, says, rate, _ in kinds if rate is not None)
    sources = tuple((kind, source) for kind, _, _, source in kinds if source)
    weak = [(each, WEAKNESS_KINDS[f"weakness.{each.kind}"]) for each in profile.weaknesses]
    weaknesses = tuple((each.kind, f"{each.rate:g}", each.tool or "any", says) for each, says in weak)
    return [
        Table(title, ("kind", "rate", "meaning"), rates),
        Table("Weaknesses that a prompt can cover", ("kind", "rate", "tool", "meaning"), weaknesses),
        Table(f"Sources of {profile.name}'s rates", ("kind", "source"), sources, detail=True),
        _fields(f"Other values of {profile.name}", profile),
    ]


def _fields(title: str, profile: Profile) -> Table:
    """Return all that a profile says beside its rates."""
    said = {"name", "description", "evidence", "sources", "rates", "weaknesses", "by_form"}
    values: dict[str, Any] = profile.model_dump(mode="json", exclude=said)
    clears = ", ".join(f"{name} {value:g}" for name, value in values.pop("clears").items())
    values |= values.pop("abilities")
    rows = []
    for name, value in {"clears": clears, **values}.items():
        rows.append((name, UNKNOWN if value is None else value if isinstance(value, str) else value_text(value)))
    return Table(title, ("field", "value"), tuple(rows), detail=True)
