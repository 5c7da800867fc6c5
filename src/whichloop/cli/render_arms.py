"""What each arm of a comparison took, in one table that fits a terminal: its trials, steps, calls, tokens or money, recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.verdict.matrix import cost_text, counted_in, unit_of_cost
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.statistics import Interval
from whichloop.metrics.views import Unit
from whichloop.text.numbers import interval_of
from whichloop.text.output import plain_line

from .columns import folded
from .render_matrix import share_form

Cell = Callable[[ArmResult], str]


def arm_lines(run: Results, width: int) -> Iterator[Text]:
    """Yield a heading and a line per arm, with as many columns as the terminal has room for.

    Accuracy stands in the answer, and the number of trials in its title: it is told here where not all of them were scored.
    """
    arms = run.comparison.arms
    unit = unit_of_cost(arms)
    left_out = any(arm.summary.scored < arm.summary.trials for arm in arms)
    columns = _columns(unit, share_form(run.answer, width))
    columns = [_SCORED, *columns] if left_out else columns
    cells = [column for column in columns if any(column[1](arm) != "–" for arm in arms)]
    yield from folded((_rows(arms, cells[: len(cells) - dropped]) for dropped in range(max(1, len(cells) - 1))), width)


_SCORED: tuple[str, Cell] = ("scored", lambda arm: f"{arm.summary.scored} of {arm.summary.trials}")


def _columns(unit: Unit, share: Callable[[Interval], str]) -> list[tuple[str, Cell]]:
    """Return headings and cells, the first to be left out on a narrow terminal the last. `share`: how a share is written."""
    return [
        ("LM calls", lambda arm: _mean(arm.summary.means["lm_calls"], lambda value: f"{value:.1f}")),
        (f"{counted_in(unit)} a trial", lambda arm: _mean(arm.summary.means[unit], lambda value: cost_text(value, unit))),
        ("recovery rate", lambda arm: "–" if arm.summary.recovery is None else share(arm.summary.recovery)),
        ("steps", lambda arm: _mean(arm.summary.means["steps"], lambda value: f"{value:.1f}")),
    ]


def _rows(arms: Sequence[ArmResult], cells: Sequence[tuple[str, Cell]]) -> list[list[Text]]:
    heading = [Text(head, style="dim") for head in ("arm", *(head for head, _ in cells))]
    return [heading, *([Text(plain_line(arm.info.arm)), *(Text(cell(arm)) for _, cell in cells)] for arm in arms)]


def _mean(value: Interval | None, written: Callable[[float], str]) -> str:
    return "–" if value is None else interval_of(value, written)
