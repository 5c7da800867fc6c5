"""A comparison as tables: rows of plain text, and those as Markdown or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopbench.metrics.comparison import Arm, Comparison, Pair
from loopbench.metrics.statistics import Interval

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks that turn the writing direction, line separators, half surrogates, invisible tags."""
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet may take for the start of a formula (OWASP, CSV injection)."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, column names, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(comparison: Comparison, *, secondary: bool = True) -> tuple[Table, ...]:
    """Arms, what went wrong in them, pairs on accuracy, and where `secondary`, pairs on the other metrics."""
    made = [_arms(comparison.arms), _troubles(comparison.arms)]
    if comparison.pairs:
        made.append(_pairs([pair for pair in comparison.pairs if pair.family == "primary"], "Accuracy, a minus b"))
        made.append(
            _pairs(_telling(comparison.pairs) if secondary else (), "Other metrics, a minus b (secondary; lower is better)")
        )
    return tuple(table for table in made if table.rows)


def verdicts(comparison: Comparison) -> list[str]:
    """A line for each group of arms that are compared with one another: the most accurate one, and how sure that is."""
    accuracy = {arm.info.arm: arm.summary.accuracy for arm in comparison.arms if arm.summary.accuracy is not None}
    against: dict[str, dict[str, str]] = {name: {} for name in accuracy}
    for pair in comparison.pairs if not comparison.invalid else ():
        if pair.family == "primary":
            against[pair.a][pair.b] = pair.verdict.word
            against[pair.b][pair.a] = _TURNED.get(pair.verdict.word, pair.verdict.word)
    said: list[str] = []
    told: set[str] = set()
    for first, others in against.items():
        group = (first, *others)
        if first in told or not others:
            continue
        told.update(group)
        best = max(group, key=lambda name: accuracy[name].value)
        words = {name: _against(word, accuracy[best], accuracy[name]) for name, word in against[best].items()}
        found = [(said_of, [name for name in group if words.get(name) == said_of]) for said_of in (*_WORDS.values(), TIED)]
        rest = "; ".join(f"{said_of} {_few(names)}" for said_of, names in found if names)
        said.append(f"Highest accuracy: {best}, {interval(accuracy[best], 3)}; {rest}")
    return said


def _against(word: str, best: Interval, other: Interval) -> str:
    """A verdict in words; where it is still open, equal means are a tie."""
    return TIED if word == "undecided" and best.value == other.value else _WORDS[word]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} others" if len(names) > MOST_NAMES else "")


MOST_NAMES = 6
TIED = "tied with"
_TURNED = {"better": "worse", "worse": "better"}
_WORDS = {"better": "better than", "equivalent": "equivalent to", "undecided": "undecided against", "worse": "worse than"}


def notes(comparison: Comparison) -> list[str]:
    """What to keep in mind: warnings first."""
    said = [f"Warning: {warning}" for warning in comparison.warnings]
    if comparison.invalid:
        said.append("This run is invalid: no verdict of it holds.")
    level = f"{100 * (1 - comparison.alpha):g} %"
    said.append(
        f"Brackets are {level} intervals; p is a paired sign-flip test on task means, adjusted over all pairs (Holm); "
        f"equivalent means within {comparison.margin:g} (accuracy), or within that share of the mean (the rest)."
    )
    for arm in comparison.arms:
        found = arm.summary
        for what, reasons in (("crashed", found.crashes), ("errored", found.errored_reasons), ("excluded", found.exclusions)):
            if reasons:
                said.append(f"{arm.info.arm}, {what}: {_reasons(reasons)}")
        if found.retries:
            said.append(f"{arm.info.arm}, asked again after: {counts(found.retries)}")
    if any(arm.summary.nominal_usd is not None for arm in comparison.arms):
        said.append("USD is what was billed; USD uncached what it would be had nothing come from a cache or a recording.")
    if any(arm.info.model == "scripted" for arm in comparison.arms):
        said.append(
            "The model is scripted: intervals speak of tasks and fault draws, not of any real model; tokens are estimates "
            "(4 characters each), seconds the simulated time of slow and hanging faults."
        )
    return said


MOST_REASONS = 3


def _reasons(found: Mapping[str, int]) -> str:
    """The most frequent reasons with their counts."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    shown = "; ".join(f"{n} × {reason[:160]}" for reason, n in ordered[:MOST_REASONS])
    return shown + (f"; and {len(ordered) - MOST_REASONS} other reasons" if len(ordered) > MOST_REASONS else "")


def _arms(arms: Sequence[Arm]) -> Table:
    columns = ("arm", "scored", "errored", "excluded", "accuracy", "steps", "LM calls", "tokens", "seconds", "USD", "USD uncached")
    rows = []
    for arm in arms:
        found = arm.summary
        rows.append(
            (
                arm.info.arm,
                str(found.scored),
                str(found.errored),
                str(found.excluded),
                interval(found.accuracy, 3),
                interval(found.steps, 2),
                interval(found.lm_calls, 2),
                interval(found.tokens, 0),
                interval(found.seconds, 2),
                interval(found.cost_usd, 4),
                interval(found.nominal_usd, 4),
            )
        )
    known = [index for index in range(len(columns)) if any(row[index] != "–" for row in rows)]
    return Table("Arms", tuple(columns[i] for i in known), tuple(tuple(row[i] for i in known) for row in rows))


def _troubles(arms: Sequence[Arm]) -> Table:
    columns = ("arm", "stops", "errors", "faults landed", "absorbed", "recovered", "recovery rate", "false success")
    rows = []
    for arm in arms:
        found, faults = arm.summary, arm.summary.faults
        rows.append(
            (
                arm.info.arm,
                counts(found.stops),
                counts(found.errors),
                f"{faults.landed} of {faults.scheduled}",
                str(faults.absorbed),
                str(faults.recovered),
                interval(found.recovery, 2),
                str(found.false_success),
            )
        )
    return Table("What happened", columns, tuple(rows))


def _pairs(pairs: Sequence[Pair], title: str) -> Table:
    columns = ("a", "b", "metric", "difference", "tasks", "p", "p (Holm)", "verdict")
    digits = {"accuracy": 3, "steps": 2, "lm_calls": 2, "tokens": 0, "seconds": 2, "cost_usd": 5, "nominal_usd": 5}
    rows = tuple(
        (
            pair.a,
            pair.b,
            pair.metric,
            interval(pair.difference, digits.get(pair.metric, 3)),
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


def verdict(pair: Pair) -> str:
    """`a is better than b`, in words."""
    word = pair.verdict.word
    if word == "equivalent":
        return "equivalent"
    if word == "undecided":
        return "undecided"
    return f"a is {word}" + (", within the margin" if pair.verdict.within_margin else "")


def interval(value: Interval | None, digits: int) -> str:
    """`0.908 [0.843, 0.948]`; – where nothing is known. Data that never vary have no interval: `5.00 (in all 120)`."""
    if value is None:
        return "–"
    if value.low == value.high:
        return f"{value.value:.{digits}f} (in all {value.n})"
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def counts(found: Mapping[str, int]) -> str:
    """`finished 109, error_valve 8`, the largest first."""
    return ", ".join(f"{name} {n}" for name, n in sorted(found.items(), key=lambda item: (-item[1], item[0]))) or "–"


# --- text that came from a model, a tool or a file ---


def plain(text: str) -> str:
    """Safe for a terminal: control characters other than line feed and tab are shown as their codes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def to_markdown(title: str, comparison: Comparison) -> str:
    """Tables and notes for a pull request."""
    return markdown_page(title, tables(comparison), (*verdicts(comparison), *notes(comparison)))


def markdown_page(title: str, found: Sequence[Table], said: Sequence[str]) -> str:
    """A heading, tables, and a list of what is said about them."""
    parts = [f"## {markdown_cell(title)}"]
    for table in found:
        lines = [f"### {table.title}", "", _line(table.columns), _line(["---"] * len(table.columns))]
        parts.append("\n".join([*lines, *(_line([markdown_cell(cell) for cell in row]) for row in table.rows)]))
    parts.append("\n".join(f"- {markdown_item(note)}" for note in said))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_cell(text: str) -> str:
    """One line, Markdown and HTML marks taken literally."""
    escaped = " ".join(plain(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_~\[\]])", r"\\\1", escaped)


def markdown_item(text: str) -> str:
    """An item of a list, whose first characters begin no heading, rule or list of their own."""
    return re.sub(r"^(\d{0,9})([#+=.)-])", r"\1\\\2", markdown_cell(text))


def markdown_block(text: str) -> str:
    """Lines taken literally: a fence longer than any in them."""
    safe = plain(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", safe)), default=0))
    return f"{fence}text\n{safe}\n{fence}"


def to_csv(comparison: Comparison) -> str:
    """One line per arm, numbers in columns of their own; a cell that a spreadsheet would run as a formula is quoted with '."""
    file = io.StringIO()
    rows = [_flat(arm.to_json()) for arm in comparison.arms]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in columns])
    for row in rows:
        writer.writerow([_csv_cell(row.get(name, "")) for name in columns])
    return file.getvalue()


def _flat(value: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    made: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            made |= _flat(item, f"{prefix}{name}.")
        else:
            made[f"{prefix}{name}"] = "" if item is None else str(item)
    return made


def _csv_cell(text: str) -> str:
    safe = plain(text)
    return f"'{safe}" if safe.startswith(_FORMULA) and not _NUMBER.fullmatch(safe) else safe
