"""An optimization as tables: the gain of each design, the ranking before and after, and the cost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from whichloop.metrics.gains import Amortised, Change, Cost, Gains, Ranked, Ranking, Use
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import labels as metric_labels
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.typed_budgets import budget_text
from whichloop.text.doc import Block, Doc, Table, lines_of
from whichloop.text.numbers import hundredths, interval, interval_of, p_value, signed_interval

from .candidates import SearchCost
from .result import DesignResult, OptimizationResult
from .searched_prompts import UNKNOWN, programs_table

ONE_TIME = "rollouts + proposals + evaluation"
"""What an optimization spends once, in the order in which the table of costs adds it up."""


def optimization_tables(result: OptimizationResult) -> tuple[Table, ...]:
    """Return the tables of designs, ranking, cost and the programs that were tried, without empty ones."""
    programs = programs_table(result)
    return (*gain_tables(result), *([programs] if programs.rows else []))


def gain_tables(result: OptimizationResult) -> tuple[Table, ...]:
    """Return the tables of designs, ranking and cost, without empty ones."""
    tables = [_designs(result), _ranking(result), _cost(result)]
    return tuple(table for table in tables if table.rows)


def verdicts(result: OptimizationResult) -> list[str]:
    """Return the best loop before and after, by how much dev scores flattered, and for each design whether to adopt its prompts;
    then which searches the budget cut off before a program that was ahead had run all dev tasks."""
    gains = None if result.invalid else result.gains
    tested = [] if gains is None else [_best(gains), _overfitting(result), *(design.advice for design in result.designs)]
    return [line for line in (*tested, *(design.cut_off for design in result.designs)) if line]


UNCHANGED = "same program"


def _overfitting(result: OptimizationResult) -> str:
    """Return by how much the gain on dev exceeds that on test, of the designs that have another program."""
    optimisms = [
        (design.design, design.optimism) for design in result.designs if not design.is_unchanged and design.status != "failed"
    ]
    each = [f"{design} {_optimism_in_words(optimism)}" for design, optimism in optimisms if optimism is not None]
    return f"Overfitting, gain on dev tasks less gain on test tasks: {'; '.join(each)}" if each else ""


def _optimism_in_words(optimism: Interval) -> str:
    apart = "" if optimism.low > 0 or optimism.high < 0 else ", not told apart from 0"
    return f"{signed_interval(optimism, 3)}{apart}"


def _best(gains: Gains) -> str:
    if gains.highest is None:
        return ""
    before, after = gains.highest
    old, new = _ranked(gains.before, before), _ranked(gains.after, after)
    first = f"Highest before: {_named(gains.before, before)}, {_accuracy(old, gains.before)}"
    ends = f"{first}; after: {_named(gains.after, after)}, {_accuracy(new, gains.after)}"
    if len(gains.gains) < 2 or gains.change is None:
        return ends
    return f"{ends}; {_CHANGES[gains.change]}{_interaction(gains.interaction)}"


_CHANGES: dict[Change, str] = {
    "same": "optimization did not change which loop is highest",
    "by chance": "optimization did not change which loop is best beyond chance",
    "gains differ": "optimization changed which loop is highest: the gains differ beyond chance, but the two are not told apart "
    "both times",
    "crossed": "optimization changed which loop is best",
}


def _interaction(pair: Pair | None) -> str:
    if pair is None:
        return ""
    return f" (gain of {pair.a} minus gain of {pair.b}: {interval(pair.difference, 3)}, p {p_value(pair.p_holm)}, Holm)"


def _named(ranking: Ranking, design: str) -> str:
    """Return the design, with those that share its place."""
    others = [name for name in ranking.highest if name != design]
    return f"{design} (and equally {', '.join(others)})" if others else design


def _ranked(ranking: Ranking, design: str) -> Ranked:
    return next(ranked for ranked in ranking.designs if ranked.design == design)


def _accuracy(ranked: Ranked, ranking: Ranking) -> str:
    """Return the accuracy, with those that are not told apart from it and do not share its place."""
    others = ", ".join(name for name in ranked.not_told_apart if name not in ranking.highest)
    return interval(ranked.accuracy, 3) + (f" (not told apart from {others})" if others else "")


INVALID = "The test is invalid: none of its verdicts holds."


def optimization_notes(result: OptimizationResult) -> list[str]:
    """Return the caveats, warnings first."""
    lines = [f"Warning: {warning}" for warning in warnings(result)]
    if result.invalid:
        lines.append(INVALID)
    if result.state:
        lines.append(f"This optimization is {result.state}.")
    for design in result.designs:
        if design.ended is not None and design.ended.reason:
            lines.append(f"{design.design}: {_ENDS[design.ended.status]}: {design.ended.reason}")
        if design.is_unchanged:
            lines.append(f"{design.design}: the program that it began with was kept.")
    if result.test is None:
        return lines
    comparison = result.test.comparison
    lines.append(
        f"Brackets are {100 * (1 - comparison.alpha):g} % intervals; gains are paired over the test tasks, p is a sign-flip test "
        f"on task means, adjusted over the designs; equivalent means within {comparison.margin:g}."
    )
    lines.append(
        "Optimism is the gain on dev less the gain on test, which are other tasks: above 0, dev scores flatter the program "
        "that they chose."
    )
    lines.append(
        f"Cost with its share spreads {ONE_TIME} over {counted(result.amortize, 'task')}; "
        "break-even is the number of tasks from which a solved task costs less than before, optimization included."
    )
    if any(arm.info.model == SCRIPTED for arm in comparison.arms):
        lines.append(
            "The model is scripted: its weaknesses, and what a prompt does about them, are simulated; intervals speak of tasks and "
            "fault draws, not of any real model; tokens are estimates (4 characters each)."
        )
    return lines


_ENDS = {"finished": "finished", "budget": "stopped, the best program so far was kept", "failed": "the optimizer failed"}


def warnings(result: OptimizationResult) -> list[str]:
    """Return the warnings of the optimization by design, then those of the test."""
    return [*search_warnings(result), *(() if result.test is None else result.test.comparison.warnings)]


def search_warnings(result: OptimizationResult) -> list[str]:
    """Return the warnings of the searches, by design."""
    return [f"{design.design}: {warning}" for design in result.designs for warning in design.warnings]


def optimization_doc(result: OptimizationResult) -> Doc:
    """Return an optimization: a row per design and the verdicts; as details all tables, the files of the programs, and notes."""
    programs = [design for design in result.designs if design.program is not None]
    changed = [["whichloop", "prompts", design.design, str(design.program)] for design in programs if not design.is_unchanged]
    notes = [note for note in optimization_notes(result) if note != INVALID and not note.startswith("Warning: ")]
    answer = lines_of(
        ("Warning", warnings(result)),
        ("Invalid", INVALID if result.invalid else ""),
        ("Verdict", verdicts(result)),
        ("Next", shlex.join(changed[0]) if changed else ""),
    )
    details = lines_of(("Program", [f"{design.design}: {design.program}" for design in programs]), ("Note", notes))
    blocks: tuple[Block, ...] = (
        Table("", BRIEF, tuple(brief_rows(result, short=True))),
        answer,
        *(replace(table, detail=True) for table in optimization_tables(result)),
        replace(details, detail=True),
    )
    return Doc(result.title, blocks, result.to_json())


# --- designs ---


BRIEF = ("design", "test before", "test after", "gain", "tokens a task", "verdict")
"""Columns of the short form."""


def brief_rows(result: OptimizationResult, *, short: bool) -> list[tuple[str, ...]]:
    """Return the columns `BRIEF`, a row per design; `short`: numbers with two digits, as `.88 [.81, .93]`."""
    return [(design.design, *_brief(design, short=short)) for design in result.designs]


def brief_lines(result: OptimizationResult) -> list[str]:
    """Return the columns `BRIEF` as a line per design."""
    cells = [[f"{column} {value}" for column, value in zip(BRIEF, row, strict=True)] for row in brief_rows(result, short=False)]
    return [f"{design.design}: {', '.join(row[1:])}" for design, row in zip(result.designs, cells, strict=True)]


def _brief(design: DesignResult, *, short: bool) -> Iterator[str]:
    gain, test = design.gain, None if design.gain is None else design.gain.test
    for estimate in (
        None if gain is None else gain.before,
        None if gain is None else gain.after,
        None if test is None else test.difference,
    ):
        yield interval_of(estimate, hundredths) if short and estimate is not None else interval(estimate, 3)
    yield UNKNOWN if design.cost is None else " → ".join(_tokens(use) for use in (design.cost.before, design.cost.after))
    if design.status == "failed":
        yield "failed"
    else:
        yield (design.status if design.ended is None else "not tested yet") if test is None else _verdict_of(design, test)


def _tokens(use: Use | None) -> str:
    return _amount(None if use is None else use.per_task, "tokens", 0)


def _designs(result: OptimizationResult) -> Table:
    columns = (
        "design",
        "dev",
        "test before",
        "test after",
        "gain",
        "p (adj.)",
        "verdict",
        "optimism",
        "programs",
        "LM calls",
        "proposals",
    )
    rows = tuple((design.design, *_gain(design), *_search(design, result)) for design in result.designs)
    return Table(f"Gains by {result.manifest.optimizer.title}, budget {budget_text(result.budget)} for each design", columns, rows)


def _gain(design: DesignResult) -> Iterator[str]:
    gain, dev = design.gain, design.dev
    yield UNKNOWN if dev is None else f"{dev.before:.3f} → {dev.after:.3f}"
    yield interval(None if gain is None else gain.before, 3)
    yield interval(None if gain is None else gain.after, 3)
    test = None if gain is None else gain.test
    yield UNKNOWN if test is None else interval(test.difference, 3)
    yield UNKNOWN if test is None else p_value(test.p_holm)
    yield UNKNOWN if test is None else _verdict_of(design, test)
    yield UNKNOWN if design.optimism is None else signed_interval(design.optimism, 3)


def _verdict_of(design: DesignResult, test: Pair) -> str:
    if design.is_unchanged:
        return UNCHANGED
    return test.verdict.word + (", within the margin" if test.verdict.within_margin and test.verdict.word != "equivalent" else "")


def _search(design: DesignResult, result: OptimizationResult) -> Iterator[str]:
    end = design.ended
    if end is None:
        yield from (design.status, UNKNOWN, UNKNOWN)
        return
    yield str(end.candidates)
    limit = "" if result.budget.calls is None else f" of {result.budget.calls}"
    yield f"{end.search.calls}{limit}"
    yield str(end.proposals.calls)


# --- ranking ---


def _ranking(result: OptimizationResult) -> Table:
    columns = (
        "design",
        "before",
        "accuracy before",
        "not told apart from",
        "after",
        "accuracy after",
        "not told apart from",
        "tasks",
    )
    if result.gains is None:
        return Table("Ranking", columns, ())
    before = {ranked.design: ranked for ranked in result.gains.before.designs}
    after = {ranked.design: ranked for ranked in result.gains.after.designs}
    names = [*after, *(name for name in before if name not in after)]
    rows = tuple(
        (name, *_place(before.get(name)), *_place(after.get(name)), _tasks(before.get(name), after.get(name))) for name in names
    )
    return Table("Ranking before and after", columns, rows)


def _place(ranked: Ranked | None) -> tuple[str, str, str]:
    if ranked is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return f"{ranked.place}.", interval(ranked.accuracy, 3), ", ".join(ranked.not_told_apart) or "(none)"


def _tasks(*sides: Ranked | None) -> str:
    sizes = dict.fromkeys(str(ranked.accuracy.n) for ranked in sides if ranked is not None)
    return " and ".join(sizes)


# --- cost ---


def _cost(result: OptimizationResult) -> Table:
    share = f"with its share at {counted(result.amortize, 'task')}"
    columns = (
        "design",
        "of",
        f"optimization: {ONE_TIME}",
        "a task before",
        "a task after",
        "a solved task before",
        "a solved task after",
        share,
        "break-even",
    )
    labels = {"calls": "LM calls", "tokens": "tokens", "dollars": _dollars_label(result)}
    rows: list[tuple[str, ...]] = []
    for design in result.designs:
        rows.extend(_cost_rows(design, labels))
    return Table("Cost", columns, tuple(rows))


def _cost_rows(design: DesignResult, labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for calls, one for tokens, and one for dollars if known."""
    end, cost = design.ended, design.cost
    if end is None:
        return
    costs = (end.search, end.proposals, end.evaluation)
    before, after = (None, None) if cost is None else (cost.before, cost.after)
    spread = None if cost is None else cost.amortised
    for unit, digits in _DIGITS.items():
        used = [None if use is None else use.per_task for use in (before, after)]
        if unit == "dollars" and all(amount is None or amount.dollars is None for amount in (*costs, *used)):
            continue
        values = (
            *(_amount(each, unit, digits) for each in used),
            *(_amount(_per_solved(use), unit, digits) for use in (before, after)),
            _amount(None if spread is None else spread.use.per_solved, unit, digits, _absent(spread, unit, UNKNOWN)),
            _amount(None if spread is None else spread.break_even, unit, 0, _absent(spread, unit, "never", *used)),
        )
        yield (design.design, labels[unit], _one_time(costs, unit), *values)


def _absent(spread: Amortised | None, unit: str, otherwise: str, *used: Cost | None) -> str:
    """Return what stands for a number that there is not: `unknown` where a cost that it needs is not known."""
    needed = [*used, *([] if spread is None else [spread.use.per_task])]
    return "unknown" if any(cost is None or getattr(cost, unit) is None for cost in needed) else otherwise


_DIGITS = {"calls": 2, "tokens": 0, "dollars": 5}


def _dollars_label(result: OptimizationResult) -> str:
    """Return what dollars as billed are called: `USD with cache` where the test knows them uncached, too."""
    arms = () if result.test is None else result.test.comparison.arms
    has_uncached = any(arm.summary.means["nominal_usd"] is not None for arm in arms)
    return metric_labels(["cost_usd", *(["nominal_usd"] if has_uncached else [])])["cost_usd"]


def _one_time(costs: Sequence[SearchCost], unit: str) -> str:
    """Return `ONE_TIME` as amounts; a part whose cost is not known is `unknown`, and one that asked nothing is 0."""
    digits = 4 if unit == "dollars" else 0
    return " + ".join(_amount(part if part.calls else SearchCost(dollars=0.0), unit, digits, "unknown") for part in costs)


def _per_solved(use: Use | None) -> Cost | None:
    return None if use is None else use.per_solved


def _amount(cost: Cost | SearchCost | None, unit: str, digits: int, otherwise: str = UNKNOWN) -> str:
    if cost is None:
        return UNKNOWN
    value: float | None = getattr(cost, unit)
    return otherwise if value is None else f"{value:,.{digits}f}"
