"""What a gate's outcome rests on, in sentences: a first line that can be read at a glance, and below it the rest by its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.experiments.gate.changes.changed_code import unrun_in_words
from whichloop.experiments.gate.changes.other_changes import claims_in_words, unjudged_in_brief
from whichloop.experiments.gate.changes.traced_trials import DOUBLED, altered_in_words
from whichloop.experiments.gate.data.findings import WorstTrial
from whichloop.experiments.gate.data.outcome import PASSES, UNTESTED_LIMIT, AlteredCause, GateResult, causes_of
from whichloop.experiments.gate.data.troubles import literal, short_arm
from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.numbers import first_of, listed_names

from .line_words import (
    accuracy_not_held,
    all_and_main,
    breaks,
    decisive,
    effect_in_words,
    growth_in_words,
    growth_of,
    is_gain,
    is_shown,
    losses,
    margin_in_words,
    number_in_words,
    tasks_both_ways,
    tasks_in_words,
    tasks_of,
    worst_in_words,
    worst_of,
)

MAX_NAMED = 4
"""Maximum number of arms and metrics that a sentence names."""
MAX_FILES = 2
"""Maximum number of files that the first line names."""
MAX_FIRST = 140
"""Characters of the first line, where what it has to say can be said in so few."""


LOSSES = ("regression", "worse here")
"""Outcomes of a run that got worse."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is to be said."""

    texts: tuple[str, ...]
    """It in words, from the longest to the shortest; the shorter ones leave out what stands elsewhere, too. Empty: nothing."""
    commands: tuple[str, ...] = ()
    """The commands that show it; with one it has lines of its own."""


def headline(result: GateResult, named: int = MAX_NAMED) -> str:
    """Return the outcome in one line that starts with its word, and names at most so many arms and metrics."""
    return literal(f"{result.word}: {explanation(result, named)[0]}")


def further_lines(result: GateResult, named: int = MAX_NAMED) -> list[str]:
    """Return what does not fit into the first line, a sentence each, the weightiest first, with the command that shows it."""
    return [literal(line) for line in explanation(result, named)[1:]]


def explanation(result: GateResult, named: int = MAX_NAMED) -> list[str]:
    """Return what the outcome rests on, as the first line has it without its word, and then the lines below it."""
    first, *others = [part for part in _parts(result, named) if any(part.texts)] or [Part(("",))]
    room = MAX_FIRST - len(f"{result.word}: ")
    fitting = [text for text in first.texts if len(text) <= room] or [first.texts[-1]]
    first_line = next((text for text in fitting if _joined(text, others, room)), fitting[0])
    while joined := _joined(first_line, others, room):
        first_line, others = joined, others[1:]
    return [first_line, *(line for part in others for line in (_sentence(result, part.texts[0]), *part.commands) if line)]


def _joined(line: str, others: Sequence[Part], room: int) -> str:
    """Return the line with the next of the other parts behind it, in the longest words for which there is room; empty where there
    is none."""
    texts = others[0].texts if others and not others[0].commands else ()
    return next((joined for text in texts if len(joined := f"{line}; {text}") <= room), "")


def _sentence(result: GateResult, text: str) -> str:
    """Return the text with a full stop and a capital, unless it begins with the name of an arm."""
    begins_with_an_arm = any(text.startswith(short_arm(arm.arm)) for arm in result.arms)
    return f"{text if begins_with_an_arm else text[:1].upper() + text[1:]}."


def _parts(result: GateResult, named: int) -> list[Part]:
    """Return what is to be said, by its weight; loops that hang or crash now, and did not, stand first whatever the outcome is."""
    main_reason, *other_reasons = [*_reasons(result, named)] or [Part(())]
    tasks, lines = Part(tasks_in_words(result)), decisive(result)
    leads_with_tasks = not lines or lines[0].metric == PRIMARY
    answers, limits = [*_forbidden_answers(result)], [*_other_limits(result)]
    broken = [*_hanging_arms(result), *_new_breaks(result)]
    is_loss, is_untested = result.outcome in LOSSES, result.word == UNTESTED_LIMIT
    worst = leading_worst(result)
    shows_added_call = worst is not None and worst.metric == DOUBLED
    loss_leads = bool(lines) and lines[0].outcome != result.outcome  # the others have the outcome then
    altered = altered_in_words(result, frozenset[AlteredCause]({"added call"} if shows_added_call else ()))
    return [
        *_other_seed(result),
        *([] if is_loss else [*answers, *_files_behind(answers, result)]),
        *broken,
        *(limits if is_untested else []),
        *([tasks] if leads_with_tasks and not broken else []),
        main_reason,
        *([] if leads_with_tasks or broken else [tasks]),
        *_accuracy_beside(result, named),
        *_growth(lines[:1], result),
        *(other_reasons if loss_leads else []),
        *_worst_trial(worst, result),
        *(answers if is_loss else []),
        *([] if is_untested else limits),
        *(Part((arm.short_of_faults,)) for arm in result.arms),
        Part((result.lead,)),
        Part(() if result.common is None else (f"judged {result.common.left_out()}",)),
        Part(() if result.shared is None else (result.shared.in_words,)),
        Part((result.ended,)),
        *(Part((sentence,), _commands(command)) for sentence, command in altered),
        *([] if loss_leads else other_reasons),
        Part((claims_in_words(result),)),
        *_unrun_lines(result),
        *_unjudged_bills(result, named),
    ]


def _commands(command: str) -> tuple[str, ...]:
    """Return a command as the only one; none where it is empty."""
    return (command,) if command else ()


def leading_worst(result: GateResult) -> WorstTrial | None:
    """Return the worst trial of the metric that has the outcome and is told first; None where none is told, as of accuracy."""
    lines = [line for line in decisive(result) if line.outcome == result.outcome]
    return worst_of(result, lines[0]) if lines and result.outcome in ("regression", "undecided") else None


def _worst_trial(worst: WorstTrial | None, result: GateResult) -> Iterator[Part]:
    """Yield the worst trial of the metric that has the outcome and is told first, and what the metric means."""
    if worst is not None:
        yield Part((worst_in_words(worst, paired=result.paired),), worst.commands)


def _growth(lines: Sequence[GateLine], result: GateResult) -> Iterator[Part]:
    """Yield how much of what these amounts grew by is of trials that are solved now and were not."""
    yield from (Part((growth_in_words(growth),)) for line in lines if (growth := growth_of(result, line)) is not None)


def _hanging_arms(result: GateResult) -> Iterator[Part]:
    """Yield that whole arms hang."""
    yield from (Part((arm.hangs,)) for arm in result.arms if arm.hangs)


def _new_breaks(result: GateResult) -> Iterator[Part]:
    """Yield how many trials crash or hang now that did not, of arms that do not hang as a whole."""
    hanging = {arm.arm for arm in result.arms if arm.hangs}
    yield from map(Part, breaks([change for change in result.stops if change.arm not in hanging], _trials(result)))


def _trials(result: GateResult) -> int:
    return sum(arm.trials for arm in result.arms)


def _other_limits(result: GateResult) -> Iterator[Part]:
    """Yield what is said of default limits that are others than the blessed ones, each sentence once."""
    yield from (
        Part((sentence,)) for sentence in dict.fromkeys(text for arm in result.arms for limit in arm.limits for text in limit)
    )


def _files_behind(answers: Sequence[Part], result: GateResult) -> Iterator[Part]:
    """Yield the files whose change is likely to have changed the answers that make the run fail."""
    if answers and result.changed_files:
        yield Part((f"changed since the baseline: {_files(result.changed_files)}",))


def _unrun_lines(result: GateResult) -> Iterator[Part]:
    """Yield which changed lines no trial came to, where nothing is held against the run that would matter more."""
    if says_what_is_unrun(result):
        yield from (Part((sentence,)) for sentence in unrun_in_words(result.followed))


def says_what_is_unrun(result: GateResult) -> bool:
    """Whether it is told which changed lines no trial came to: where something is held against the run, that matters more."""
    return result.outcome in (*PASSES, "undecided")


def _unjudged_bills(result: GateResult, named: int) -> Iterator[Part]:
    """Yield which bills of a run that passes changed much, and that nothing judges them."""
    if result.outcome in PASSES:
        yield from (Part((bill,)) for bill in unjudged_in_brief(result.arms, named))


def _other_seed(result: GateResult) -> Iterator[Part]:
    """Yield that the seed alone is another, where the run did not pass; of what is held against it, that is the likely cause."""
    if result.advice.only_the_seed and result.outcome in ("regression", "undecided"):
        values = ", ".join(f"{now}, not {then}" for _, now, then in result.advice.differs)
        cause = ", which is the likely cause" if result.outcome == "regression" else ""
        in_short = f"only the seed is another ({values}){cause}"
        yield Part((f"{in_short}: code, options and model are those of the baseline", in_short))


def _forbidden_answers(result: GateResult) -> Iterator[Part]:
    """Yield how many trials have another answer and what forbids it, and then one of them; nothing where these make no run fail."""
    answers = result.other_answers
    if result.fails_for_answers and answers is not None:
        option = result.advice.option("on_other_answers", "fail")
        yield Part((f"{answers.counted}, which {option} forbids", answers.counted))
        yield Part((answers.example,), _commands(answers.command))


def _accuracy_beside(result: GateResult, named: int) -> Iterator[Part]:
    """Yield how accuracy changed in arms of a run that another metric is held against: who reads of tokens alone would not know."""
    lines = [*accuracy_not_held(result)]
    for clause, is_loss in (("accuracy fell, too", True), ("accuracy rose all the same", False)):
        if arms := [_with_tasks(result, line) for line in lines if (line.effect.value < 0) == is_loss]:
            yield Part((f"{clause}: {_first(arms, ', ', named)}",))


def _with_tasks(result: GateResult, line: GateLine) -> str:
    """Return the change of an arm's accuracy, and how many of its tasks got better and worse where trials have counterparts."""
    tasks = f" ({tasks_both_ways(result, line)})" if result.paired else ""
    return f"{short_arm(line.arm)} {effect_in_words(line)}{tasks}"


def _reasons(result: GateResult, named: int) -> Iterator[Part]:
    """Yield what the outcome itself says, the main thing first."""
    if result.reasons:
        yield from (Part((reason,)) for reason in result.reasons)
    elif result.outcome == "identical":
        yield _unchanged_behaviour(result)
    elif result.outcome in PASSES:
        improved, gained, stayed = [*_improved(result, named)], [*_gained_here(result, named)], [*_stayed(result, named)]
        in_order = {
            "pass": (improved, gained, stayed),
            "unchanged": (stayed, [*_changed_beside(result, named)], improved),
            "better here": (gained, stayed, improved),
        }
        for parts in in_order[result.outcome]:
            yield from parts
        yield from _within_margins(result, named, is_rest=bool(improved or stayed))
    elif result.outcome == "worse here":
        yield Part((losses(result, [line for line in result.lines if line.outcome == "worse here"]),))
    else:
        yield from _held_to_margins(result, decisive(result), named)


def _unchanged_behaviour(result: GateResult) -> Part:
    unscored = sum(arm.trials - arm.scored for arm in result.arms)
    without = f", {unscored:,} of them without a score on both sides" if unscored else ""
    files = f", though {_files(result.changed_files)} changed" if result.changed_files else ""
    return Part((f"behaviour unchanged in all {counted(_trials(result), 'trial')}{without}{files}",))


def _files(names: Sequence[str]) -> str:
    """Return the names of a few files, or how many there are."""
    return listed_names(list(names)) if len(names) <= MAX_FILES else counted(len(names), "file")


def _held_to_margins(result: GateResult, lines: Sequence[GateLine], named: int) -> Iterator[Part]:
    """Yield the first line that decides, why it does within its margin, and the others, those of another outcome behind its word;
    where one alone is to be named, the rows below have these."""
    if lines:
        main, *others = lines
        yield Part(_leading(result, main))
        yield Part((WITHIN if _is_within(main) else "",))
        for outcome in dict.fromkeys(line.outcome for line in others) if named > 1 else ():
            also = _first(likewise([line for line in others if line.outcome == outcome]), "; ", named - 1)
            yield Part((f"likewise {also}" if outcome == main.outcome else f"{outcome}: {also}",))


def _leading(result: GateResult, line: GateLine) -> tuple[str, ...]:
    """Return the estimate that leads, with its margin and without. Where tasks of several arms got worse, and accuracy leads, those
    of this arm stand behind it, with all of their causes and with the main one: what counts all arms has no causes then."""
    effect = f"{short_arm(line.arm)} in {line.metric} {effect_in_words(line)}"
    margin = f", margin {margin_in_words(line)}"
    lost = [change for change in result.tasks if change.became == "worse"]
    here = [change for change in lost if change.arm == line.arm]
    if line.metric != PRIMARY or not here or len(here) == len(lost) or not tasks_in_words(result):
        return f"{effect}{margin}", effect
    worse = counted(len(here), "task worse", "tasks worse")
    every, main = (f": {worse}{causes}" for causes in all_and_main(causes_of(here)))
    return tuple(dict.fromkeys(f"{effect}{text}" for text in (f"{margin}{every}", f"{margin}{main}", every, main, margin, "")))


WITHIN = "that change is within its margin, but one beyond it is not ruled out"


def _is_within(line: GateLine) -> bool:
    return line.outcome == "regression" and line.is_within


def held_to_its_margin(line: GateLine) -> str:
    """Return the change between its bounds, its margin and the number of tasks; of a regression within the margin why it is one."""
    changed = f"{effect_in_words(line)}, margin {margin_in_words(line)}, {tasks_of(line)}"
    return f"{changed}: {WITHIN}" if _is_within(line) else changed


def likewise(lines: Sequence[GateLine]) -> list[str]:
    """Return lines beside the first one that decides, with their numbers; an arm is named once, before its weightiest metric."""
    arms = list(dict.fromkeys(line.arm for line in lines))
    by_arm = ([line for line in lines if line.arm == arm] for arm in arms)
    return [
        f"{'' if place else f'{short_arm(line.arm)} '}in {line.metric} {held_to_its_margin(line)}"
        for of_arm in by_arm
        for place, line in enumerate(of_arm)
    ]


def _passing_lines(result: GateResult) -> list[GateLine]:
    """Return the lines that pass by their margins, accuracy before other metrics."""
    return sorted((line for line in result.lines if line.outcome == "pass"), key=lambda line: line.metric != PRIMARY)


def _improved(result: GateResult, named: int) -> Iterator[Part]:
    """Yield the lines that are shown to be better."""
    if lines := [_with_change(line) for line in _passing_lines(result) if is_gain(line)]:
        yield Part((f"better: {_first(lines, ', ', named)}",))


def _gained_here(result: GateResult, named: int) -> Iterator[Part]:
    """Yield how many tasks got better where none got worse, and what that leaves open of other tasks."""
    if arms := [*_gained_by_arm(result)]:
        yield Part((_first(arms, "; ", named),))


def _stayed(result: GateResult, named: int) -> Iterator[Part]:
    """Yield which values every trial has as in the baseline, and that this says nothing of other tasks.

    Where accuracy passes by its margin, that says something of them, and a value of another metric that stayed is no news.
    """
    lines = [line for line in result.lines if line.outcome == "unchanged"]
    if any(line.metric == PRIMARY for line in lines) or (lines and result.outcome == "unchanged"):
        yield Part((_same(result, lines, named),))
        yield Part(("of other tasks this says nothing",))
    elif result.paired and not result.tasks and not result.stops:
        yield Part((f"every trial {AS_IN_THE_BASELINE}",))


def _changed_beside(result: GateResult, named: int) -> Iterator[Part]:
    """Yield how many tasks of the arms that pass became better and worse, beside others that are unchanged."""
    changed = {change.arm for change in result.tasks if change.became != "other"}
    lines = [line for line in _passing_lines(result) if line.metric == PRIMARY and line.arm in changed and result.paired]
    if arms := [f"{short_arm(line.arm)} passes with {tasks_both_ways(result, line)}" for line in lines]:
        yield Part((_first(arms, "; ", named),))


def _within_margins(result: GateResult, named: int, *, is_rest: bool) -> Iterator[Part]:
    """Yield what the margins bear: changes that show nothing, losses on these tasks, and what is shown to be worse.

    `is_rest`: whether other lines were told before, which are better or stayed.
    """
    passing = _passing_lines(result)
    if here := [_with_change(line) for line in result.lines if line.outcome == "within here"]:
        yield Part((f"on these tasks within the margin: {_first(here, ', ', named)}",))
    if any(not (is_shown(line) or line.lost) for line in passing):
        all_else = "all else is " if is_rest else ""
        margins = "margins" if len(result.lines) > 1 else "margin"
        yield Part((f"{all_else}within the {margins}",))
    if lost := [line for line in passing if line.lost]:
        yield Part((f"worse here, but within the margin: {losses(result, lost)}",))
    if worse := [_with_change(line) for line in passing if is_shown(line) and line.worse and not line.lost]:
        yield Part((f"worse, but within the margin: {_first(worse, ', ', named)}",))


AS_IN_THE_BASELINE = "scored and ended as in the baseline"


def _same(result: GateResult, stayed: Sequence[GateLine], named: int) -> str:
    """Return what stayed: the scores, and of which arms where not of all, or else the values of other metrics."""
    scores = [line for line in stayed if line.metric == PRIMARY]
    if not scores:
        names = _first([f"{line.metric} of {short_arm(line.arm)}" for line in stayed], ", ", named)
        return f"every trial has the baseline's value of {names}"
    same_arms = {line.arm for line in result.lines if line.metric == PRIMARY and line.outcome in ("unchanged", "identical")}
    is_of_some = len(same_arms) < len(result.arms)
    of_arms = f" of {_first([short_arm(line.arm) for line in scores], ', ', named)}" if is_of_some else ""
    other = sum(change.arm in {line.arm for line in scores} for change in result.stops)
    if other:
        return f"every trial{of_arms} scored as in the baseline, and {counted(other, 'trial')} ended in another way"
    return f"every trial{of_arms} {AS_IN_THE_BASELINE}"


def _gained_by_arm(result: GateResult) -> Iterator[str]:
    """Yield how many tasks of an arm got better where none got worse, and what that leaves open of other tasks."""
    for line in result.lines:
        if line.outcome == "better here":
            better = sum(change.arm == line.arm and change.became == "better" for change in result.tasks)
            low, high = (number_in_words(line, bound, sign=True) for bound in (line.effect.low, line.effect.high))
            arm = f" ({short_arm(line.arm)})" if len(result.lines) > 1 else ""
            yield (
                f"{better} of {counted(line.tasks, 'task')} better, none worse{arm}; of other tasks this says nothing "
                f"(between {low} and {high})"
            )


def _with_change(line: GateLine) -> str:
    return f"{short_arm(line.arm)} in {line.metric} {effect_in_words(line)}"


def _first(items: Sequence[str], separator: str, most: int) -> str:
    return first_of(items, most, separator, "{} more")
