"""How much hangs on the numbers of a built-in profile; Markdown.

python benchmarks/sensitivity.py [--share S] [--write]

Every rate, every clearing rule and every other chance of a profile is multiplied by 1/3, 2/3, 4/3 and 5/3, one at a time. Tasks and
seeds stay the same. --write renews the table in docs/sensitivity.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scipy.stats import kendalltau

from comparing import DESIGNS, compared
from pages import head, make_tables, row
from whichloop.models.profiles import Profile, load_profile

PAGE = Path(__file__).parents[1] / "docs" / "sensitivity.md"
PROFILES = ("flaky-format", "flaky-tools")
SUITE = "events"
TASKS = 60
FACTORS = {"1/3": 1 / 3, "2/3": 2 / 3, "4/3": 4 / 3, "5/3": 5 / 3}
LEVELS = ("nothing", "failed", "words")
DECIDED = {"better", "worse"}
IMPLICIT = ("tool.garbage", "tool.lies", "tool.stale", "tool.empty", "tool.partial")


def variants(profile: Profile) -> Iterator[tuple[str, Profile]]:
    """Yield the profile as it is, then all others in which one number differs, named; what changes nothing is left out."""
    yield "", profile
    data = profile.model_dump()
    for number in numbers(profile):
        for name, factor in FACTORS.items():
            changed = Profile.model_validate(_changed(data, number, factor))
            if changed != profile:
                yield f"`{number}` × {name}", changed


def numbers(profile: Profile) -> list[str]:
    """Return the names of the numbers that have a part in what the profile does."""
    clears = profile.clears
    found = [f"rates.{kind}" for kind in profile.rates]
    families = {kind.partition(".")[0] for kind in profile.rates}
    found += ["clears.never"] if clears.never else []
    found += ["clears.attempts"] if families & {"tool", "mcp", "provider"} else []
    found += [f"clears.{level}" for level in LEVELS] if families & {"wire", "decision"} else []
    found += ["forget"] if profile.forget else []
    found += ["notices"] if profile.rates.keys() & set(IMPLICIT) else []
    return [*found, "bluff", "patience"]


def _changed(data: Mapping[str, Any], number: str, factor: float) -> dict[str, Any]:
    """Return a profile's fields with another number. Chances stop at 1, and a level that says more never clears less."""
    section, _, name = number.partition(".")
    if section == "rates":
        return {**data, "rates": data["rates"] | {name: data["rates"][name] * factor}}
    if number == "patience":
        return {**data, number: max(1, round(data[number] * factor))}
    if section != "clears":
        return {**data, number: min(1.0, data[number] * factor)}
    value = data["clears"][name] * factor
    made = data["clears"] | {name: max(1.0, value) if name == "attempts" else min(1.0, value)}
    if name in LEVELS:
        place = LEVELS.index(name)
        made |= {level: min(made[level], made[name]) for level in LEVELS[:place]}
        made |= {level: max(made[level], made[name]) for level in LEVELS[place:]}
    return {**data, "clears": made}


def result(profile: Profile, tasks: int) -> tuple[list[float], Mapping[tuple[str, str], str]]:
    """Compare the five designs under a profile; return their accuracies, in order, and pair of designs → verdict."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "varied.toml"
        file.write_text(profile.model_copy(update={"name": f"{profile.name}-varied"}).to_toml(), encoding="utf-8")
        found = compared(DESIGNS, SUITE, [str(file)], folder, tasks=tasks).comparison
    designs = {arm.info.arm: arm.info.loop for arm in found.arms}
    accuracies = {arm.info.loop: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy is not None}
    words = {(designs[pair.a], designs[pair.b]): pair.verdict.word for pair in found.pairs if pair.family == "primary"}
    return [accuracies[loop] for loop in DESIGNS], words


def summary_row(name: str, tasks: int) -> str:
    """The row of one profile."""
    (_, (order, base)), *others = [(each, result(varied, tasks)) for each, varied in variants(load_profile(name))]
    decided = {pair for pair, word in base.items() if word in DECIDED}
    turned = [(pair, word) for _, (_, words) in others for pair, word in words.items() if word != base[pair]]
    tau, least = min(((float(kendalltau(order, other).statistic), each) for each, (other, _) in others), key=lambda item: item[0])
    return row(
        f"`{SUITE}`",
        name,
        tasks,
        " > ".join(sorted(DESIGNS, key=lambda loop: -order[DESIGNS.index(loop)])),
        f"{len(decided)} of {len(base)}",
        len(decided - {pair for pair, _ in turned}),
        f"{len(turned)} of {len(base) * len(others)}",
        sum({base[pair], word} == DECIDED for pair, word in turned),
        f"{tau:.2f} ({least})",
    )


def table(share: float) -> Iterator[str]:
    """Yield the table of what hangs on the profiles' numbers."""
    columns = "suite|profile|tasks|ranking|pairs decided|decided in every variant|verdicts that turn|reversed|least Kendall tau"
    yield from head(*columns.split("|"))
    for name in PROFILES:
        yield summary_row(name, round(share * TASKS))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"sensitivity": table})
