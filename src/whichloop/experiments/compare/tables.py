"""The tables of a comparison beside its answer: arms, pairs, faults, costs, budgets, repeats, confidence, loops against models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from whichloop.metrics.calibration import Calibration
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.harness import Harness
from whichloop.metrics.measures import DISTANCES, Measure, TableName
from whichloop.metrics.outlook import Outlook
from whichloop.metrics.pairs import OnTasks, Pair
from whichloop.metrics.record import Record, records_by_arm
from whichloop.metrics.reliability import Reliability
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, PRIMARY, labels, measures_of
from whichloop.metrics.views import AtBudget, Front, PerSolved, Unit
from whichloop.protocol.values import counted
from whichloop.text.doc import UNKNOWN, Cell, Table, to_csv
from whichloop.text.numbers import (
    counts,
    difference_text,
    interval,
    limit_text,
    measure_text,
    p_value,
    verdict,
)

from .results import Results

OTHERS = "other templates"
"""Heading of intervals that have templates of tasks as units."""
MAX_TASKS = 30
"""Most tasks that have a column each."""
TITLES: Mapping[TableName, str] = {
    "context": "Context: results still shown when needed, by how many prompts ago they came, and prompts that keep their beginning",
    "calls": "Calls: shares of calls or results that the loop lost, did twice, mixed up or ran too early; less is better",
    "injection": "Injection: shares of the trials in which a tool's result carried an instruction",
}


def detail_tables(run: Results) -> Sequence[Table]:
    """Return the tables that -v, the page and Markdown show; columns without values are left out."""
    compared, views = run.comparison, run.views
    arms = compared.arms
    return [
        measures_table("Arms", arms, "arms"),
        _faults(arms),
        _recovery(run.records, arms),
        pairs_table("Accuracy, a minus b", compared.pairs_on(PRIMARY)),
        pairs_table("Accuracy over all profiles, a minus b (a family of its own)", compared.pooled),
        _templates(compared),
        *(measures_table(title, arms, name) for name, title in TITLES.items()),
        pairs_table("Other measures, a minus b (secondary)", [p for p in compared.pairs if p.metric not in (PRIMARY, "seconds")]),
        *_fronts(views.fronts, views.per_solved),
        *_budgets(views.budgets),
        _tasks(compared.on_tasks),
        _reliability(views.reliability),
        _confidence(views.confidence),
        *map(harness_table, run.harness),
    ]


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> Table:
    """Return a detail table without the columns in which nothing is known; without rows where only their names are."""
    texts = Table(title, tuple(columns), tuple(map(tuple, rows))).texts
    used = [n for n in range(len(columns)) if n == 0 or any(row[n] not in (UNKNOWN, "") for row in texts)]
    kept = tuple(tuple(row[n] for n in used) for row in rows) if len(used) > 1 else ()
    return Table(title, tuple(columns[n] for n in used), kept, detail=True)


def headings(names: Sequence[str], arms: Sequence[ArmResult]) -> list[str]:
    """Return the headings of measures; one of which no mean is known keeps its own label."""
    known = labels([name for name in names if any(arm.summary.means[name] is not None for arm in arms)])
    return [known.get(name, METRICS[name].label) for name in names]


def measures_table(title: str, arms: Sequence[ArmResult], name: TableName) -> Table:
    """Return the means of the measures of one table, with their intervals, and of the arms how many trials they are over."""
    measures = measures_of(name)
    is_main, distances = name == "arms", DISTANCES if name == "context" else ()
    trials = ("scored", "errored", "excluded") if is_main else ()
    columns = ("arm", *trials, *headings(list(measures), arms), *(f"retention at {each}" for each in distances))
    rows = [
        (
            arm.info.arm,
            *(str(getattr(arm.summary, each)) for each in trials),
            *(_with_tasks(arm.summary.means[each], measure) for each, measure in measures.items()),
            *(interval(arm.summary.retention_at.get(each), 3) for each in distances),
        )
        for arm in arms
        if is_main or any(arm.summary.means[each] is not None for each in measures)
    ]
    return table_of(title, columns, rows)


def _with_tasks(mean: Interval | None, measure: Measure) -> str:
    """Return a mean with its interval, and how many tasks it is over where the measure is known of some trials alone."""
    text = measure_text(mean, measure)
    return f"{text}, n = {mean.n}" if mean is not None and measure.of_some and mean.is_known else text


def _faults(arms: Sequence[ArmResult]) -> Table:
    """Return how trials ended, their errors, and what became of the faults."""
    rows = []
    for arm in arms:
        summary, faults = arm.summary, arm.summary.faults
        landed = (f"{faults.landed} of {faults.scheduled}", str(faults.absorbed), str(faults.recovered))
        rows.append(
            (
                arm.info.arm,
                counts(summary.stops),
                counts(summary.errors),
                counts(summary.retries),
                *(landed if faults.scheduled else [UNKNOWN] * 3),
                interval(summary.recovery, 3),
                f"{faults.believed} of {faults.implicit}" if faults.implicit else UNKNOWN,
                interval(summary.implicit_wrong, 3),
                UNKNOWN if summary.false_success_rate is None else str(summary.false_success),
                str(summary.right_unseen) if summary.right_unseen else UNKNOWN,
            )
        )
    faults_columns = ("faults landed", "absorbed", "recovered", "recovery rate", "believed", "wrong after implicit")
    columns = ("arm", "stops", "errors", "asked again after", *faults_columns, "wrong as done", "right though never shown")
    return table_of("What happened", columns, rows)


def _recovery(records: Sequence[Record], arms: Sequence[ArmResult]) -> Table:
    """Return for each kind of fault how many that spoiled something each loop recovered from: `12 of 15`."""
    loops = list(dict.fromkeys(arm.info.without_profile for arm in arms))
    counts: dict[tuple[str, str], dict[str, list[bool]]] = {}
    for arm, own in records_by_arm(records, [each.info for each in arms]).items():
        info = next(each.info for each in arms if each.info.arm == arm)
        for fault in (fault for record in own if record.status == "scored" for fault in record.faults):
            if fault.landed and not fault.absorbed:
                counts.setdefault((info.profile, fault.kind), {}).setdefault(info.without_profile, []).append(fault.recovered)
    rows = [
        (profile, kind, *(f"{sum(found[loop])} of {len(found[loop])}" if loop in found else UNKNOWN for loop in loops))
        for (profile, kind), found in sorted(counts.items())
    ]
    return table_of("Faults that a loop recovered from", ("profile", "fault", *loops), rows)


def pairs_table(title: str, pairs: Sequence[Pair]) -> Table:
    """Return a row for each pair: the difference with its interval, p, the verdict, and what would decide it."""
    rows = [
        (
            pair.a,
            pair.b,
            METRICS[pair.metric].label if any(each.metric != PRIMARY for each in pairs) else "",
            _difference(pair),
            str(pair.difference.n),
            "" if pair.units == pair.difference.n else str(pair.units),
            p_value(pair.p),
            p_value(pair.p_holm),
            verdict(pair),
            "" if pair.outlook is None else would_decide(pair.outlook),
        )
        for pair in pairs
    ]
    columns = ("a", "b", "measure", "difference", "tasks", "clusters", "p", "p (Holm)", "verdict", "would decide")
    return table_of(title, columns, rows)


def _difference(pair: Pair) -> str:
    measure = METRICS[pair.metric]
    return measure_text(pair.difference, measure) if measure.in_dollars else difference_text(pair.difference, measure.digits)


def would_decide(outlook: Outlook) -> str:
    """Return `790 tasks × 2 (80 %)`: the size of a run that is likely to decide, with the chance that it does, at most 95 %."""
    repeats = f" × {outlook.repeats:,}" if outlook.repeats > 1 else ""
    return f"{counted(outlook.more.tasks, 'task')}{repeats} ({min(5 * round(20 * outlook.more.chance), 95)} %)"


def _templates(comparison: Comparison) -> Table:
    """Return accuracy with tasks as units beside accuracy with templates as units, of arms and pairs that have both."""
    arms = [(arm.info.arm, arm.summary.accuracy, arm.summary.over_templates) for arm in comparison.arms]
    pairs = [(f"{pair.a} - {pair.b}", pair.difference, pair.over_templates) for pair in comparison.pairs]
    rows = [(name, interval(own, 3), interval(over, 3), str(over.n)) for name, own, over in [*arms, *pairs] if over is not None]
    return table_of(f"Accuracy on new tasks of these templates, and on {OTHERS}", ("", "these", OTHERS, "templates"), rows)


def _fronts(fronts: Sequence[Front], per_solved: Sequence[PerSolved]) -> Iterator[Table]:
    """Yield accuracy against cost for each unit, the most accurate arm of a group first."""
    for unit in dict.fromkeys(front.unit for front in fronts):
        own = [front for front in fronts if front.unit == unit]
        solved = {item.arm: item.value for item in per_solved if item.unit == unit}
        name = labels({front.unit for front in fronts})[unit]
        rows = [
            (
                point.arm,
                interval(point.accuracy, 3),
                measure_text(point.cost, METRICS[unit]),
                measure_text(solved.get(point.arm), METRICS[unit]),
                "yes" if point.on_front else "no",
                f"{point.front_share:.3f}",
            )
            for front in own
            for point in sorted(front.points, key=lambda point: -point.accuracy.value)
        ]
        columns = ("arm", "accuracy", f"{name} a trial", f"{name} a solved task", "on the front", "share of bootstrap draws")
        yield table_of(f"Accuracy against {name}: the Pareto front", columns, rows)


def _budgets(budgets: Sequence[AtBudget]) -> Iterator[Table]:
    """Yield accuracy within a budget for each group and unit, with a column for each budget."""
    groups: dict[tuple[str, str, Unit], list[AtBudget]] = {}
    for at_budget in budgets:
        groups.setdefault((at_budget.suite, at_budget.profile, at_budget.unit), []).append(at_budget)
    for (suite, profile, unit), group in groups.items():
        columns = ("arm", *(f"{limit_text(each.budget)} {labels([unit])[unit]}" for each in group))
        rows = [(arm, *(_at_budget(each, arm) for each in group)) for arm in group[0].arms]
        yield table_of(f"Accuracy within a budget of a trial, {suite}, {profile} (secondary)", columns, rows)


def _at_budget(at_budget: AtBudget, arm: str) -> str:
    """Return `0.117 [0.050, 0.210] worse`, compared with the arm that is the best at this budget."""
    best = max(at_budget.arms, key=lambda name: at_budget.arms[name].value)
    pair = next((pair for pair in at_budget.pairs if {pair.a, pair.b} == {arm, best}), None)
    place = "best" if arm == best else "" if pair is None else (pair.turned if arm == pair.b else pair).verdict.word
    return f"{interval(at_budget.arms[arm], 3)} {place}".rstrip()


def _tasks(arms: OnTasks) -> Table:
    """Return how many trials of each task an arm solved, where tasks are few."""
    tasks = sorted({task for own in arms.values() for task in own})
    rows = []
    for arm, own in arms.items() if len(tasks) <= MAX_TASKS else ():
        texts = {task: f"{solved:,.4g} of {trials:,}" for task, (solved, trials) in own.items()}
        rows.append((arm, *(texts.get(task, UNKNOWN) for task in tasks)))
    return table_of("Trials of each task that were solved", ("arm", *tasks), rows)


def _reliability(arms: Sequence[Reliability]) -> Table:
    columns = ("arm", "tasks", "tries", "pass@1", "any of the tries", "all of them", "consistency", "variance between", "within")
    rows = [
        (
            each.arm,
            str(each.tasks),
            str(each.repeats),
            *(interval(value, 3) for value in (each.pass_at[0], each.pass_at[-1], each.pass_hat[-1], each.consistency)),
            *([UNKNOWN] * 2 if each.variance is None else [f"{each.variance.between:.3f}", f"{each.variance.within:.3f}"]),
        )
        for each in arms
    ]
    return table_of("Repeats: pass@k and pass^k at k = tries, the fewest scored repeats of a task that has several", columns, rows)


def _confidence(arms: Sequence[Calibration]) -> Table:
    columns = ("arm", "reported", "Brier", "calibration error", "AUROC", "area of risk over coverage")
    rows = [
        (
            each.arm,
            f"{each.reported} of {each.scored}",
            interval(each.brier, 3),
            f"{each.ece:.3f}",
            interval(each.auroc, 3),
            f"{each.aurc:.3f}",
        )
        for each in arms
    ]
    return table_of("Confidence", columns, rows)


def harness_table(found: Harness) -> Table:
    """Return what accuracy varies by where loops and models, or profiles, are crossed, and how often rankings reverse."""
    rows = [
        (
            part.source.replace("model", found.kind),
            interval(part.deviation, 3) if part.has_interval else f"{part.deviation.value:.3f}, no interval",
            f"{100 * part.share:.1f} %",
        )
        for part in found.parts
    ]
    rows += [
        ("loop minus " + found.kind, interval(found.difference, 3), ""),
        (f"pairs of loops that change places under another {found.kind}", f"{found.loops_reverse:.2f}", ""),
        (f"pairs of {found.kind}s that change places under another loop", f"{found.conditions_reverse:.2f}", ""),
    ]
    crossed = f"{counted(len(found.loops), 'loop')} × {len(found.conditions)} {found.kind}s × {counted(found.tasks, 'task')}"
    columns = ("source", "standard deviation of accuracy, or share of pairs", "share of variance")
    return table_of(f"How much is the loop, how much the {found.kind}, {found.suite}: {crossed}", columns, rows)


def arms_csv(comparison: Comparison) -> str:
    """Return CSV with a line per arm and a column per number."""
    rows = [_flat(arm.to_json()) for arm in comparison.arms]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return to_csv(Table("", columns, tuple(tuple(row.get(name, "") for name in columns) for row in rows)))


def _flat(value: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = "" if item is None else str(item)
    return flat
