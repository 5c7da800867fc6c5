"""The tables of a comparison's other views: accuracy against cost, within budgets, repeats, confidence."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.metrics.calibration import Calibration
from whichloop.metrics.harness import Harness, SourcePart
from whichloop.metrics.reliability import Reliability
from whichloop.metrics.summary import METRICS
from whichloop.metrics.views import AtBudget, Front, PerSolved, Unit
from whichloop.protocol.values import counted
from whichloop.text.numbers import interval, limit_text, measure_text, standing
from whichloop.text.table import Table

from .verdict_old.matrix import counted_in


def front_table(fronts: Sequence[Front], per_solved: Sequence[PerSolved], unit: Unit) -> Table:
    """Return the table of accuracy against cost, the most accurate arm of a group first."""
    solved = {item.arm: item.value for item in per_solved if item.unit == unit}
    name = fronts[0].counted if fronts else ""
    columns = ("arm", "accuracy", f"{name} per trial", f"{name} per solved task", "on the front", "share of bootstrap draws")
    rows = tuple(
        (
            point.arm,
            interval(point.accuracy, 3),
            measure_text(point.cost, METRICS[unit]),
            measure_text(solved.get(point.arm), METRICS[unit]),
            "yes" if point.on_front else "no",
            f"{point.front_share:.3f}",
        )
        for front in fronts
        for point in sorted(front.points, key=lambda point: -point.accuracy.value)
    )
    return Table(f"Accuracy against {name}: the Pareto front", columns, rows)


def budget_tables(budgets: Sequence[AtBudget]) -> list[Table]:
    """Return a table per group and unit with a column per budget."""
    groups: dict[tuple[str, str, Unit], list[AtBudget]] = {}
    for at_budget in budgets:
        groups.setdefault((at_budget.suite, at_budget.profile, at_budget.unit), []).append(at_budget)
    tables = []
    for (suite, profile, unit), group in groups.items():
        columns = ("arm", *(f"{limit_text(at_budget.budget)} {counted_in(unit)}" for at_budget in group))
        rows = tuple((arm, *(_at_budget(at_budget, arm) for at_budget in group)) for arm in group[0].arms)
        tables.append(
            Table(f"Accuracy within a budget per trial, {suite}, {profile} (secondary; against the highest)", columns, rows)
        )
    return tables


def _at_budget(at_budget: AtBudget, arm: str) -> str:
    """Return `0.117 [0.050, 0.210] worse`, compared with the arm that is the highest at this budget."""
    best = max(at_budget.arms, key=lambda name: at_budget.arms[name].value)
    pair = next((pair for pair in at_budget.pairs if {pair.a, pair.b} == {arm, best}), None)
    standing_text = "highest" if arm == best else "" if pair is None else standing(pair, arm)
    return f"{interval(at_budget.arms[arm], 3)} {standing_text}".rstrip()


def reliability_table(arms: Sequence[Reliability]) -> Table:
    """Return the table of what repeats of a task show."""
    columns = ("arm", "tasks", "tries", "pass@1", "any of the tries", "all of them", "consistency", "variance between", "within")
    rows = tuple(
        (
            reliability.arm,
            str(reliability.tasks),
            str(reliability.repeats),
            interval(reliability.pass_at[0], 3),
            interval(reliability.pass_at[-1], 3),
            interval(reliability.pass_hat[-1], 3),
            interval(reliability.consistency, 3),
            "–" if reliability.variance is None else f"{reliability.variance.between:.3f}",
            "–" if reliability.variance is None else f"{reliability.variance.within:.3f}",
        )
        for reliability in arms
    )
    title = "Repeats: pass@k and pass^k at k = tries, the fewest scored repeats of a task that has two or more"
    return Table(title, columns, rows)


def confidence_table(arms: Sequence[Calibration]) -> Table:
    """Return the table of how well reported confidence tells right answers from wrong ones."""
    columns = ("arm", "reported", "Brier", "calibration error", "AUROC", "area of risk over coverage")
    rows = tuple(
        (
            calibration.arm,
            f"{calibration.reported} of {calibration.scored}",
            interval(calibration.brier, 3),
            f"{calibration.ece:.3f}",
            interval(calibration.auroc, 3),
            f"{calibration.aurc:.3f}",
        )
        for calibration in arms
    )
    return Table("Confidence", columns, rows)


def harness_sentences(harnesses: Sequence[Harness]) -> list[str]:
    """Return a sentence for each suite: whether the loop or the model moves accuracy more."""
    return [f"{each.suite}: {each.sentence}" if len(harnesses) > 1 else each.sentence for each in harnesses]


def harness_tables(harnesses: Sequence[Harness]) -> list[Table]:
    """Return for each suite what accuracy varies by, and how often rankings reverse."""
    return [_table(each) for each in harnesses]


def _table(harness: Harness) -> Table:
    rows = [(part.source.replace("model", harness.kind), _deviation(part), f"{100 * part.share:.1f} %") for part in harness.parts]
    rows += [
        (f"two loops change places under another {harness.kind}", f"{harness.loops_reverse:.2f}", ""),
        (f"two {harness.kind}s change places under another loop", f"{harness.conditions_reverse:.2f}", ""),
    ]
    crossed = (
        f"{counted(len(harness.loops), 'loop')} × {len(harness.conditions)} {harness.kind}s × {counted(harness.tasks, 'task')}"
    )
    return Table(
        f"How much is the harness, {harness.suite}: {crossed}",
        ("source", "standard deviation of accuracy, or share of pairs", "share of variance"),
        tuple(rows),
    )


def _deviation(part: SourcePart) -> str:
    return interval(part.deviation, 3) if part.has_interval else f"{part.deviation.value:.3f}, no interval"
