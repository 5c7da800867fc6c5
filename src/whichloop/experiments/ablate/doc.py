"""An ablation as a document: the matrix of settings, what each factor does, which setting to use; behind it all tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from whichloop.experiments.compare.caveats import caveats
from whichloop.experiments.compare.doc import LEGEND, READING, basis, compare_doc, matrix, notes
from whichloop.experiments.compare.results import MAX_PAIRED, Results
from whichloop.experiments.compare.tables import detail_tables, table_of
from whichloop.metrics.caveats import warning_lines
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.summary import METRICS, PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Lines, Style, Table, lines_of
from whichloop.text.numbers import hundredths, interval, interval_of, p_value, signed_interval

from .ablation import AblationResult, ablation_result
from .choices import SHOWN, Choice, choices, makes_no_difference, setting_to_use

BEYOND = {"better": "more than the sum", "worse": "less than the sum"}
"""Verdicts on interactions, by word."""
Row = tuple[Cell | str, ...]
STYLES: Mapping[str, Style] = {"better": "good", "worse": "bad"}


def ablation_doc(result: AblationResult) -> Doc:
    """Return what the factors do, and which setting to use."""
    run, chosen = result.results, choices(result)
    arms = len(run.comparison.arms)
    own = lines_of(
        ("Effects", "averaged over the other factors; of interactions what both changes do beyond the sum of each"),
        ("Note", list(result.notes)),
        ("Note", f"{arms} arms are too many to compare in pairs too" if arms > MAX_PAIRED else ""),
    )
    title = f"{result.ablation.loop} · {run.title} · {LEGEND if run.comparison.pairs else 'accuracy'}"
    details: tuple[Block, ...] = (
        _all_effects(result),
        *detail_tables(run),
        READING,
        Lines((*own.items, *notes(run).items), detail=True),
    )
    data, names = run.to_json(), ("loop", "factors", "design", "cells", "default", "own", "resolution")
    use = setting_to_use(result, chosen) if chosen else None
    data |= {
        "answer": data["answer"] | {"use": use, "choices": [choice.to_json() for choice in chosen]},
        "ablation": {name: getattr(result.ablation, name) for name in names} | {"aliases": list(result.layout.aliases)},
        "effects": [effect.to_json() for effect in result.effects],
        "notes": list(result.notes),
    }
    return Doc(title, (_settings(result, chosen), _main_effects(result), _answer(result, chosen), *details), data)


def _settings(result: AblationResult, chosen: Sequence[Choice]) -> Table:
    """Return the matrix of settings, the most accurate first."""
    run, names, use = result.results, list(result.ablation.factors), {choice.factor: choice.value for choice in chosen}
    compared, rows = matrix(run, run.verdict), list[Row]()
    for row, cells in zip(run.verdict.rows, compared.rows, strict=True):
        values = result.values(row.arms[0].info.arm)
        mark = ", ".join(word for word, told in (("use", use), ("as it is", result.own)) if values == told)
        rows.append((", ".join(values[name] for name in names), Cell(mark, "good" if values == use else ""), *cells[1:]))
    return Table(f"settings: {', '.join(names)}", ("setting", "", *compared.columns[1:]), tuple(rows))


def _main_effects(result: AblationResult) -> Table:
    """Return what each factor does to accuracy and, where that is shown, to costs."""
    found = {(each.metric, each.profile, each.term): each for each in result.effects if each.kind == "main"}
    units = [unit for unit in dict.fromkeys(("tokens", result.results.verdict.unit)) if any(unit == metric for metric, *_ in found)]
    rows: list[Row] = [
        (
            *_head(each, result),
            interval_of(each.difference, hundredths),
            p_value(each.p_holm),
            _verdict(each),
            *(_change(found.get((unit, profile, term))) for unit in units),
        )
        for (metric, profile, term), each in found.items()
        if metric == PRIMARY
    ]
    columns = ("effect", *_profile_heading(result), "accuracy", "p (Holm)", "verdict", *(METRICS[unit].label for unit in units))
    return Table("", columns, tuple(rows))


def _change(effect: Effect | None) -> str:
    """Return the size of an effect on costs that is shown, else the verdict."""
    if effect is None or effect.verdict.word not in SHOWN:
        return UNKNOWN if effect is None else effect.verdict.word
    return f"{effect.difference.value:+,.{METRICS[effect.metric].digits}f}"


def _verdict(effect: Effect) -> Cell:
    word = effect.verdict.word
    text = BEYOND.get(word, word) if effect.kind == "interaction" else word
    return Cell(f"{text}, within the margin" if effect.verdict.within_margin and word in SHOWN else text, STYLES.get(word, ""))


def _answer(result: AblationResult, chosen: Sequence[Choice]) -> Lines:
    """Return which setting to use, what is not decided, what made no difference, and what is doubtful."""
    run, use = result.results, {choice.factor: choice.value for choice in chosen}
    needed = [(f"{each.factor}={other}", tasks) for each in chosen for other, tasks in each.tasks.items()]
    as_it_is = ", as it is" if all(choice.value == choice.own for choice in chosen) else ""
    return lines_of(
        ("Invalid", "no effect of this run holds" if run.comparison.invalid else ""),
        ("Use", f"{setting_to_use(result, chosen)}{as_it_is}" if chosen else ""),
        ("Open", ", ".join(name if tasks is None else f"{name} (about {tasks:,} tasks would decide)" for name, tasks in needed)),
        ("Depends", list(_dependences(result))),
        ("Same", ", ".join(name for name in result.ablation.factors if makes_no_difference(result, name))),
        ("Basis", basis(run)),
        ("Warning", [*warning_lines(caveats(run.comparison)), *_doubts(result, use)]),
    )


def _dependences(result: AblationResult) -> Iterator[str]:
    """Yield what a change does at each value of another factor, where it is shown to depend on that."""
    for effect in result.effects if not result.results.comparison.invalid else ():
        if (effect.kind, effect.metric) == ("interaction", PRIMARY) and effect.verdict.word in SHOWN:
            profile = f"{effect.profile}: " if _profile_heading(result) else ""
            by_change: dict[str, list[str]] = {}
            for each in effect.conditional:
                value = hundredths(each.difference.value, sign=True)
                by_change.setdefault(each.change, []).append(f"{value} with {each.given.replace(' = ', '=')}")
            yield from (f"{profile}{change}: {', '.join(values)}" for change, values in by_change.items())
            if not by_change:
                yield f"{profile}{_head(effect, result)[0]}: {hundredths(effect.difference.value, sign=True)} beyond the sum"


def _doubts(result: AblationResult, use: Mapping[str, str]) -> Iterator[str]:
    """Yield what the design leaves open."""
    ablation, cells = result.ablation, result.layout.cells
    if use and use not in [result.values(arm) for arm in ablation.cells]:
        yield f"not run with just these values: {', '.join(f'{name}={value}' for name, value in use.items())}"
    if ablation.design == "fractional":
        total = counted(math.prod(map(len, ablation.factors.values())), "cell")
        yield f"{len(cells):,} of {total} (resolution {ablation.resolution}): interactions of three factors are taken to be absent"
    if result.layout.aliases:
        yield f"only the sums are known of {'; '.join(result.layout.aliases)}"


def _all_effects(result: AblationResult) -> Table:
    rows: list[Row] = [
        (
            *_head(each, result),
            METRICS[each.metric].label,
            signed_interval(each.difference, METRICS[each.metric].digits),
            p_value(each.p_holm),
            _verdict(each),
            interval(each.odds_ratio, 2),
        )
        for each in result.effects
    ]
    columns = ("effect", *_profile_heading(result), "measure", "difference", "p (Holm)", "verdict", "odds ratio")
    return table_of("All effects", columns, rows)


def _head(effect: Effect, result: AblationResult) -> tuple[str, ...]:
    """Return an effect's term, and its profile where there are several."""
    return (" = ".join((effect.term, *effect.aliases)), *([effect.profile] if _profile_heading(result) else []))


def _profile_heading(result: AblationResult) -> tuple[str, ...]:
    return ("profile",) if len({effect.profile for effect in result.effects}) > 1 else ()


def run_doc(run: Results) -> Doc:
    """Return the document of a comparison, an ablation, an imported run, or the test of an optimization."""
    ablation = ablation_result(run)
    return compare_doc(run) if ablation is None else ablation_doc(ablation)
