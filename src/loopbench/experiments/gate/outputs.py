"""What the gate says, for people and for CI servers: plain text, Markdown, JUnit XML, GitHub's annotations.

Names and details may come from a model, a tool or a file: each output takes them literally, and no text can end its line, its cell,
its element or its command.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal
from xml.etree import ElementTree

from loopbench.experiments.compare.tables import outlook_in_words
from loopbench.metrics.gate import GateLine
from loopbench.metrics.summary import METRICS
from loopbench.text.numbers import counts
from loopbench.text.plain_text import plain, plain_line
from loopbench.text.table import Table, markdown_item, markdown_page

from .outcome import GateArm, GateResult, Side, TaskChange

OnUndecided = Literal["pass", "fail", "undecided"]
MAX_TASKS = 20
"""Changed tasks that people are shown; `--json` has all."""
MAX_ANNOTATED = 9
"""GitHub shows ten annotations of a kind per step: the outcome's, and so many tasks'."""
MAX_NAMED = 4
"""Arms and metrics in a headline."""
MAX_CHARS = 300
"""Of one detail."""
TYPICAL = "typical task"
COLUMNS = ("arm", "metric", "baseline", "run", "change", TYPICAL, "margin", "tasks", "p (Holm)", "outcome")

_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""GitHub and Azure take `##[…]` and `##vso[…]` for commands wherever they stand in a line."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold (Char, §2.2)."""


def headline(result: GateResult) -> str:
    """The outcome in a line, its word first."""
    return _literal(f"{result.outcome}: {_why(result)}")


def table(result: GateResult) -> Table:
    """A row per arm and metric."""
    level = f"{100 * (1 - result.alpha):g} %"
    rows, place = [_row(line) for line in result.lines], COLUMNS.index(TYPICAL)
    known = [at for at in range(len(COLUMNS)) if at != place or any(row[place] for row in rows)]
    columns = tuple(COLUMNS[at] for at in known)
    return Table(
        f"Run against baseline (bounds: one-sided, {level} each)", columns, tuple(tuple(row[at] for at in known) for row in rows)
    )


def paragraphs(result: GateResult) -> list[str]:
    """What is to be said beside the table, a line each: what more tasks may decide, what changed, what to keep in mind."""
    said = [
        f"{line.arm} in {line.metric}: {outlook_in_words(line.outlook, 'this gate decides')}."
        for line in result.lines
        if line.outlook is not None
    ]
    return [_literal(line) for line in (*said, *_counted(result), *result.notes)]


def task_lines(result: GateResult, most: int | None = MAX_TASKS) -> list[str]:
    """Two lines per changed task: what became of it, and the command that shows it; none begins with white space or a colon."""
    shown = result.tasks[:most]
    lines = [line for change in shown for line in (f"- {_literal(_became(change))}", f"    {_literal(change.command)}")]
    rest = len(result.tasks) - len(shown)
    return [*lines, *([f"- and {rest} more; --json has all"] if rest else [])]


def text(result: GateResult) -> str:
    """All of it as plain text, for a log."""
    made = table(result)
    rows = ["  ".join(row) for row in (made.columns, *made.rows)] if result.lines else []
    return "\n".join([headline(result), *rows, *paragraphs(result), *task_lines(result)])


def to_markdown(result: GateResult) -> str:
    """A page for a step's summary or a pull request."""
    tables = [table(result)] if result.lines else []
    if result.tasks:
        columns = ("trial", "became", "was", "is", "step", "cause", "detail", "to see it")
        rows = tuple(_task_row(change) for change in result.tasks[:MAX_TASKS])
        tables.append(Table(f"Tasks that changed ({len(rows)} of {len(result.tasks)})", columns, rows))
    head, _, rest = markdown_page(f"Gate: {result.outcome}", tables, paragraphs(result)).partition("\n\n")
    return f"{head}\n\n{markdown_item(headline(result))}\n\n{rest}"


# --- JUnit ---


def to_junit(result: GateResult, on_undecided: OnUndecided = "undecided") -> str:
    """JUnit's XML: a test suite per arm, a test case per metric, so that as many tests fail as metrics got worse.

    The changed tasks stand in the failure and in the suite's output. Undecided is skipped, or a failure where that is wanted;
    invalid is an error.
    """
    root = ElementTree.Element("testsuites", name="loopbench gate")
    if result.reasons:
        case = _case(_suite(root, "loopbench gate", 1, {"error": 1}), "loopbench gate", "the run is valid")
        _put(case, "error", headline(result), "\n".join(result.reasons))
    for arm in result.arms:
        _add_arm(root, result, arm, on_undecided)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_arm(root: ElementTree.Element, result: GateResult, arm: GateArm, on_undecided: OnUndecided) -> None:
    kinds = [_junit_kind(line, on_undecided) for line in arm.lines]
    suite = _suite(root, arm.arm, len(kinds), Counter(kind for kind in kinds if kind is not None))
    tasks = "\n".join(_task_text(change) for change in result.tasks if change.arm == arm.arm)
    for line, kind in zip(arm.lines, kinds, strict=True):
        case = _case(suite, arm.arm, line.metric)
        if kind is not None:
            _put(case, kind, f"{line.outcome}: {_change(line)}, margin {_margin(line)}", tasks)
    ElementTree.SubElement(suite, "system-out").text = _xml("\n".join([headline(result), *paragraphs(result), tasks]))


def _junit_kind(line: GateLine, on_undecided: OnUndecided) -> str | None:
    if line.outcome == "undecided" and on_undecided != "pass":
        return "failure" if on_undecided == "fail" else "skipped"
    return "failure" if line.outcome == "regression" else None


def _suite(root: ElementTree.Element, name: str, tests: int, kinds: dict[str, int]) -> ElementTree.Element:
    found = {"failures": kinds.get("failure", 0), "errors": kinds.get("error", 0), "skipped": kinds.get("skipped", 0)}
    sizes = {"tests": str(tests)} | {name: str(count) for name, count in found.items()}
    return ElementTree.SubElement(root, "testsuite", {"name": _xml(name)} | sizes)


def _case(suite: ElementTree.Element, arm: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", {"classname": _xml(arm), "name": _xml(name), "time": "0"})


def _put(case: ElementTree.Element, kind: str, message: str, inside: str) -> None:
    ElementTree.SubElement(case, kind, {"message": _xml(message)}).text = _xml(inside)


def _xml(said: str) -> str:
    """Characters that XML 1.0 cannot hold stand as U+FFFD."""
    return _NOT_XML.sub("\ufffd", plain(said))


# --- GitHub ---


def github_annotations(result: GateResult, on_undecided: OnUndecided = "undecided") -> list[str]:
    """GitHub's workflow commands: the outcome, then the tasks that got worse."""
    kind = {"identical": "notice", "pass": "notice", "undecided": "warning"}.get(result.outcome, "error")
    if result.outcome == "undecided" and on_undecided != "undecided":
        kind = "error" if on_undecided == "fail" else "notice"
    worse = [change for change in result.tasks if change.became == "worse"] if kind != "notice" else []
    first = _command(kind, f"loopbench gate: {result.outcome}", "\n".join([_why(result), *paragraphs(result)]))
    return [first, *(_command("warning", f"{change.arm}/{change.task}", _task_text(change)) for change in worse[:MAX_ANNOTATED])]


def _command(kind: str, title: str, message: str) -> str:
    """`::error title=…::…`, escaped as GitHub's toolkit does (packages/core/src/command.ts)."""
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escaped(message)}"


def _escaped(said: str) -> str:
    return plain(said).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# --- in words ---


def _why(result: GateResult) -> str:
    if result.reasons:
        return "; ".join(result.reasons)
    if result.outcome == "identical":
        return f"behaviour unchanged in all {sum(arm.trials for arm in result.arms)} trials"
    if result.outcome == "pass":
        worse = _few([f"{line.arm} in {line.metric}" for line in result.lines if line.outcome == "pass" and line.worse], ", ")
        return f"within the margin{'s' * (len(result.lines) > 1)}{'; worse, but within it: ' * bool(worse)}{worse}"
    grave = [line for line in result.lines if line.outcome == result.outcome]
    return _few([f"{line.arm} in {line.metric} {_change(line)}, margin {_margin(line)}" for line in grave], "; ")


def _few(said: Sequence[str], between: str) -> str:
    more = len(said) - MAX_NAMED
    return between.join([*said[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _row(line: GateLine) -> tuple[str, ...]:
    digits = METRICS[line.metric].digits
    return (
        _literal(line.arm),
        line.metric,
        f"{line.baseline:.{digits}f}",
        f"{line.run:.{digits}f}",
        _change(line),
        "" if line.typical is None else f"×{_number(line, line.typical, sign=False)}",
        _margin(line),
        str(line.tasks) if line.units == line.tasks else f"{line.tasks} in {line.units} templates",
        "<0.001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}",
        "pass, worse within the margin" if line.outcome == "pass" and line.worse else line.outcome,
    )


def _change(line: GateLine) -> str:
    """`-0.150 [-0.212, -0.088]`, or as a ratio `×1.25 [1.10, 1.42]`; – for a bound that too few tasks leave open."""
    effect = line.effect
    bounds = ", ".join(_number(line, bound, sign=not line.is_ratio) for bound in (effect.low, effect.high))
    return f"{'×' * line.is_ratio}{_number(line, effect.value, sign=not line.is_ratio)} [{bounds}]"


def _number(line: GateLine, value: float, *, sign: bool) -> str:
    if not math.isfinite(value) or (line.is_ratio and value == 0):
        return "–"
    return f"{value:{'+' * sign}.{2 if line.is_ratio else 3}f}"


def _margin(line: GateLine) -> str:
    return f"×{1 + line.margin:g}" if line.is_ratio else f"-{line.margin:g}"


def _counted(result: GateResult) -> Iterator[str]:
    became = Counter(change.became for change in result.tasks)
    if result.tasks:
        causes = f" ({counts(result.causes)})" if result.causes else ""
        yield f"Tasks: {became['worse']} worse{causes}, {became['better']} better, {became['other']} with another stop only."
    if result.same_result:
        yield f"{result.same_result} more trials have the same score and stop, but other calls, answers, steps or tokens."


def _became(change: TaskChange) -> str:
    return f"{change.arm}/{change.task} {change.became}: {_gave(change.was)} -> {_gave(change.now)}{_parted(change)}"


def _parted(change: TaskChange) -> str:
    at = "" if change.step is None else f"; first difference at step {change.step}"
    why = "" if change.cause is None else f"; {change.cause}: {_cut(change.detail)}"
    return at + why


def _gave(side: Side) -> str:
    """`1.00 finished`, of several repeats `0.67 finished 2, max_steps 1`."""
    mean = "not scored" if side.mean is None else f"{side.mean:.2f}"
    stops = Counter(stop for stop in side.stops if stop is not None)
    if len(stops) == 1 and len(side.stops) == 1:
        return f"{mean} {next(iter(stops))}"
    return f"{mean} {counts(stops)}"


def _task_text(change: TaskChange) -> str:
    return f"{_literal(_became(change))}\n{_literal(change.command)}"


def _task_row(change: TaskChange) -> tuple[str, ...]:
    step = "" if change.step is None else str(change.step)
    trial = f"{change.arm}/{change.task}/{change.repeat}"
    cause, detail = change.cause or "", _cut(change.detail)
    return (trial, change.became, _gave(change.was), _gave(change.now), step, cause, detail, change.command)


def _cut(said: str) -> str:
    return said if len(said) <= MAX_CHARS else f"{said[:MAX_CHARS]}…"


def _literal(said: str) -> str:
    """One line, without control characters, and nothing in it that a CI server takes for a command."""
    return _no_command(plain_line(said))


def _no_command(line: str) -> str:
    line = _COMMAND_INSIDE.sub("## ", line)
    return f"\\{line}" if line.lstrip().startswith("::") else line
