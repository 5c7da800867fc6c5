"""A comparison as a document: the matrix, what to adopt, what is doubtful; behind it all tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from whichloop.metrics.caveats import warning_lines
from whichloop.metrics.views import Unit
from whichloop.models.profiles import evidence_for
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Lines, Style, Table, lines_of
from whichloop.text.numbers import dollars_text, hundredths, interval_of

from .caveats import at_limit, caveats
from .results import Results
from .tables import detail_tables
from .verdict import LoopRow, Place, Verdict

MARKS: dict[Place, str] = {"best": " *", "worse": " <", "": ""}
STYLES: dict[Place, Style] = {"best": "good", "worse": "bad", "": ""}
INJECTED = "injection_executed"
LEGEND = "accuracy: * best, < worse"
NOT_APPLICABLE = "does not apply"
STILL = "clean"
"""The profile without faults."""
READING = Lines(
    (
        (
            "Columns",
            "steps, errors, tokens, USD, seconds: means of a trial; wrong, limit, crashed, left out: trials",
        ),
        ("Intervals", "at 1 - alpha; those of differences hold 0 unless better or worse (Holm, over all pairs of a measure)"),
        ("p", "paired sign-flip test on the means of tasks, or of clusters of tasks"),
        ("Verdicts", "equivalent: shown to lie within the margin; accuracy decides, all other measures are secondary"),
    ),
    detail=True,
)
"""How to read the tables."""


def compare_doc(run: Results) -> Doc:
    """Return what a run says."""
    found = run.verdict
    shown = found.decision is not None or len(found.rows) > 1
    title = f"{run.title} · {LEGEND if shown else 'accuracy'}"
    blocks: tuple[Block, ...] = (matrix(run, found), answer_lines(run, found), *detail_tables(run), READING, notes(run))
    data = run.to_json()
    for row, told in zip(found.rows, data["answer"]["rows"], strict=True):
        told["at_limit"] = at_limit(run.comparison, row.arms)
    return Doc(title, blocks, data | {"basis": basis(run), "same": run.same_loops})


def matrix(run: Results, found: Verdict) -> Table:
    """Return the loops, the most accurate first, with their accuracy in each column and their amounts a trial.

    Steps, errors and tokens stand always; what else there is stands where it is not zero.
    """
    heads, cells = zip(*_amounts(run, found), strict=True)
    subject = run.comparison.arms[0].info.subject if run.comparison.arms else "loop"
    rows = [
        (row.loop, *(accuracy_cell(row, name) for name in found.columns), *(column[number] for column in cells))
        for number, row in enumerate(found.rows)
    ]
    return Table("", (subject, *found.columns, *heads), tuple(rows))


def accuracy_cell(row: LoopRow, column: str) -> Cell | str:
    """Return a loop's accuracy in a column, with its place."""
    cell = row.cells.get(column)
    if cell is None or cell.accuracy is None:
        return UNKNOWN if cell is None or cell.is_judged else Cell(NOT_APPLICABLE, "dim")
    return Cell(f"{interval_of(cell.accuracy, hundredths)}{MARKS[cell.place]}", STYLES[cell.place], cell.accuracy.value)


def _amounts(run: Results, found: Verdict) -> Iterator[tuple[str, list[Cell | str]]]:
    """Yield the heading of each column of amounts, and its cells by row."""
    rows, compared = found.rows, run.comparison
    yield "steps", [_amount(row.mean("steps"), 1) for row in rows]
    yield "errors", [_amount(_errors(row), 1) for row in rows]
    yield "tokens", [_amount(row.mean("tokens"), 0) for row in rows]
    if found.unit != "tokens":
        yield "USD", [cost_cell(row.mean(found.unit), found.unit) for row in rows]
    is_real = any(arm.info.model != SCRIPTED for arm in compared.arms)
    if is_real and any(row.mean("seconds") is not None for row in rows):
        yield "seconds", [_amount(row.mean("seconds"), 1) for row in rows]
    injected = [row.mean(INJECTED) for row in rows]
    if any(share is not None for share in injected):
        yield "injected", [UNKNOWN if share is None else Cell(hundredths(share), value=share) for share in injected]
    counts = {
        "wrong": [row.total("false_success") for row in rows],
        "limit": [at_limit(compared, row.arms) for row in rows],
        "crashed": [sum(sum(arm.summary.crashes.values()) for arm in row.arms) for row in rows],
        "left out": [sum(arm.summary.trials - arm.summary.scored for arm in row.arms) for row in rows],
    }
    for name, numbers in counts.items():
        if any(numbers):
            yield name, [Cell(f"{number:,}", value=number) for number in numbers]


def _errors(row: LoopRow) -> float | None:
    """Return the errors of a trial, a mean over all scored ones; None where no source tells them."""
    scored = row.total("scored")
    known = scored and all(arm.summary.tells_faults for arm in row.arms)
    return sum(sum(arm.summary.errors.values()) for arm in row.arms) / scored if known else None


def _amount(value: float | None, digits: int) -> Cell | str:
    return UNKNOWN if value is None else Cell(f"{value:,.{digits}f}", value=value)


def cost_cell(value: float | None, unit: Unit) -> Cell | str:
    """Return what a trial costs, in tokens or US dollars."""
    return UNKNOWN if value is None else Cell(f"{value:,.0f}" if unit == "tokens" else dollars_text(value), value=value)


def answer_lines(run: Results, found: Verdict) -> Lines:
    """Return what to adopt, what it rests on, what is doubtful, and at most one command."""
    return lines_of(
        ("Invalid", "no verdict of this run holds" if run.comparison.invalid else ""),
        *decision_lines(found, counted(run.manifest.suite.tasks, "task"), is_complete=run.is_complete),
        ("Cheaper", [_cheaper(found, loop) for loop in found.cheaper[:1]]),
        ("Same", [", ".join(loops) for loops in run.same_loops]),
        ("Basis", basis(run)),
        ("Warning", warning_lines(caveats(run.comparison))),
        ("Next", _next(run, found)),
    )


def decision_lines(found: Verdict, tasks: str = "", *, is_complete: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the outcome, in the words of the rule of `verdict`. `tasks`: how many there are, in words."""
    decision = found.decision
    if decision is None:
        return
    loops = ", ".join(decision.loops)
    if decision.outcome == "Depends":
        loops = "; ".join(f"{column}: {', '.join(best)}" for column, best in found.best.items())
    elif decision.outcome == "Undecided":
        loops += f"; {'no known number of' if decision.tasks is None else f'about {decision.tasks:,}'} tasks would decide"
    limits = {
        f"on these {tasks}": found.is_of_these_tasks,
        "over the mean of the profiles": found.is_by_mean,
        "provisional": not is_complete,
    }
    said = ", ".join(text for text, holds in limits.items() if holds)
    yield decision.outcome, f"{loops} ({said})" if said else loops


def _cheaper(found: Verdict, loop: str) -> str:
    """Return `bare: 26 % fewer tokens, 6 points fewer solved`, beside the adopted loop."""
    assert found.decision is not None
    adopted, row = found.row(found.decision.loops[0]), found.row(loop)
    points = round(100 * (row.accuracy - adopted.accuracy))
    solved = f"{counted(abs(points), 'point')} {'more' if points > 0 else 'fewer'} solved" if points else "as many solved"
    what = "tokens" if found.unit == "tokens" else "dollars"
    return f"{loop}: {100 * found.savings[loop, adopted.loop]:.0f} % fewer {what}, {solved}"


def basis(run: Results) -> str:
    """Return what the verdict rests on: the model, and where the rates of its faults come from."""
    if run.manifest.imported is not None:
        return f"imported results, {counted(run.manifest.suite.tasks, 'task')}"
    models = list(dict.fromkeys(arm.model for arm in run.manifest.arms))
    real = [model for model in models if model != SCRIPTED]
    parts = [f"{', '.join(real)}, {counted(run.manifest.suite.tasks, 'task')}"] if real else []
    disturbed = list(dict.fromkeys(arm.profile for arm in run.manifest.arms if arm.model in real and arm.profile != STILL))
    if disturbed:
        parts.append(f"faults of tools and providers alone: {', '.join(disturbed)}")
    if SCRIPTED in models:
        profiles = list(dict.fromkeys(arm.profile for arm in run.manifest.arms if arm.model == SCRIPTED))
        disturbing = [name for name in profiles if name != STILL]
        stress = all(evidence_for([name]).get(name, "").startswith("Stress test") for name in disturbing)
        rates = "stress rates" if stress else f"rates of {', '.join(disturbing)}"
        parts.append(f"scripted model, {rates if disturbing else 'no faults'}")
    return "; ".join(parts)


def _next(run: Results, found: Verdict) -> str:
    name = shlex.quote(str(run.folder))
    if not run.is_complete:
        return f"whichloop resume {name}" if run.manifest.settings.budget == BudgetConfig() else ""
    if run.comparison.invalid or run.arms_to_mend:
        return f"whichloop report {name} --why"
    return ""


def notes(run: Results) -> Lines:
    """Return what to know when reading the numbers."""
    evidence = evidence_for(sorted({arm.info.profile for arm in run.comparison.arms}))
    return Lines(
        (
            (
                "Margin",
                f"{run.comparison.margin:g} in accuracy, that share of the mean in other measures; alpha {run.comparison.alpha:g}",
            ),
            *(("Note", remark) for remark in run.comparison.remarks),
            *(("Profile", f"{name}: {text}") for name, text in evidence.items()),
        ),
        detail=True,
    )
