"""An optimization as a document: what to do, before and after on the locked tasks, and what the searches spent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from whichloop.experiments.compare.doc import basis, cost_cell
from whichloop.experiments.compare.tables import would_decide
from whichloop.metrics.gains import Cost
from whichloop.metrics.statistics import Interval
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted, one_line
from whichloop.runs.typed_budgets import budget_text
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Lines, Style, Table, lines_of
from whichloop.text.numbers import hundredths, interval_of, p_value, signed_interval

from .candidates import SearchCost
from .program_text import HEAD, DiffLine, NamedProgram, program_diff
from .result import DesignResult, OptimizationResult
from .tried import TriedProgram, solved

STYLES: dict[str, Style] = {"better": "good", "worse": "bad"}
MAX_SHOWN = 300
"""Characters of a program's new text that a table shows; the whole text is in the design's `candidates.json`."""
READING = Lines(
    (
        ("Locked", "accuracy on tasks that no search saw; `again`: the old prompts once more with another seed"),
        ("Change", "from the first run of the old prompts, paired over tasks; of new prompts adjusted over the designs (Holm)"),
        ("Seen", "gain on the dev tasks, which chose the program; optimism: this less the gain on locked tasks"),
        ("Verdicts", "better, worse: the interval excludes 0; equivalent: within the margin; else undecided"),
        ("Adopt", "prompts that are better, or equivalent for fewer tokens or dollars"),
        ("Spent", "the budget limits search; proposals are the optimizer's own requests; dev: missing dev scores"),
    ),
    detail=True,
)
"""How to read the tables."""


def optimize_doc(result: OptimizationResult) -> Doc:
    """Return what an optimization says."""
    blocks: tuple[Block, ...] = (
        answer_lines(result),
        gains_table(result),
        spent_table(result),
        basis_lines(result),
        *(table for table in [programs_table(result)] if table.rows),
        READING,
    )
    return Doc(result.title, blocks, result.to_json())


def answer_lines(result: OptimizationResult) -> Lines:
    """Return what to do with the new prompts of each design, and which loop is the highest."""
    gains = None if result.invalid else result.gains
    ends = None if gains is None else gains.highest
    return lines_of(
        ("Invalid", "no verdict of this test holds" if result.invalid else ""),
        ("Adopt", [f"{design.design}, new prompts: {design.reason}" for design in result.designs if design.adopts]),
        (
            "Keep",
            [f"{design.design}, old prompts: {_kept(design)}" for design in result.designs if design.advice and not design.adopts],
        ),
        ("Highest", "" if gains is None or ends is None else f"{ends[0]} before, {ends[1]} after: {gains.change}"),
    )


def _kept(design: DesignResult) -> str:
    pair = None if design.gain is None else design.gain.test
    if design.reason != "undecided" or pair is None:
        return str(design.reason)
    return f"undecided, {'no known number of tasks' if pair.outlook is None else would_decide(pair.outlook)} would decide"


def basis_lines(result: OptimizationResult) -> Lines:
    """Return what the answer rests on, what is doubtful, and a command."""
    found, test = result.designs, result.test
    changed = [["whichloop", "prompts", each.design, str(each.program)] for each in found if each.ended and not each.is_unchanged]
    earlier = result.manifest.opened_before
    caveats = () if test is None else test.comparison.warnings
    return lines_of(
        ("Basis", "" if test is None else basis(test)),
        ("Ended", [f"{each.design}: {each.ended.reason}" for each in found if each.ended is not None and each.ended.reason]),
        ("Opened", f"{counted(len(earlier), 'earlier run')} opened these locked tasks, the last {earlier[-1]}" if earlier else ""),
        ("Warning", [*(f"{each.design}: {warning}" for each in found for warning in each.warnings), *caveats]),
        ("Next", shlex.join(changed[0]) if changed else ""),
    )


# --- the test ---


def gains_table(result: OptimizationResult) -> Table:
    """Return three rows per design: its old prompts, these again, and the new ones."""
    columns = ("design", "prompts", "locked", "change", "verdict", "p", "seen", "optimism", "tokens", "USD")
    rows = tuple(row for design in result.designs for row in _rows(design))
    shown = [n for n, name in enumerate(columns) if name != "USD" or any(row[n] != UNKNOWN for row in rows)]
    return Table("", tuple(columns[n] for n in shown), tuple(tuple(row[n] for n in shown) for row in rows))


def _rows(design: DesignResult) -> Iterator[tuple[Cell | str, ...]]:
    gain, (before, after) = design.gain, design.uses
    old, new, test = (None, None, None) if gain is None else (gain.before, gain.after, gain.test)
    seen = UNKNOWN if design.dev is None else Cell(signed_interval(design.dev.difference, 2), value=design.dev.gain)
    optimism = UNKNOWN if design.optimism is None else Cell(signed_interval(design.optimism, 2), value=design.optimism.value)
    verdict: Cell | str = design.status if test is None else Cell(test.verdict.word, STYLES.get(test.verdict.word, ""))
    if design.is_unchanged or design.status == "failed":
        verdict = "unchanged" if design.is_unchanged else "failed"
    yield design.design, "old", _accuracy(old), *[UNKNOWN] * 5, *_use(before)
    yield design.design, "again", _accuracy(design.again), _change(design.noise), *[UNKNOWN] * 6
    p = UNKNOWN if test is None else p_value(test.p_holm)
    yield (
        design.design,
        "new",
        _accuracy(new),
        _change(None if test is None else test.difference),
        verdict,
        p,
        seen,
        optimism,
        *_use(after),
    )


def _accuracy(value: Interval | None) -> Cell | str:
    return UNKNOWN if value is None else Cell(interval_of(value, hundredths), value=value.value)


def _change(value: Interval | None) -> Cell | str:
    return UNKNOWN if value is None else Cell(signed_interval(value, 2), value=value.value)


def _use(use: Cost | None) -> tuple[Cell | str, Cell | str]:
    return cost_cell(None if use is None else use.tokens, "tokens"), cost_cell(None if use is None else use.dollars, "cost_usd")


def spent_table(result: OptimizationResult) -> Table:
    """Return how each search ended, and what it spent of its budget."""
    columns = ("design", "ended", "programs", "rollouts", "LM calls", "tokens", "USD", "proposals", "dev")
    rows = []
    for design in result.designs:
        end, cost = design.ended, SearchCost() if design.ended is None else design.ended.search
        if end is not None:
            spent = (f"{cost.trials:,}", f"{cost.calls:,}", f"{cost.tokens:,}", cost_cell(cost.dollars, "cost_usd"))
            counts = (f"{end.proposals.calls:,}", f"{end.evaluation.calls:,}")
            rows.append((design.design, end.status, str(end.candidates), *spent, *counts))
    shown = [n for n, name in enumerate(columns) if name != "USD" or any(row[n] != UNKNOWN for row in rows)]
    title = f"Spent by {result.manifest.optimizer.title}, --budget {budget_text(result.budget)} for each design"
    return Table(title, tuple(columns[n] for n in shown), tuple(tuple(row[n] for n in shown) for row in rows))


# --- the programs ---


def programs_table(result: OptimizationResult) -> Table:
    """Return a row for each program that a search tried; no rows while none is done."""
    columns = ("design", "program", "kept", "solved on dev", "solved on train", "rollouts", "LM calls", "what is new in it")
    rows = tuple(
        (
            design.design,
            str(tried.candidate.number),
            "kept" if tried.is_kept else "",
            _score(tried.candidate.dev, tried.tasks.dev),
            _score(tried.candidate.train, tried.tasks.train),
            f"{tried.spent.trials:,}",
            f"{tried.spent.calls:,}",
            _news(design, tried),
        )
        for design in result.designs
        for tried in design.tried
    )
    return Table("Programs that each search tried, with the tasks that each ran", columns, rows, detail=True)


def _score(scores: Mapping[str, float], tasks: int) -> str:
    return f"{solved(scores):g} of {len(scores)} ({tasks} in all)" if scores else UNKNOWN


def _news(design: DesignResult, program: TriedProgram) -> str:
    """Return what a program has that the design's own one has not."""
    added = [line.text[1:].strip() for line in _diff(design, program) if line.kind == "added" and HEAD not in line.text]
    return one_line(" ".join(filter(None, added)))[:MAX_SHOWN]


def kept_diff(design: DesignResult) -> tuple[DiffLine, ...]:
    """Return how the prompts that a search kept differ from the old ones, without secrets; nothing where they do not."""
    kept = next((program for program in design.tried if program.is_kept), None)
    return () if kept is None else _diff(design, kept)


def _diff(design: DesignResult, program: TriedProgram) -> tuple[DiffLine, ...]:
    first, number = design.tried[0].candidate.program, program.candidate.number
    lines = program_diff(NamedProgram("old prompts", first), NamedProgram(f"program {number}", program.candidate.program))
    return tuple(DiffLine(line.kind, redact(line.text)) for line in lines)
