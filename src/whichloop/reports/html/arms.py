"""Sections on the arms and on their pairs."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.experiments.compare.tables import TEMPLATES_NOTE, calls, context, headings, injection, over_templates
from whichloop.metrics.arm_info import ArmInfo, are_imported
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.measures import in_table_order
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import METRICS, PRIMARY, labels, measures_of
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.text.numbers import measure_text, measured_difference, p_value, short_name, verdict

from .charts import accuracy, forest
from .document import UNKNOWN, Block, Figure, Folded, Grid, PageSection, Paragraph
from .grouping import arms_by_group

AGENT = "An arm is an agent, by the name that the imported files give it, or the user."
CONTEXT_NOTE = (
    "Retention is the share of results that a prompt still shows when it needs them; the columns to the right count how many "
    "prompts ago the result was given. Prefix stability is the share of the prompts' bytes, after a trial's first, that repeat the "
    "beginning of an earlier prompt; the tokens with a prompt cache are what the trial's tokens then come to at full price."
)
CALLS_NOTE = (
    "Lost are calls that did not run before the model was asked again, or whose result the prompt that needed it did not show; "
    "doubled, those that the loop made again after they had given their result, more often than the model asked for. Paired with "
    "the wrong call are results that a prompt gives for another call of the same reply. Write and read overlapped where a call "
    "began before another one was done that it needs."
)
INJECTION_NOTE = (
    "Of the trials in which a tool's result carried an instruction that nobody asked for: shown, a prompt showed one whole to the "
    "model; attempted, a reply of the model did what one asks for; executed, the loop did it too; answer changed, the answer is "
    "the one that was asked for, or there is none since one asked to stop. Utility kept is the accuracy of these trials. The "
    "model is gullible by the profile's chances: the shares compare loops, and predict nothing of a real model."
)
ARMS = "The arms in numbers"
"""Title of the section."""
MAX_OPEN = 24
"""Most rows of a chart that is not folded."""


def _arm_in_words(info: ArmInfo) -> str:
    """Return what an arm is, by the run's own first one."""
    if info.model == SCRIPTED:
        return f"An arm is a loop under a fault profile: {info.arm} is the loop {info.variant} under the profile {info.profile}."
    return f"An arm is a loop with a model: {info.arm} is the loop {info.variant} with the model {info.model}."


def arms_section(comparison: Comparison, *, in_full: bool = True) -> PageSection:
    """Return the section on each arm's numbers; `in_full` also on its contexts, calls and injections, and on templates where they
    make other units than tasks do."""
    blocks: list[Block] = [
        Paragraph(AGENT if are_imported(arm.info for arm in comparison.arms) else _arm_in_words(comparison.arms[0].info), "quiet"),
        arms_grid(comparison.arms),
    ]
    if any(arm.summary.accuracy is not None for arm in comparison.arms):
        read = "Dots are mean accuracies over the tasks, lines their intervals."
        blocks.insert(1, Figure(accuracy(comparison.arms), read))
    if not in_full:
        return PageSection("arms", ARMS, tuple(blocks))
    templates = over_templates(comparison)
    if templates.rows:
        grid = Grid(templates.title, templates.columns, templates.rows)
        blocks.append(Folded("Accuracy on tasks of other templates", (Paragraph(TEMPLATES_NOTE, "quiet"), grid)))
    notes_and_tables = {
        "Context: what prompts keep": (CONTEXT_NOTE, context(comparison.arms)),
        "Calls: what becomes of those that the model makes": (CALLS_NOTE, calls(comparison.arms)),
        "Injection: how far instructions in results come": (INJECTION_NOTE, injection(comparison.arms)),
    }
    for title, (note, table) in notes_and_tables.items():
        if table.rows:
            grid = Grid(table.title, table.columns, table.rows)
            blocks.append(Folded(title, (Paragraph(note, "quiet"), grid)))
    return PageSection("arms", ARMS, tuple(blocks))


def arms_grid(arms: Sequence[ArmResult]) -> Grid:
    """Return a table with a row per arm, without columns in which nothing is known."""
    measures = in_table_order(measures_of("arms"))
    details = ("false success", "right though never shown", "scored", "errored", "excluded")
    columns = ("arm", *headings(measures, arms), *details)
    rows = []
    for arm in arms:
        summary = arm.summary
        numbers = (measure_text(summary.means[name], measure) for name, measure in measures.items())
        false_success = UNKNOWN if summary.false_success_rate is None else summary.false_success
        is_told = summary.right_unseen is not None and any(each.summary.right_unseen for each in arms)
        unseen = summary.right_unseen if is_told else UNKNOWN
        counts = (false_success, unseen, summary.scored, summary.errored, summary.excluded)
        rows.append((arm.info.arm, *numbers, *map(str, counts)))
    known_columns = [index for index in range(len(columns)) if any(row[index] != UNKNOWN for row in rows)]
    cut = tuple(tuple(row[index] for index in known_columns) for row in rows)
    first = next(columns[index] for index in known_columns if columns[index] in details)
    return Grid(
        f"Means per trial with intervals in brackets; the columns from {first} on count trials",
        tuple(columns[index] for index in known_columns),
        cut,
    )


def pairs_section(comparison: Comparison) -> PageSection | None:
    """Return every pair on accuracy, as a chart and as numbers, the other metrics folded; None for a single arm."""
    primary = comparison.pairs_on(PRIMARY)
    if not primary:
        return None
    read = (
        f"Right of the line the first arm is more accurate; the shaded band is the margin of {comparison.margin:g}. "
        "Filled triangles are decided, rings are not."
    )
    figure = Figure(forest(comparison), read)
    is_long = len(primary) > MAX_OPEN
    blocks: list[Block] = [Folded(f"Chart of the differences ({len(primary)})", (figure,)) if is_long else figure]
    grids: list[Grid] = []
    groups = arms_by_group(comparison.arms)
    for name, arms in groups.items():
        own = {arm.info.arm for arm in arms}
        caption = "accuracy, a minus b, on the tasks scored in both"
        members = [pair for pair in primary if pair.a in own]
        if members:
            grids.append(pairs_grid(f"{name}: {caption}" if len(groups) > 1 else caption.capitalize(), members, arms))
    blocks.append(Folded(f"Accuracy in numbers ({counted(len(primary), 'pair')})", tuple(grids)))
    rest = [pair for pair in comparison.pairs if pair.metric not in (PRIMARY, "seconds")]
    if rest:
        grid = pairs_grid("Other metrics, a minus b; of shares more is better, of harms and all else less", rest, ())
        blocks.append(Folded(f"Steps, calls, tokens, cost and context in numbers ({counted(len(rest), 'pair')})", (grid,)))
    return PageSection("pairs", "Pair by pair", tuple(blocks))


def pairs_grid(caption: str, pairs: Sequence[Pair], arms: Sequence[ArmResult]) -> Grid:
    """Return a table with a row per pair, `arms` under their short names, and what is likely to decide it if known of any."""
    names = {arm.info.arm: short_name(arm.info) for arm in arms}
    columns = ["a", "b", "metric", "difference", "tasks", "p", "p\u00a0(adj.)", "verdict"]
    metrics = labels({pair.metric for pair in pairs})
    several = len(metrics) > 1
    planned = any(pair.outlook is not None for pair in pairs)
    rows = []
    for pair in pairs:
        row = [
            names.get(pair.a, pair.a),
            names.get(pair.b, pair.b),
            *([metrics[pair.metric]] if several else []),
            measured_difference(pair.difference, METRICS[pair.metric]),
            str(pair.difference.n),
            p_value(pair.p),
            p_value(pair.p_holm),
            verdict(pair),
            *([_outlook(pair)] if planned else []),
        ]
        rows.append(tuple(row))
    if not several:
        columns.remove("metric")
    return Grid(caption, (*columns, *(["tasks × repeats that may decide"] if planned else [])), tuple(rows))


def _outlook(pair: Pair) -> str:
    """Return the sizes that are likely to decide a pair: `480 to 2,100 × 1`."""
    if pair.outlook is None:
        return UNKNOWN
    fewer, more = pair.outlook.fewer, pair.outlook.more
    return f"{fewer.tasks:,}{'' if fewer == more else f' to {more.tasks:,}'} × {pair.outlook.repeats}"
