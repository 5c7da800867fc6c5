"""Sections on accuracy against cost, at equal budgets, over repeats, and on confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whichloop.experiments.compare.verdict_old.matrix import counted_in
from whichloop.experiments.compare.view_tables import harness_sentences, harness_tables
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.calibration import Calibration
from whichloop.metrics.harness import Harness
from whichloop.metrics.reliability import Reliability
from whichloop.metrics.summary import METRICS
from whichloop.metrics.views import AtBudget, Front, PerSolved, Unit, Views
from whichloop.text.numbers import interval, limit_text, measure_text

from .charts import pareto
from .document import UNKNOWN, Amount, Block, Figure, Folded, Grid, Items, PageSection, section_or_none, under_headings
from .grouping import chart_names, group_by, in_order

TITLE = "Accuracy against cost"


def cost_section(views: Views, arms: Sequence[ArmInfo]) -> PageSection | None:
    """Return accuracy against cost: the front, equal budgets, cost per solved task; None if the cost of two arms is not known."""
    solved = {(per_solved.arm, per_solved.unit): per_solved for per_solved in views.per_solved}
    fronts = under_headings((name, (figure, _front(front, solved, arms))) for name, front, figure in _figures(views, arms))
    return section_or_none("cost", TITLE, [*fronts, *_budgets(views.budgets, arms)])


def fronts_section(views: Views, arms: Sequence[ArmInfo]) -> PageSection | None:
    """Return the charts alone; their numbers are in the table of arms."""
    return section_or_none("cost", TITLE, under_headings((name, (figure,)) for name, _, figure in _figures(views, arms)))


def _figures(views: Views, arms: Sequence[ArmInfo]) -> list[tuple[str, Front, Figure]]:
    """Return each front with its name, which has the unit where the same arms have another one, and its chart."""
    names = chart_names(arms)
    read = "Up and to the left is better. Lines are intervals. The dashed stair is the front: the best accuracy for each cost."
    groups = group_by(views.fronts, lambda front: (front.suite, front.profile))
    return [
        (f"{suite}, {profile}{f', {front.counted}' if len(own) > 1 else ''}", front, Figure(pareto(front, names), read))
        for (suite, profile), own in groups.items()
        for front in own
    ]


def _front(front: Front, solved: Mapping[tuple[str, Unit], PerSolved], arms: Sequence[ArmInfo]) -> Grid:
    columns = (
        "arm",
        "accuracy",
        f"{front.counted} per trial",
        f"{front.counted} per solved task",
        "on the front",
        "on it in resamples",
    )
    rows = []
    for point in in_order(front.points, arms):
        per_solved = solved.get((point.arm, front.unit))
        rows.append(
            (
                point.arm,
                interval(point.accuracy, 3),
                measure_text(point.cost, METRICS[front.unit]),
                UNKNOWN if per_solved is None else measure_text(per_solved.value, METRICS[front.unit]),
                "yes" if point.on_front else "no",
                Amount(f"{point.front_share:.2f}", point.front_share),
            )
        )
    caption = (
        "An arm is on the front if no other is at least as accurate and as cheap, and better in one of the two; "
        "the last column says in which share of resamples of the tasks it is"
    )
    return Grid(caption, columns, tuple(rows))


def _budgets(budgets: Sequence[AtBudget], arms: Sequence[ArmInfo]) -> list[Block]:
    """Return one table per group and unit, folded: arms by budgets."""
    grids: list[Block] = []
    names = [arm.arm for arm in arms]
    for (suite, profile, unit), members in group_by(budgets, lambda budget: (budget.suite, budget.profile, budget.unit)).items():
        columns = ("arm", *(f"at most {limit_text(budget.budget)}" for budget in members))
        rows = tuple((arm, *(interval(budget.arms[arm], 3) for budget in members)) for arm in names if arm in members[0].arms)
        caption = f"{suite}, {profile}: accuracy if a trial counts as solved only within so many {counted_in(unit)} per trial"
        grids.append(Grid(caption, columns, rows))
        decided = _decided(members)
        if decided is not None:
            grids.append(decided)
    return [Folded("Accuracy at equal budgets", tuple(grids))] if grids else []


def _decided(budgets: Sequence[AtBudget]) -> Grid | None:
    """Return a table of the pairs that are decided at a budget, or None if none is."""
    rows = tuple(
        (f"at most {limit_text(budget.budget)}", pair.a, pair.verdict.word, pair.b, interval(pair.difference, 3))
        for budget in budgets
        for pair in budget.pairs
        if pair.verdict.word in ("better", "worse")
    )
    columns = ("budget", "a", "is", "b", "difference, a minus b")
    return Grid("Pairs that are told apart at a budget, adjusted over pairs and budgets", columns, rows) if rows else None


def harness_section(harnesses: Sequence[Harness]) -> PageSection | None:
    """Return the section on how much is the loop and how much the model; None where they are not crossed."""
    sentences = Items(tuple(f"{sentence}." for sentence in harness_sentences(harnesses)), "verdicts")
    grids = [Grid(table.title, table.columns, table.rows) for table in harness_tables(harnesses)]
    return section_or_none("harness", "How much is the harness?", [sentences, *grids] if grids else [])


def reliability_section(reliabilities: Sequence[Reliability], infos: Sequence[ArmInfo]) -> PageSection | None:
    """Return the section on how arms do when they try again; None without repeats."""
    arms = in_order(reliabilities, infos)
    if not arms:
        return None
    most = max(arm.repeats for arm in arms)
    ks = sorted({1, *((2,) if most > 1 else ()), most})
    columns = ("arm", "tasks", "repeats", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks if k > 1), "consistency")
    rows = []
    for arm in arms:
        at = [interval(arm.pass_at[k - 1], 3) if k <= arm.repeats else UNKNOWN for k in ks]
        hat = [interval(arm.pass_hat[k - 1], 3) if k <= arm.repeats else UNKNOWN for k in ks if k > 1]
        rows.append((arm.arm, str(arm.tasks), str(arm.repeats), *at, *hat, interval(arm.consistency, 3)))
    least = "tasks with two scored repeats or more count, and k goes up to the fewest that one of them has"
    caption = f"pass@k: one of k tries solves the task; pass^k: all of k do; {least}; consistency: {CONSISTENCY}"
    return PageSection("reliability", "Repeated tries", (Grid(caption, columns, tuple(rows)),))


CONSISTENCY = (
    "the mean over tasks of (2p-1)², p being the chance that a try solves the task: 1 where each task is always solved or never, "
    "0 where every try is the toss of a coin; it is no share of tasks, and its unbiased estimate may fall below 0 by chance"
)


def confidence_section(calibrations: Sequence[Calibration], infos: Sequence[ArmInfo]) -> PageSection | None:
    """Return the section on whether arms know when they are right; None if none reports confidence."""
    arms = in_order(calibrations, infos)
    if not arms:
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
        for arm in arms
    )
    columns = ("arm", "trials that report it", "Brier score", "calibration error", "AUROC", "area under risk-coverage")
    caption = "How well the reported confidence tells right answers from wrong ones: lower is better, except for AUROC"
    return PageSection("confidence", "Do loops know when they are right?", (Grid(caption, columns, rows),))
