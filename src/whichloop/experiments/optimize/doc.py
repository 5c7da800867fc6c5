"""An optimization as a document: what to do, before and after on the locked tasks, and what the searches spent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from whichloop.experiments.compare.doc import basis, cost_cell
from whichloop.experiments.compare.tables import table_of, would_decide
from whichloop.metrics.caveats import warning_lines
from whichloop.metrics.gains import Cost
from whichloop.metrics.statistics import Interval
from whichloop.protocol.names import without_process
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted, one_line
from whichloop.runs.config import budget_text
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Lines, Style, Table, lines_of
from whichloop.text.numbers import hundredths, interval_of, p_value, signed_interval

from .candidates import Candidate
from .program_text import HEAD, program_diff
from .result import DesignResult, OptimizationResult

STYLES: dict[str, Style] = {"better": "good", "worse": "bad"}
MAX_SHOWN = 300
"""Characters of a program's new text that a table shows; the whole text is in the design's `ended.json`."""
READING = Lines(
    (
        ("Locked", "accuracy on tasks that no search saw; `again`: the old prompts once more with another seed"),
        ("Change", "from the first run of the old prompts, paired over tasks; of new prompts adjusted over the designs (Holm)"),
        ("Seen", "gain on the dev tasks, which chose the program; optimism: this less the gain on locked tasks"),
        ("Spent", "the budget limits search; proposals are the optimizer's own requests; dev: missing dev scores"),
    ),
    detail=True,
)


def optimize_doc(result: OptimizationResult) -> Doc:
    """Return what an optimization says."""
    blocks: tuple[Block, ...] = (
        answer_lines(result),
        gains_table(result),
        spent_table(result),
        basis_lines(result),
        programs_table(result),
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
        ("Keep", [f"{each.design}, old prompts: {_kept(each)}" for each in result.designs if each.advice and not each.adopts]),
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
    opened = result.manifest.splits["test"].opened
    earlier = () if opened is None else opened.before
    caveats = [] if test is None else warning_lines(test.comparison.caveats)
    return lines_of(
        ("Basis", "" if test is None else basis(test)),
        ("Ended", [f"{each.design}: {each.ended.reason}" for each in found if each.ended is not None and each.ended.reason]),
        ("Opened", f"{counted(len(earlier), 'earlier run')} opened these locked tasks, the last {earlier[-1]}" if earlier else ""),
        ("Warning", [*(f"{each.design}: {text}" for each in found if each.ended for text in each.ended.warnings), *caveats]),
        ("Next", shlex.join(changed[0]) if changed else ""),
    )


# --- the test ---


def gains_table(result: OptimizationResult) -> Table:
    """Return three rows per design: its old prompts, these again, and the new ones."""
    columns = ("design", "prompts", "locked", "change", "verdict", "p", "seen", "optimism", "tokens", "USD")
    return replace(table_of("", columns, [row for design in result.designs for row in _rows(design)]), detail=False)


def _rows(design: DesignResult) -> Iterator[tuple[Cell | str, ...]]:
    gain, dev, (before, after) = design.gain, design.dev, design.uses
    old, new, test = (None, None, None) if gain is None else (gain.before, gain.after, gain.test)
    verdict: Cell | str = design.status if test is None else Cell(test.verdict.word, STYLES.get(test.verdict.word, ""))
    if design.status == "failed" or design.is_unchanged:
        verdict = "unchanged" if design.is_unchanged else "failed"
    p, change = (UNKNOWN, None) if test is None else (p_value(test.p_holm), test.difference)
    yield design.design, "old", _accuracy(old), *[UNKNOWN] * 5, *_use(before)
    yield design.design, "again", _accuracy(design.again), _change(design.noise), *[UNKNOWN] * 6
    told = (_change(change), verdict, p, _change(None if dev is None else dev.difference), _change(design.optimism))
    yield design.design, "new", _accuracy(new), *told, *_use(after)


def _accuracy(value: Interval | None) -> Cell | str:
    return UNKNOWN if value is None else Cell(interval_of(value, hundredths), value=value.value)


def _change(value: Interval | None) -> Cell | str:
    return UNKNOWN if value is None else Cell(signed_interval(value, 2), value=value.value)


def _use(use: Cost | None) -> tuple[Cell | str, Cell | str]:
    use = use or Cost()
    return cost_cell(use.tokens, "tokens"), cost_cell(use.cost_usd, "cost_usd")


def spent_table(result: OptimizationResult) -> Table:
    """Return how each search ended, and what it spent of its budget."""
    columns = ("design", "ended", "programs", "rollouts", "LM calls", "tokens", "USD", "proposals", "dev")
    rows = []
    for design, end in ((each, each.ended) for each in result.designs if each.ended is not None):
        cost = end.search
        spent = (f"{cost.trials:,}", f"{cost.calls:,}", f"{cost.tokens:,}", cost_cell(cost.dollars, "cost_usd"))
        rows.append(
            (end.design, end.status, str(len(design.tried)), *spent, f"{end.proposals.calls:,}", f"{end.evaluation.calls:,}")
        )
    optimizer, budget = without_process(result.manifest.optimizer.spec), budget_text(result.manifest.settings.search.budget)
    title = f"Spent by {optimizer}, --budget {budget} for each design"
    return replace(table_of(title, columns, rows), detail=False)


# --- the programs ---


def programs_table(result: OptimizationResult) -> Table:
    """Return a row for each program that a search tried; no rows while none is done."""
    columns = ("design", "program", "kept", "solved on dev", "solved on train", "rollouts", "LM calls", "what is new in it")
    rows = []
    for design in result.designs:
        for (candidate, _), row in zip(design.tried, design.programs, strict=True):
            scores = (
                f"{row[f'{split}_solved']:g} of {row[f'{split}_scored']} ({row[f'{split}_tasks']} in all)"
                if row[f"{split}_scored"]
                else UNKNOWN
                for split in ("dev", "train")
            )
            spent, kept = (f"{row['rollouts']:,}", f"{row['calls']:,}"), "kept" if row["kept"] else ""
            # What it has that the design's own program has not.
            new = [line[1:].strip() for line in _diff(design, candidate)[2:] if line.startswith("+") and HEAD not in line]
            news = one_line(" ".join(filter(None, new)))[:MAX_SHOWN]
            rows.append((design.design, str(candidate.number), kept, *scores, *spent, news))
    return Table("Programs that each search tried, with the tasks that each ran", columns, tuple(rows), detail=True)


def kept_diff(design: DesignResult) -> tuple[str, ...]:
    """Return how the prompts that a search kept differ from the old ones, without secrets; nothing where they do not."""
    kept = (each for each, _ in design.tried if design.ended is not None and each.number == design.ended.chosen)
    return next((_diff(design, candidate) for candidate in kept), ())


def _diff(design: DesignResult, candidate: Candidate) -> tuple[str, ...]:
    old, names = design.tried[0][0].program, ("old prompts", f"program {candidate.number}")
    return tuple(map(redact, program_diff(old, candidate.program, names)))
