"""A comparison as tables: rows of plain text, and those as Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from loopbench.metrics.calibration import Calibration
from loopbench.metrics.comparison import ArmResult, Comparison, Pair
from loopbench.metrics.measure import in_table_order
from loopbench.metrics.power import Needed
from loopbench.metrics.reliability import Reliability
from loopbench.metrics.summary import METRICS
from loopbench.metrics.views import AtBudget, Front, PerSolved, Unit, Views
from loopbench.text.numbers import RELATIONS, counts, dollars, interval, p_value, relation, standing, verdict
from loopbench.text.table import Table, csv_cell, markdown_page


def tables(comparison: Comparison, seen: Views | None = None, *, secondary: bool = True) -> tuple[Table, ...]:
    """Arms, what went wrong in them, pairs on accuracy, the Pareto front; where `secondary`, all the rest of what is known."""
    made = [_arms(comparison.arms), _troubles(comparison.arms)]
    if comparison.pairs:
        made.append(_pairs([pair for pair in comparison.pairs if pair.family == "primary"], "Accuracy, a minus b"))
        made.append(
            _pairs(_telling(comparison.pairs) if secondary else (), "Other metrics, a minus b (secondary; lower is better)")
        )
    if seen is not None:
        made += [_front([front for front in seen.fronts if front.unit == unit], seen.per_solved, unit) for unit in UNITS]
        if secondary:
            made += [*_budgets(seen.budgets), _reliability(seen.reliability), _confidence(seen.confidence)]
    return tuple(table for table in made if table.rows)


def verdicts(comparison: Comparison) -> list[str]:
    """Return for each group of arms that are compared with one another the most accurate one, how sure that is, and a line for each
    arm that it is undecided against: what it would take to decide."""
    accuracy = {arm.info.arm: arm.summary.accuracy for arm in comparison.arms if arm.summary.accuracy is not None}
    against: dict[str, dict[str, Pair]] = {name: {} for name in accuracy}
    for pair in comparison.pairs if not comparison.invalid else ():
        if pair.family == "primary":
            against[pair.a][pair.b] = against[pair.b][pair.a] = pair
    said: list[str] = []
    told: set[str] = set()
    for first, others in against.items():
        group = (first, *others)
        if first in told or not others:
            continue
        told.update(group)
        best = max(group, key=lambda name: accuracy[name].value)
        found = {name: relation(pair, best) for name, pair in against[best].items()}
        ordered = [(words, [name for name in group if found.get(name) == words]) for words in RELATIONS.values()]
        rest = "; ".join(f"{words} {_few(names)}" for words, names in ordered if names)
        said.append(f"Highest accuracy: {best}, {interval(accuracy[best], 3)}; {rest}")
        said += _open([(name, against[best][name]) for name in group if name in against[best]], best)
    return said


def _open(pairs: Sequence[tuple[str, Pair]], best: str) -> list[str]:
    """Return what would decide the open ones among an arm's pairs, the nearest to a decision first."""
    plans = sorted(((pair.needed, name) for name, pair in pairs if pair.needed is not None), key=lambda plan: plan[0].tasks)
    lines = [f"Undecided between {best} and {name}: {needed_in_words(needed)}" for needed, name in plans[:MAX_PLANS]]
    more = len(plans) - MAX_PLANS
    return [*lines, f"Undecided between {best} and {more} others: more than that"] if more > 0 else lines


def needed_in_words(needed: Needed) -> str:
    """`480 tasks × 1, 960 trials, about $3.10, would show a difference this large`."""
    cost = "" if needed.cost_usd is None else f", about ${dollars(needed.cost_usd)}"
    shown = "a difference this large" if needed.to_show == "difference" else "that they are equivalent"
    return f"{needed.tasks:,} tasks × {needed.repeats}, {needed.trials:,} trials{cost}, would show {shown}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} others" if len(names) > MAX_NAMES else "")


MAX_NAMES = 6
MAX_PLANS = 4


def notes(comparison: Comparison) -> list[str]:
    """Return what to keep in mind: warnings first."""
    said = [f"Warning: {warning}" for warning in comparison.warnings]
    if comparison.invalid:
        said.append("This run is invalid: no verdict of it holds.")
    said += comparison.remarks
    level = f"{100 * (1 - comparison.alpha):.4g} %"
    said.append(
        f"Brackets are {level} intervals, each for itself; p is a paired sign-flip test on task means. Verdicts are adjusted over "
        f"all pairs of a metric (Holm); equivalent means within {comparison.margin:g} (accuracy), or within that share of the mean "
        "(the rest, which are secondary)."
    )
    for arm in comparison.arms:
        found = arm.summary
        for what, reasons in (("crashed", found.crashes), ("errored", found.errored_reasons), ("excluded", found.exclusions)):
            if reasons:
                said.append(f"{arm.info.arm}, {what}: {_reasons(reasons)}")
        if found.retries:
            said.append(f"{arm.info.arm}, asked again after: {counts(found.retries)}")
    if any(arm.summary.means["nominal_usd"] is not None for arm in comparison.arms):
        said.append("USD is what was billed; USD uncached what it would be had nothing come from a cache or a recording.")
    if any(arm.info.model == "scripted" for arm in comparison.arms):
        said.append(
            "The model is scripted: intervals speak of tasks and fault draws, not of any real model; tokens are estimates "
            "(4 characters each), seconds the simulated time of slow and hanging faults."
        )
    return said


MAX_REASONS = 3


def _reasons(found: Mapping[str, int]) -> str:
    """The most frequent reasons with their counts."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    shown = "; ".join(f"{n} × {reason[:160]}" for reason, n in ordered[:MAX_REASONS])
    return shown + (f"; and {len(ordered) - MAX_REASONS} other reasons" if len(ordered) > MAX_REASONS else "")


def _arms(arms: Sequence[ArmResult]) -> Table:
    measures = in_table_order(METRICS)
    columns = ("arm", "scored", "errored", "excluded", *(measure.label for measure in measures.values()))
    rows = []
    for arm in arms:
        found = arm.summary
        rows.append(
            (
                arm.info.arm,
                str(found.scored),
                str(found.errored),
                str(found.excluded),
                *(interval(found.means[name], min(measure.digits, 4)) for name, measure in measures.items()),
            )
        )
    known = [index for index in range(len(columns)) if any(row[index] != "–" for row in rows)]
    return Table("Arms", tuple(columns[i] for i in known), tuple(tuple(row[i] for i in known) for row in rows))


def _troubles(arms: Sequence[ArmResult]) -> Table:
    columns = ("arm", "stops", "errors", "faults landed", "absorbed", "recovered", "recovery rate", *_IMPLICIT, "false success")
    rows = []
    for arm in arms:
        found, faults = arm.summary, arm.summary.faults
        rows.append(
            (
                arm.info.arm,
                counts(found.stops),
                counts(found.errors),
                *(
                    (f"{faults.landed} of {faults.scheduled}", str(faults.absorbed), str(faults.recovered))
                    if faults.scheduled  # none are in clean air, and of an imported run that is not known
                    else ("–", "–", "–")
                ),
                interval(found.recovery, 2),
                f"{faults.believed} of {faults.implicit}" if faults.implicit else "–",
                interval(found.implicit_wrong, 2),
                "–" if found.false_success_rate is None else str(found.false_success),
            )
        )
    shown = [place for place, column in enumerate(columns) if column not in _IMPLICIT or any(row[place] != "–" for row in rows)]
    return Table("What happened", tuple(columns[i] for i in shown), tuple(tuple(row[i] for i in shown) for row in rows))


_IMPLICIT = ("believed", "wrong after implicit")
"""Columns that are left out where no tool failed implicitly."""


def _pairs(pairs: Sequence[Pair], title: str) -> Table:
    columns = ("a", "b", "metric", "difference", "tasks", "p", "p (Holm)", "verdict")
    rows = tuple(
        (
            pair.a,
            pair.b,
            pair.metric,
            interval(pair.difference, METRICS[pair.metric].digits),
            str(pair.difference.n),
            p_value(pair.p),
            p_value(pair.p_holm),
            verdict(pair),
        )
        for pair in pairs
    )
    return Table(title, columns, rows)


def _telling(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs on metrics other than accuracy; not on seconds, which are for the reader of an arm's row and of `--json`."""
    return [pair for pair in pairs if pair.family == "secondary" and pair.metric != "seconds"]


# --- other views ---

UNITS: Mapping[Unit, str] = {"cost_usd": "USD", "tokens": "tokens"}


def _front(fronts: Sequence[Front], per_solved: Sequence[PerSolved], unit: Unit) -> Table:
    """Arms on the plane of accuracy and cost, the most accurate of a group first."""
    solved = {found.arm: found.value for found in per_solved if found.unit == unit}
    name, digits = UNITS[unit], METRICS[unit].digits
    columns = ("arm", "accuracy", f"{name} per trial", f"{name} per solved task", "on the front", "share of bootstrap draws")
    rows = tuple(
        (
            point.arm,
            interval(point.accuracy, 3),
            interval(point.cost, digits),
            interval(solved.get(point.arm), digits),
            "yes" if point.on_front else "no",
            f"{point.front_share:.2f}",
        )
        for front in fronts
        for point in sorted(front.points, key=lambda point: -point.accuracy.value)
    )
    return Table(f"Accuracy against {name}: the Pareto front", columns, rows)


def _budgets(budgets: Sequence[AtBudget]) -> list[Table]:
    """A table for each group and unit, a column for each budget."""
    groups: dict[tuple[str, str, Unit], list[AtBudget]] = {}
    for found in budgets:
        groups.setdefault((found.suite, found.profile, found.unit), []).append(found)
    made = []
    for (suite, profile, unit), group in groups.items():
        columns = ("arm", *(f"{found.budget:,.{METRICS[unit].digits}f} {UNITS[unit]}" for found in group))
        rows = tuple((arm, *(_at_budget(found, arm) for found in group)) for arm in group[0].arms)
        made.append(
            Table(f"Accuracy within a budget per trial, {suite}, {profile} (secondary; against the highest)", columns, rows)
        )
    return made


def _at_budget(found: AtBudget, arm: str) -> str:
    """`0.117 [0.050, 0.210] worse`: against the arm that is the highest at this budget."""
    best = max(found.arms, key=lambda name: found.arms[name].value)
    pair = next((pair for pair in found.pairs if {pair.a, pair.b} == {arm, best}), None)
    said = "highest" if arm == best else "" if pair is None else standing(pair, arm)
    return f"{interval(found.arms[arm], 3)} {said}".rstrip()


def _reliability(arms: Sequence[Reliability]) -> Table:
    columns = ("arm", "tasks", "tries", "pass@1", "any of the tries", "all of them", "consistency", "variance between", "within")
    rows = tuple(
        (
            found.arm,
            str(found.tasks),
            str(found.repeats),
            interval(found.pass_at[0], 3),
            interval(found.pass_at[-1], 3),
            interval(found.pass_hat[-1], 3),
            interval(found.consistency, 3),
            "–" if found.variance is None else f"{found.variance.between:.3f}",
            "–" if found.variance is None else f"{found.variance.within:.3f}",
        )
        for found in arms
    )
    return Table("Repeats: pass@k and pass^k at k = tries", columns, rows)


def _confidence(arms: Sequence[Calibration]) -> Table:
    columns = ("arm", "reported", "Brier", "calibration error", "AUROC", "area of risk over coverage")
    rows = tuple(
        (
            found.arm,
            f"{found.reported} of {found.scored}",
            interval(found.brier, 3),
            f"{found.ece:.3f}",
            interval(found.auroc, 3),
            f"{found.aurc:.3f}",
        )
        for found in arms
    )
    return Table("Confidence", columns, rows)


# --- numbers ---


# --- text that came from a model, a tool or a file ---


def to_markdown(title: str, comparison: Comparison, seen: Views | None = None) -> str:
    """Verdicts, tables and notes for a pull request."""
    return markdown_page(title, tables(comparison, seen), notes(comparison), verdicts(comparison))


def to_csv(comparison: Comparison) -> str:
    """One line per arm, numbers in columns of their own; a cell that a spreadsheet would run as a formula is quoted with '."""
    file = io.StringIO()
    rows = [_flat(arm.to_json()) for arm in comparison.arms]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in columns])
    for row in rows:
        writer.writerow([csv_cell(row.get(name, "")) for name in columns])
    return file.getvalue()


def _flat(value: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    made: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            made |= _flat(item, f"{prefix}{name}.")
        else:
            made[f"{prefix}{name}"] = "" if item is None else str(item)
    return made
