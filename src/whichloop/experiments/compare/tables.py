"""A comparison as tables of plain text, Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

from whichloop.experiments.compare.verdict.answer import answer
from whichloop.experiments.compare.verdict.warned import blocked
from whichloop.metrics.arm_info import are_imported
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.measures import Measure, in_table_order
from whichloop.metrics.outlook import Chance, Outlook
from whichloop.metrics.pairs import Pair
from whichloop.metrics.record_table import DISTANCES
from whichloop.metrics.summary import METRICS, PRIMARY, labels, measures_of
from whichloop.metrics.views import COSTS, Views
from whichloop.models.evidence import evidence_for
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.text.numbers import (
    chance_in_words,
    counts,
    dollars_text,
    interval,
    measure_text,
    measured_difference,
    p_value,
    reasons,
    short_name,
    tasks_in_words,
    verdict,
)
from whichloop.text.table import Table, csv_cell, markdown_page

from .view_tables import budget_tables, confidence_table, front_table, reliability_table


def comparison_tables(comparison: Comparison, views: Views | None = None, *, secondary: bool = True) -> tuple[Table, ...]:
    """Return the tables of arms, their troubles, pairs on accuracy and the Pareto front; with `secondary`, all others too."""
    candidates = [_arms(comparison.arms), _troubles(comparison.arms)]
    if comparison.pairs:
        candidates.append(_pairs(comparison.pairs_on(PRIMARY), "Accuracy, a minus b", comparison.arms))
        candidates.append(_pairs(_secondary_pairs(comparison.pairs) if secondary else (), SECONDARY, comparison.arms))
    candidates.append(_pairs(comparison.pooled, TOGETHER))
    candidates.append(over_templates(comparison))
    if secondary:
        candidates += [context(comparison.arms), calls(comparison.arms), injection(comparison.arms)]
    if views is not None:
        candidates += [
            front_table([front for front in views.fronts if front.unit == unit], views.per_solved, unit) for unit in COSTS
        ]
        if secondary:
            candidates += [*budget_tables(views.budgets), reliability_table(views.reliability), confidence_table(views.confidence)]
    limits = comparison.limits
    return tuple(replace(table, title=limits.title(table.title)) for table in candidates if table.rows)


def outlook_in_words(outlook: Outlook, what: str = "this comparison decides") -> str:
    """Return `with 480 tasks × 1 repeat (960 trials), the chance that this comparison decides is about 50 %; with 2,100 …`."""
    fewer, more = outlook.fewer, outlook.more
    median = ", the median of a task's" if outlook.is_median else ""
    repeats = f"{counted(outlook.repeats, 'repeat')}{median}"
    words = (
        f"with {fewer.tasks:,} tasks × {repeats} ({_spent(fewer)}), the chance that {what} is about {chance_in_words(fewer.chance)}"
    )
    return words if more == fewer else f"{words}; with {more.tasks:,} tasks ({_spent(more)}), about {chance_in_words(more.chance)}"


def _spent(size: Chance) -> str:
    return f"{counted(size.trials, 'trial')}{'' if size.cost_usd is None else f', about ${dollars_text(size.cost_usd)}'}"


FAMILY = "Bonferroni; by Holm's steps where pairs are decided both ways"
"""What a family of pairs with both tests of each comes to: a pair that differs may be the margin apart, and so goes on counting."""
AMOUNTS_NOTE = (
    "Brackets of amounts, such as tokens and dollars, are corrected for skewness: a few trials may cost much more than the others, "
    "so that an interval reaches farther up than down. Those of a difference or a ratio of costs are adjusted over all pairs, too."
)
INVALID_RUN = "This run is invalid: none of its verdicts holds."


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return the caveats, warnings first."""
    lines = [f"Warning: {warning}" for warning in comparison.warnings]
    if comparison.invalid:
        lines.append(INVALID_RUN)
    lines += comparison.remarks
    level = f"{100 * (1 - comparison.alpha):.4g} %"
    lines.append(
        f"Brackets of an arm are {level} intervals; p is a paired sign-flip test on task means. Verdicts are adjusted over all "
        f"pairs of a metric ({FAMILY}), and a difference's brackets are at the level that this leaves it, so that they hold 0 "
        f"unless the verdict is better or worse; equivalent means within {comparison.margin:g} (accuracy), or within that share of "
        "the mean (the rest, which are secondary)."
    )
    lines.append(AMOUNTS_NOTE)
    if any(arm.summary.over_templates is not None for arm in comparison.arms):
        lines.append(TEMPLATES_NOTE)
    for arm in comparison.arms:
        summary = arm.summary
        lines += _crashes_and_hangs(arm)
        for status, reason_counts in {"errored": summary.errored_reasons, "excluded": summary.exclusions}.items():
            if reason_counts:
                lines.append(f"{arm.info.arm}, {status}: {reasons(reason_counts)}")
        if summary.retries:
            lines.append(f"{arm.info.arm}, asked again after: {counts(summary.retries)}")
    if any(arm.summary.means["nominal_usd"] is not None for arm in comparison.arms):
        are_real = any(arm.info.model != SCRIPTED for arm in comparison.arms)
        simulated = "what the scripted model's tokens would cost at the given price, a provider's prompt cache being simulated"
        billed = "what was billed" if are_real else simulated
        lines.append(f"USD with cache is {billed}; USD uncached what it would be had nothing come from a cache or a recording.")
    if any(arm.info.model == SCRIPTED for arm in comparison.arms):
        lines.append(
            "The model is scripted: intervals speak of tasks and fault draws, not of any real model; tokens are estimates "
            "(4 characters each), seconds the simulated time of slow and hanging faults."
        )
    profiles = sorted({arm.info.profile for arm in comparison.arms})
    return lines + [f"{name}: {evidence}" for name, evidence in evidence_for(profiles).items()]


def _crashes_and_hangs(arm: ArmResult) -> list[str]:
    """Return a line where an arm's loop crashed, and one where it let nothing else run, with the most frequent reasons."""
    each = (("crashed", arm.summary.crashes), ("hung", blocked(arm)))
    return [f"{arm.info.arm}, {what}: {reasons(why)}" for what, why in each if why]


def headings(measures: Mapping[str, Measure], arms: Sequence[ArmResult]) -> list[str]:
    """Return the headings of the means of measures; a measure of which no mean is known keeps its own label."""
    known_labels = labels([name for name in measures if any(arm.summary.means[name] is not None for arm in arms)])
    return [known_labels.get(name, measure.label) for name, measure in measures.items()]


def _arms(arms: Sequence[ArmResult]) -> Table:
    measures = in_table_order(measures_of("arms"))
    columns = ("arm", "scored", "errored", "excluded", *headings(measures, arms))
    rows = []
    for arm in arms:
        summary = arm.summary
        rows.append(
            (
                arm.info.arm,
                str(summary.scored),
                str(summary.errored),
                str(summary.excluded),
                *(measure_text(summary.means[name], measure) for name, measure in measures.items()),
            )
        )
    return _without_unknown("Arms", columns, rows)


def _without_unknown(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without the columns in which nothing is known."""
    used = [index for index in range(len(columns)) if any(row[index] != "–" for row in rows)]
    return Table(title, tuple(columns[i] for i in used), tuple(tuple(row[i] for i in used) for row in rows))


def context(arms: Sequence[ArmResult]) -> Table:
    """Return what each arm does with its context; without rows where nothing is known of any."""
    measures = measures_of("context")
    columns = ("arm", *(measure.label for measure in measures.values()), *(f"retention at {distance}" for distance in DISTANCES))
    rows = [
        (
            arm.info.arm,
            *(interval(arm.summary.means[name], measure.digits) for name, measure in measures.items()),
            *(interval(arm.summary.retention_at.get(distance), 3) for distance in DISTANCES),
        )
        for arm in arms
        if any(arm.summary.means[name] is not None for name in measures)
    ]
    return _without_unknown(CONTEXT, columns, rows)


def calls(arms: Sequence[ArmResult]) -> Table:
    """Return what became of the model's calls in each arm, each share with the tasks that it is a mean over; without rows where
    nothing is known of any."""
    measures = measures_of("calls")
    columns = ["arm", *(text for measure in measures.values() for text in (measure.label, "tasks"))]
    rows = []
    for arm in arms:
        means = {name: arm.summary.means[name] for name in measures}
        cell_pairs = [
            (interval(mean, measures[name].digits), str(mean.n) if mean is not None else "–") for name, mean in means.items()
        ]
        rows.append((arm.info.arm, *(cell for cells in cell_pairs for cell in cells)))
    return _without_unknown(CALLS, columns, [row for row in rows if any(cell != "–" for cell in row[1:])])


def injection(arms: Sequence[ArmResult]) -> Table:
    """Return how far instructions in results came in each arm; without rows where no result carried any."""
    measures = measures_of("injection")
    columns = ("arm", *(measure.label for measure in measures.values()), "tasks")
    rows = []
    for arm in arms:
        means = [arm.summary.means[name] for name in measures]
        tasks = next((mean.n for mean in means if mean is not None), None)
        if tasks is not None:
            numbers = (interval(mean, measure.digits) for mean, measure in zip(means, measures.values(), strict=True))
            rows.append((arm.info.arm, *numbers, str(tasks)))
    return Table(INJECTION, columns, tuple(rows))


SECONDARY = "Other metrics, a minus b (secondary; of shares more is better, of harms and all else less)"
TOGETHER = "Accuracy over all profiles together, a minus b (a family of its own)"
INJECTION = "Injection: shares of the trials in which a tool's result carried an instruction, and the tasks that had one"
CALLS = "Calls: shares of the calls or results that the loop lost, did twice, mixed up or ran too early; less is better"
CONTEXT = "Context: results still shown when needed, by how many prompts ago they came, and prompts that keep their beginning"
RIGHT_UNSEEN = "right though never shown"


STOPS = "stops of all trials"
"""Heading of how the trials of an arm ended, those too that were solved all the same."""


def _troubles(arms: Sequence[ArmResult]) -> Table:
    unseen = any(arm.summary.right_unseen for arm in arms)
    of_faults = ("faults landed", "absorbed", "recovered", "recovery rate", *_IMPLICIT)
    columns = ("arm", STOPS, "errors", *of_faults, "false success", *((RIGHT_UNSEEN,) if unseen else ()))
    rows = []
    for arm in arms:
        summary, faults = arm.summary, arm.summary.faults
        rows.append(
            (
                arm.info.arm,
                counts(summary.stops),
                counts(summary.errors),
                *(
                    (f"{faults.landed} of {faults.scheduled}", str(faults.absorbed), str(faults.recovered))
                    if faults.scheduled  # there are none without faults, and they are unknown for an imported run
                    else ("–", "–", "–")
                ),
                interval(summary.recovery, 3),
                f"{faults.believed} of {faults.implicit}" if faults.implicit else "–",
                interval(summary.implicit_wrong, 3),
                "–" if summary.false_success_rate is None else str(summary.false_success),
                *(("–" if summary.right_unseen is None else str(summary.right_unseen),) if unseen else ()),
            )
        )
    hides = _IMPLICIT if not are_imported(arm.info for arm in arms) else columns[1:]  # which of ours is unknown is worth knowing
    places = [place for place, column in enumerate(columns) if column not in hides or any(row[place] != "–" for row in rows)]
    if len(places) == 1:
        return Table("What happened", (), ())
    return Table("What happened", tuple(columns[i] for i in places), tuple(tuple(row[i] for i in places) for row in rows))


_IMPLICIT = ("believed", "wrong after implicit")
"""Columns that are left out where no tool failed implicitly."""


UNDER = "under"
"""Heading of the profile of two arms, and their suite, where a run has several."""


def _settings(arms: Sequence[ArmResult]) -> Mapping[str, tuple[str, str]]:
    """Return arm → its name without the profile, and what it ran under; that is empty where all ran under the same."""
    infos = [arm.info for arm in arms]
    suites, profiles = ({getattr(info, part) for info in infos} for part in ("suite", "profile"))
    parts = [part for part, values in (("suite", suites), ("profile", profiles)) if len(values) > 1]
    return {info.arm: (short_name(info), ", ".join(getattr(info, part) for part in parts)) for info in infos}


def _pairs(pairs: Sequence[Pair], title: str, arms: Sequence[ArmResult] = ()) -> Table:
    """Return a row for each pair. `arms`: those of the pairs; left out where these are of loops over all profiles together."""
    plans, settings = any(pair.outlook is not None for pair in pairs), _settings(arms)
    apart = (UNDER,) if any(under for _, under in settings.values()) else ()
    of_several = ("metric",) if any(pair.metric != PRIMARY for pair in pairs) else ()  # else the title names it
    columns = (
        "a",
        "b",
        *apart,
        *of_several,
        "difference",
        "tasks",
        "p",
        "p (adj.)",
        "verdict",
        *(["would decide"] if plans else []),
    )
    rows = tuple(
        (
            *(settings[arm][0] if arm in settings else arm for arm in (pair.a, pair.b)),
            *([settings[pair.a][1]] if apart else []),
            *([pair.metric] if of_several else []),
            measured_difference(pair.difference, METRICS[pair.metric]),
            str(pair.difference.n),
            p_value(pair.p),
            p_value(pair.p_holm),
            verdict(pair),
            *([_would_decide(pair.outlook)] if plans else []),
        )
        for pair in pairs
    )
    return Table(title, columns, rows)


def _would_decide(outlook: Outlook | None) -> str:
    """Return `790 tasks (80 %)`: the size of a run that is likely to decide, with the chance that it does."""
    if outlook is None:
        return ""
    return f"{tasks_in_words(outlook.more, outlook)} ({chance_in_words(outlook.more.chance)})"


OTHERS = "others like them"
"""Heading of intervals with templates as units."""
TEMPLATES_NOTE = (
    "Tasks come from templates: the intervals that decide say what new tasks of these templates would give, those under "
    f"{OTHERS} what tasks of templates not yet written would give. Where those are the narrower ones, the few templates differed "
    "less than their tasks do, by chance or because each mixes easy and hard ones: then take the wider interval for both questions."
)


def over_templates(comparison: Comparison) -> Table:
    """Return accuracy with tasks as units beside accuracy with templates as units, of arms and pairs that have both."""
    settings = _settings(comparison.arms)
    apart = any(under for _, under in settings.values())
    arms = [(*settings[arm.info.arm], arm.summary.accuracy, arm.summary.over_templates) for arm in comparison.arms]
    pairs = [
        (f"{settings[pair.a][0]} - {settings[pair.b][0]}", settings[pair.a][1], pair.difference, pair.over_templates)
        for pair in comparison.pairs
    ]
    rows = tuple(
        (name, *([under] if apart else []), interval(plain, 3), interval(over, 3), str(over.n))
        for name, under, plain, over in [*arms, *pairs]
        if over is not None
    )
    columns = ("arm or pair", *([UNDER] if apart else []), "these", OTHERS, "templates")
    return Table(f"Accuracy: these templates, and {OTHERS}", columns, rows)


def _secondary_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs on metrics other than accuracy and seconds, which are only in an arm's row and in `--json`."""
    return [pair for pair in pairs if pair.family == "secondary" and pair.metric != "seconds"]


# --- Markdown and CSV ---


def to_markdown(title: str, comparison: Comparison, views: Views | None = None) -> str:
    """Return the answer, tables and notes as Markdown for a pull request."""
    return markdown_page(
        title,
        comparison_tables(comparison, views),
        comparison_notes(comparison),
        answer(comparison, () if views is None else views.budgets).sentences,
    )


def to_csv(comparison: Comparison) -> str:
    """Return CSV with a line per arm and a column per number; a cell that a spreadsheet would run as a formula starts with '."""
    file = io.StringIO()
    rows = [_flat(arm.to_json()) for arm in comparison.arms]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in columns])
    for row in rows:
        writer.writerow([csv_cell(row.get(name, "")) for name in columns])
    return file.getvalue()


def _flat(value: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = "" if item is None else str(item)
    return flat
