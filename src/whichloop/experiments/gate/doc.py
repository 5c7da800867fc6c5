"""A gate's result as a document: the outcome, what changed and why, a row for each arm and metric, and what to know beside it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from whichloop.metrics.gate import GateLine, Outcome
from whichloop.metrics.summary import GAINS, PRIMARY, SHARES
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.config import config_from
from whichloop.runs.permissions import allow_words
from whichloop.text.doc import Cell, Doc, Lines, Style, Table, lines_of
from whichloop.text.numbers import counts, hundredths

from .baseline import Baseline
from .judge import GateResult
from .tasks import causes_of

STYLES: dict[Outcome, Style] = {"pass": "good", "undecided": "warn", "regression": "bad", "invalid": "bad"}
MAX_TASKS = 20
"""Changed tasks in the table behind the answer; the data have all."""
MAX_VERSIONS = 6
IN_ROWS = ("undecided", "worse")
"""Reasons that say no more than their rows of the table."""


def gate_doc(result: GateResult) -> Doc:
    """Return what a gate says. The first lines have the outcome, how many tasks changed by which causes, and one of them."""
    arms = list(dict.fromkeys(line.arm for line in result.lines))
    worse, better = (sum(task.became == name for task in result.tasks) for name in ("worse", "better"))
    causes = causes_of(result.tasks)
    tasks = f"{worse} worse{f' ({counts(causes)})' if causes else ''}, {better} better, of {result.judged_tasks:,}"
    also = [] if result.outcome == "pass" else [each for each in result.reasons[1:] if each.leads_to == result.outcome]
    age = counted(max(0, (datetime.now(UTC) - result.blessed).days), "day")
    blocks: tuple[Table | Lines, ...] = (
        lines_of(
            ("Also", [each.text for each in also if each.code not in IN_ROWS]),
            ("Arm", arms if len(arms) == 1 and result.outcome == "pass" else ""),
            ("Tasks", tasks if result.outcome != "invalid" else ""),
            *_example(result),
            *((f"Worst {each['metric']}", "{trial}: {was:,g} → {now:,g}".format(**each)) for each in result.worst),
        ),
        lines_table(result, named=len(arms) > 1),
        lines_of(
            ("Accepted", [reason.text for reason in result.reasons if reason.accepted]),
            (
                "Changed",
                [f"{kind}: {_first(texts)}" for kind, texts in result.changed.items() if kind != "versions" or result.tasks],
            ),
            ("Again", f"{result.again[1]} of {result.again[0]} changed trials came out the same" if result.again[0] else ""),
            ("Never run", [f"{file}: changed lines {', '.join(spans)}" for file, spans in result.unrun.items()]),
            ("Not judged", list(result.not_judged)),
            ("Unpaired", "" if result.paired else "another seed or number of repeats than in the baseline"),
            ("Accepts", ", ".join(result.settings.accept)),
            ("Baseline", f"{result.baseline or 'in memory'}, {age} old{f', commit {result.commit[:12]}' if result.commit else ''}"),
            ("Basis", result.basis),
            ("Record", result.record[:1]),
            ("Next", _next(result)),
        ),
        Table(
            "Changed tasks",
            ("task", "was", "is", "what", "cause"),
            tuple(
                (f"{each.arm}/{each.task}/{each.repeat}", f"{each.was:.2f}", f"{each.now:.2f}", each.told, each.cause or "")
                for each in result.tasks[:MAX_TASKS]
            ),
            detail=True,
        ),
    )
    return Doc(title_of(result), blocks, result.to_json())


def title_of(result: GateResult) -> str:
    """Return the outcome with its first reason; of a run that passes, with the codes of all."""
    if result.outcome == "pass":
        codes = (f"{reason.code} (accepted)" if reason.accepted else reason.code for reason in result.reasons)
        return f"pass: {', '.join(dict.fromkeys(codes))}"
    return f"{result.outcome}: {result.reasons[0].text}"


def lines_table(result: GateResult, *, named: bool) -> Table:
    """Return a row for each arm and metric, those that decide first. `named`: the rows name their arms."""
    accepted = {(reason.arm, reason.metric) for reason in result.reasons if reason.accepted}
    ordered = sorted(result.lines, key=lambda line: ("regression", "undecided", "pass").index(line.result))
    rows = [
        (
            *((line.arm,) if named else ()),
            line.metric,
            Cell(_value(line, line.baseline), value=line.baseline),
            Cell(_value(line, line.run), value=line.run),
            Cell(change_text(line), value=line.effect.value),
            Cell(margin_text(line.metric, line.margin), value=line.margin),
            Cell(_result(line, is_accepted=(line.arm, line.metric) in accepted), STYLES[line.result]),
        )
        for line in ordered
    ]
    return Table("", (*(("arm",) if named else ()), "metric", "was", "is", "change", "margin", "result"), tuple(rows))


def _result(line: GateLine, *, is_accepted: bool) -> str:
    if is_accepted:
        return f"accepted: {line.reason}"
    if line.reason == "undecided":
        return f"undecided: {line.tasks_to_decide:,} tasks" if line.tasks_to_decide else "undecided"
    return f"{line.result}: {line.reason}"


def _value(line: GateLine, value: float) -> str:
    return hundredths(value) if line.metric in SHARES else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def change_text(line: GateLine) -> str:
    """Return `-.17 [-.23, -.09]`, or of a sum `×1.29 [1.10, 1.51]`: one-sided bounds."""
    effect = line.effect
    if line.is_ratio:
        return f"×{effect.value:.2f} [{effect.low:.2f}, {effect.high:.2f}]"
    return f"{hundredths(effect.value, sign=True)} [{hundredths(effect.low, sign=True)}, {hundredths(effect.high, sign=True)}]"


def margin_text(metric: str, margin: float) -> str:
    """Return by how much a metric may fall, rise or grow: `-.02`, `+.02`, `×1.10`."""
    if metric not in SHARES:
        return f"×{1 + margin:.2f}"
    return hundredths(-margin if metric in GAINS else margin, sign=True)


def _example(result: GateResult) -> Iterator[tuple[str, str]]:
    """Yield one lost task of the most frequent cause, and the command that shows it; without one that of another trial."""
    common = next(iter(causes_of(result.tasks)), None)
    told = [task for task in result.tasks if task.became == "worse" and task.cause == common]
    for task in told[:1]:
        yield "Example", f"{task.task}: {task.told}"
        if task.command:
            yield "Show", task.command
    first = [str(reason.numbers["first"]) for reason in result.reasons if "first" in reason.numbers and reason.arm]
    for trial in [*(each["trial"] for each in result.worst), *first][: 0 if told else 1]:
        yield "Show", f"whichloop show {shlex.quote(str(result.run))} {shlex.quote(trial)}"


def _first(texts: Sequence[str]) -> str:
    more = len(texts) - MAX_VERSIONS
    return ", ".join(texts[:MAX_VERSIONS]) + (f" and {more} more" if more > 0 else "")


def _next(result: GateResult) -> str:
    """Return the command that gates again once the recording is whole, or says why trials were lost; never one that blesses."""
    codes = {reason.code for reason in result.reasons}
    if result.record:
        return result.record[-1]
    if result.outcome != "regression" or codes & {"crash", "hang", "few_faults"} or result.baseline is None:
        return ""
    return f"whichloop report {shlex.quote(str(result.run))} --why"


def blessed_doc(baseline: Baseline, path: Path, old: Baseline | None) -> Doc:
    """Return what a baseline holds, and the command that gates by it. `old`: the one that it replaces."""
    imported = "loops" not in baseline.config
    rows = []
    for name, arm in baseline.arms.items():
        known = [[v for v in line.values(PRIMARY) if v is not None] for line in arm.tasks.values()]
        means = [sum(values) / len(values) for values in known if values]
        crashed = sum(line.stop.count(StopReason.CRASHED) for line in arm.tasks.values())
        accuracy = Cell(hundredths(sum(means) / max(len(means), 1)))
        rows.append((name, accuracy, Cell(str(crashed), "bad" if crashed else "", crashed)))
    run, typed = (" RUN", []) if imported else ("", allow_words(config_from(baseline.config)))
    facts = lines_of(
        ("Tasks", f"{baseline.suite.name} {baseline.suite.version}: {baseline.suite.tasks:,} × {baseline.repeats}"),
        ("Margins", ", ".join(f"{name} {margin_text(name, margin)}" for name, margin in baseline.gate.metrics.items())),
        ("Accepts", ", ".join(baseline.gate.accept)),
        ("Replaces", "" if old is None else f"{old.run}: {', '.join(old.arms)}"),
        ("Next", " ".join([f"whichloop gate{run} --baseline", shlex.quote(str(path)), *typed])),
    )
    table = Table("", ("arm", "accuracy", "crashed"), tuple(rows))
    return Doc(f"{path}: the baseline of {baseline.run}", (table, facts), {"baseline": str(path)})
