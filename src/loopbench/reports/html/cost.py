"""Sections on accuracy against cost, at equal budgets, over repeats, and on confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopbench.metrics.calibration import Calibration
from loopbench.metrics.comparison import ArmInfo
from loopbench.metrics.reliability import Reliability
from loopbench.metrics.summary import METRICS
from loopbench.metrics.views import AtBudget, Front, PerSolved, Unit, Views
from loopbench.text.numbers import interval

from .charts import UNITS, pareto
from .document import UNKNOWN, Amount, Block, Figure, Folded, Grid, PageSection, Subsection
from .names import chart_names


def cost_section(views: Views, arms: Sequence[ArmInfo]) -> PageSection | None:
    """Accuracy against cost: the front, equal budgets, what a solved task costs. None where no cost is known of two arms."""
    solved = {(found.arm, found.unit): found for found in views.per_solved}
    fronts = [(front, (figure, _front(front, solved))) for front, figure in _figures(views, arms)]
    return _section([*_by_group(fronts), *_budgets(views.budgets)])


def fronts_section(views: Views, arms: Sequence[ArmInfo]) -> PageSection | None:
    """The charts alone; their numbers are those of the arms."""
    return _section(_by_group([(front, (figure,)) for front, figure in _figures(views, arms)]))


def _section(blocks: Sequence[Block]) -> PageSection | None:
    return PageSection("cost", "Accuracy against cost", tuple(blocks)) if blocks else None


def _figures(views: Views, arms: Sequence[ArmInfo]) -> list[tuple[Front, Figure]]:
    names = chart_names(arms)
    read = "Up and to the left is better. Lines are intervals; the dashed stair is the Pareto front."
    return [(front, Figure(pareto(front, names), read)) for front in views.fronts]


def _by_group(fronts: Sequence[tuple[Front, tuple[Block, ...]]]) -> list[Block]:
    """Under a heading each, where there are several."""
    if len(fronts) == 1:
        return list(fronts[0][1])
    return [Subsection(f"{front.suite}, {front.profile}", blocks) for front, blocks in fronts]


def _front(front: Front, solved: Mapping[tuple[str, Unit], PerSolved]) -> Grid:
    digits = METRICS[front.unit].digits
    unit = "tokens" if front.unit == "tokens" else "USD"
    columns = ("arm", "accuracy", f"{unit} per trial", f"{unit} per solved task", "on the front", "share of draws on it")
    rows = []
    for point in front.points:
        per_solved = solved.get((point.arm, front.unit))
        rows.append(
            (
                point.arm,
                interval(point.accuracy, 3),
                interval(point.cost, digits),
                UNKNOWN if per_solved is None else interval(per_solved.value, digits),
                "yes" if point.on_front else "no",
                Amount(f"{point.front_share:.2f}", point.front_share),
            )
        )
    return Grid("Pareto front: no other arm is as accurate and as cheap, and better in one of the two", columns, tuple(rows))


def _budgets(budgets: Sequence[AtBudget]) -> list[Block]:
    """One table per group and unit: arms by budgets."""
    found: dict[tuple[str, str, str], list[AtBudget]] = {}
    for budget in budgets:
        found.setdefault((budget.suite, budget.profile, budget.unit), []).append(budget)
    grids: list[Block] = []
    for (suite, profile, unit), members in found.items():
        digits = METRICS[unit].digits
        columns = ("arm", *(f"at most {budget.budget:,.{digits}f}" for budget in members))
        rows = tuple((arm, *(interval(budget.arms[arm], 3) for budget in members)) for arm in members[0].arms)
        caption = f"{suite}, {profile}: accuracy where a trial counts as solved only within a budget of {UNITS[unit]}"
        grids.append(Grid(caption, columns, rows))
        decided = _decided(members, digits)
        if decided is not None:
            grids.append(Folded(f"Pairs that are decided at a budget ({len(decided.rows)})", (decided,)))
    return [Subsection("At equal budgets", tuple(grids))] if grids else []


def _decided(budgets: Sequence[AtBudget], digits: int) -> Grid | None:
    """The pairs that are decided at a budget."""
    rows = tuple(
        (f"at most {budget.budget:,.{digits}f}", pair.a, pair.verdict.word, pair.b, interval(pair.difference, 3))
        for budget in budgets
        for pair in budget.pairs
        if pair.verdict.word in ("better", "worse")
    )
    columns = ("budget", "a", "is", "b", "difference, a minus b")
    return Grid("Adjusted over pairs and budgets (Holm)", columns, rows) if rows else None


def reliability_section(found: Sequence[Reliability]) -> PageSection | None:
    """How the arms fare when they try again. None without repeats."""
    if not found:
        return None
    most = max(arm.repeats for arm in found)
    ks = sorted({1, *((2,) if most > 1 else ()), most})
    columns = ("arm", "tasks", "repeats", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks if k > 1), "consistency")
    rows = []
    for arm in found:
        at = [interval(arm.pass_at[k - 1], 3) if k <= arm.repeats else UNKNOWN for k in ks]
        hat = [interval(arm.pass_hat[k - 1], 3) if k <= arm.repeats else UNKNOWN for k in ks if k > 1]
        rows.append((arm.arm, str(arm.tasks), str(arm.repeats), *at, *hat, interval(arm.consistency, 3)))
    caption = "pass@k: one of k tries solves the task; pass^k: all of k do; consistency: 1 where a task is always solved or never"
    return PageSection("reliability", "Trying again", (Grid(caption, columns, tuple(rows)),))


def confidence_section(found: Sequence[Calibration]) -> PageSection | None:
    """Whether the arms know when they are right. None where none reports confidence."""
    if not found:
        return None
    rows = tuple(
        (
            arm.arm,
            f"{arm.reported} of {arm.scored}",
            interval(arm.brier, 3),
            f"{arm.ece:.3f}",
            interval(arm.auroc, 3),
            f"{arm.aurc:.3f}",
        )
        for arm in found
    )
    columns = ("arm", "trials that report it", "Brier score", "calibration error", "AUROC", "area under risk-coverage")
    caption = "Lower is better, of AUROC higher; calibration error over ten bins"
    return PageSection("confidence", "Reported confidence", (Grid(caption, columns, rows),))
