"""What a gate's outcome rests on, in sentences: a first line that can be read at a glance, and below it the rest by its weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopbench.metrics.gate import GateLine
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import counted
from loopbench.text.counts import Name, counts, first_of, listed

from ..changes.altered import altered_in_words
from ..changes.claims import claims_in_words
from ..changes.other_changes import unjudged_in_brief
from ..changes.unrun import unrun_in_words
from ..data.literal import literal
from ..data.names import short_arm
from ..data.outcome import PASSES, UNTESTED_LIMIT, GateResult
from .line_words import effect_in_words, is_shown, margin_in_words, number_in_words
from .stop_words import breaks

MAX_NAMED = 4
"""Maximum number of arms and metrics that a sentence names."""
MAX_FILES = 2
"""Maximum number of files that the first line names."""
MAX_FIRST = 140
"""Characters of the first line, where what it has to say can be said in so few."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is to be said."""

    texts: tuple[str, ...]
    """It in words, from the longest to the shortest; the shorter ones leave out what stands elsewhere, too. Empty: nothing."""
    command: str = ""
    """The command that shows it; with one it has lines of its own."""


def headline(result: GateResult, named: int = MAX_NAMED) -> str:
    """Return the outcome in one line that starts with its word, and names at most so many arms and metrics."""
    return literal(f"{result.word}: {explanation(result, named)[0]}")


def further_lines(result: GateResult, named: int = MAX_NAMED) -> list[str]:
    """Return what does not fit into the first line, a sentence each, the weightiest first, with the command that shows it."""
    return [literal(line) for line in explanation(result, named)[1:]]


def explanation(result: GateResult, named: int = MAX_NAMED) -> list[str]:
    """Return what the outcome rests on, as the first line has it without its word, and then the lines below it."""
    first, *rest = [part for part in _parts(result, named) if any(part.texts)] or [Part(("",))]
    room = MAX_FIRST - len(f"{result.word}: ")
    fitting = [text for text in first.texts if len(text) <= room] or [first.texts[-1]]
    said = next((text for text in fitting if _joined(text, rest, room)), fitting[0])
    while joined := _joined(said, rest, room):
        said, rest = joined, rest[1:]
    return [said, *(line for part in rest for line in (_sentence(result, part.texts[0]), part.command) if line)]


def _joined(said: str, rest: Sequence[Part], room: int) -> str:
    """Return the next part behind what is said, in the longest words for which there is room; empty where there is none."""
    texts = rest[0].texts if rest and not rest[0].command else ()
    return next((joined for text in texts if len(joined := f"{said}; {text}") <= room), "")


def _sentence(result: GateResult, text: str) -> str:
    """Return the text with a full stop and a capital, unless it begins with the name of an arm."""
    names = any(text.startswith(short_arm(arm.arm)) for arm in result.arms)
    return f"{text if names else text[:1].upper() + text[1:]}."


def _parts(result: GateResult, named: int) -> Iterator[Part]:
    """Yield what is to be said, by its weight; loops that hang or crash now, and did not, stand first whatever the outcome is."""
    limits = [Part((said,)) for said in dict.fromkeys(said for arm in result.arms for limit in arm.limits for said in limit)]
    whole = {arm.arm for arm in result.arms if arm.hangs}
    untested = result.word == UNTESTED_LIMIT
    yield from map(Part, _other_seed(result))
    lost = result.outcome in ("regression", "worse here")
    forbidden = list(_forbidden_answers(result))
    yield from [] if lost else forbidden
    if forbidden and not lost and result.changed_files:
        yield Part((f"changed since the baseline: {_files(result.changed_files)}",))
    yield from [Part((arm.hangs,)) for arm in result.arms if arm.hangs]
    broke = [change for change in result.stops if change.arm not in whole]
    broken = list(breaks(broke, sum(arm.trials for arm in result.arms)))
    yield from map(Part, broken)
    yield from limits if untested else ()
    yield Part(() if broken or whole else tasks_in_words(result))
    main, *others = [*_reason(result, named)] or [Part(())]
    yield main
    yield from forbidden if lost else []
    yield from () if untested else limits
    yield from [Part((arm.short_of_faults,)) for arm in result.arms]
    yield Part((result.lead,))
    yield Part(() if result.common is None else (f"judged {result.common.left_out()}",))
    yield Part((result.ended,))
    yield from [Part((said,), command) for said, command in altered_in_words(result)]
    yield from others
    yield Part((claims_in_words(result),))
    yield from [Part((said,)) for said in unrun_in_words(result.unrun)] if result.outcome in (*PASSES, "undecided") else []
    yield from [Part((bill,)) for bill in unjudged_in_brief(result.arms, named)] if result.outcome in PASSES else ()


def _other_seed(result: GateResult) -> Iterator[tuple[str, ...]]:
    """Yield that the seed alone is another, where the run did not pass; of what is held against it, that is the likely cause."""
    if result.advice.only_the_seed and result.outcome in ("regression", "undecided"):
        values = ", ".join(f"{now}, not {then}" for _, now, then in result.advice.differs)
        cause = ", which is the likely cause" if result.outcome == "regression" else ""
        said = f"only the seed is another ({values}){cause}"
        yield f"{said}: code, options and model are the blessed ones", said


def _forbidden_answers(result: GateResult) -> Iterator[Part]:
    """Yield how many trials have another answer and what forbids it, and then one of them; nothing where these make no run fail."""
    answers = result.other_answers
    if result.fails_for_answers and answers is not None:
        option = result.advice.option("on_other_answers", "fail")
        yield Part((f"{answers.counted}, which {option} forbids", answers.counted))
        yield Part((answers.example,), answers.command)


def tasks_in_words(result: GateResult) -> tuple[str, ...]:
    """Return how many tasks got worse, with all causes and with the main one, and how many better, where trials have counterparts
    and nothing else counts them: where accuracy decides, where both are, and where tasks only got better in a run that passes."""
    became = Counter(change.became for change in result.tasks)
    worse, better = became["worse"], became["better"]
    if not result.paired or result.outcome in ("better here", "worse here"):
        return ()
    if not worse:
        return (f"{counted(better, result.unit)} better, none worse",) if better and result.outcome in ("pass", "unchanged") else ()
    decides = result.outcome in ("regression", "undecided") and PRIMARY in {line.metric for line in _decisive(result)}
    if not better and not decides:
        return ()
    lost = counted(worse, f"{result.unit} worse", f"{result.unit}s worse")
    gained = f", {better} better" if better else ""
    main = dict([*result.causes.items()][:1])
    return tuple(dict.fromkeys(f"{lost}{_by(causes)}{gained}" for causes in (result.causes, main)))


def _decisive(result: GateResult) -> list[GateLine]:
    """Return the lines that the outcome rests on, accuracy before other metrics; what other arms rest on is said before."""
    known = [arm for arm in result.arms if not (arm.crash_alone or arm.hang_alone or arm.limit_alone or arm.hangs)]
    found = [line for arm in known for line in arm.lines if line.outcome == result.outcome]
    return sorted(found, key=lambda line: line.metric != PRIMARY)


def _reason(result: GateResult, named: int) -> Iterator[Part]:
    """Yield what the outcome itself says, the main thing first."""
    if result.reasons:
        yield from [Part((reason,)) for reason in result.reasons]
    elif result.outcome == "identical":
        unscored = sum(arm.trials - arm.scored for arm in result.arms)
        without = f", {unscored:,} of them without a score on both sides" if unscored else ""
        files = f", though {_files(result.changed_files)} changed" if result.changed_files else ""
        yield Part((f"behaviour unchanged in all {counted(sum(arm.trials for arm in result.arms), 'trial')}{without}{files}",))
    elif result.outcome in ("pass", "unchanged", "better here"):
        yield from _passed(result, named)
    elif result.outcome == "worse here":
        yield Part((losses(result, [line for line in result.lines if line.outcome == "worse here"]),))
    else:
        yield from _held(_decisive(result), named)


def _files(names: Sequence[str]) -> str:
    """Return the names of a few files, or how many there are."""
    return listed(list(names)) if len(names) <= MAX_FILES else counted(len(names), "file")


def _held(lines: Sequence[GateLine], named: int) -> Iterator[Part]:
    """Yield the first line that decides, why it does within its margin, and the others; where one alone is to be named, the rows
    below have these."""
    if lines:
        main, *others = lines
        shown = f"{short_arm(main.arm)} in {main.metric} {effect_in_words(main)}"
        yield Part((f"{shown}, margin {margin_in_words(main)}", shown))
        yield Part((WITHIN if _is_within(main) else "",))
        also = [f"{short_arm(line.arm)} in {line.metric} {held_to_its_margin(line)}" for line in others]
        yield Part((f"likewise {_first(also, '; ', named - 1)}" if also and named > 1 else "",))


WITHIN = "the loss is within the margin, but one beyond it is not ruled out"


def _is_within(line: GateLine) -> bool:
    return line.outcome == "regression" and line.is_within


def held_to_its_margin(line: GateLine) -> str:
    """Return the change beside its margin; of a regression within it also why it is one."""
    changed = f"{effect_in_words(line)}, margin {margin_in_words(line)}"
    return f"{changed}: {WITHIN}" if _is_within(line) else changed


def _passed(result: GateResult, named: int) -> Iterator[Part]:
    """Yield what holds of the lines that pass: what stayed, where the outcome is that, what is better, what the margins bear."""
    stayed = [line for line in result.lines if line.outcome == "unchanged"]
    passed = sorted((line for line in result.lines if line.outcome == "pass"), key=lambda line: line.metric != PRIMARY)
    better = [_with_change(line) for line in passed if is_shown(line) and line.better]
    gained = list(_gained(result))
    of_gained = [Part((_first(gained, "; ", named),))] if gained else []
    of_stayed = [Part(_same(result, stayed, named)), Part(("of other tasks this says nothing",))] if stayed else []
    of_better = [Part((f"better: {_first(better, ', ', named)}",))] if better else []
    if result.outcome == "pass":  # what the headline's word says stands first
        yield from (*of_better, *of_gained, *of_stayed)
    elif result.outcome == "unchanged":
        yield from (*of_stayed, *of_gained, *of_better)
    else:
        yield from (*of_gained, *of_stayed, *of_better)
    if held := [_with_change(line) for line in result.lines if line.outcome == "within here"]:
        yield Part((f"on these tasks within the margin: {_first(held, ', ', named)}",))
    if any(not (is_shown(line) or line.lost) for line in passed):
        all_else = "all else is " if better or stayed else ""
        margins = "margins" if len(result.lines) > 1 else "margin"
        yield Part((f"{all_else}within the {margins}",))
    if lost := [line for line in passed if line.lost]:
        yield Part((f"worse here, but within the margin: {losses(result, lost)}",))
    if worse := [_with_change(line) for line in passed if is_shown(line) and line.worse and not line.lost]:
        yield Part((f"worse, but within the margin: {_first(worse, ', ', named)}",))


def _same(result: GateResult, stayed: Sequence[GateLine], named: int) -> tuple[str, ...]:
    """Return what stayed, and of which arms and metrics where not of all; in short without these where all scores did."""
    names = _first([f"{short_arm(line.arm)} in {line.metric}" for line in stayed], ", ", named)
    scores = [line for line in stayed if line.metric == PRIMARY]
    if not scores:
        return (f"every trial has the baseline's value of {names}",)
    said = f"every trial has {_stayed(result, stayed)}"
    whole = f"{said} ({names})" if len(stayed) < len(result.lines) else said
    return (whole, said) if len(scores) == len(result.arms) else (whole,)


def _gained(result: GateResult) -> Iterator[str]:
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


def losses(result: GateResult, lines: Iterable[GateLine]) -> str:
    """Return `2 tasks lost, none gained (altered answer 2)` of the arms of these lines; with the arms where others gained."""
    arms = list(dict.fromkeys(line.arm for line in lines))
    lost = [change for change in result.tasks if change.arm in arms and change.became == "worse"]
    causes = Counter(change.cause for change in lost if change.cause is not None)
    others_gained = any(change.became == "better" for change in result.tasks)
    where = f" in {listed([short_arm(arm) for arm in arms])}" if others_gained else ""
    unit = "task" if len(arms) == 1 else result.unit
    return f"{counted(len(lost), unit)} lost, none gained{where}{_by(causes)}"


def _with_change(line: GateLine) -> str:
    return f"{short_arm(line.arm)} in {line.metric} {effect_in_words(line)}"


def _stayed(result: GateResult, stayed: Sequence[GateLine]) -> str:
    arms = {line.arm for line in stayed if line.metric == PRIMARY}
    other = sum(change.arm in arms for change in result.stops)
    if other:
        return f"the score of the baseline, and {counted(other, 'trial has', 'trials have')} another stop"
    return "the score and stop of the baseline"


def _first(items: Sequence[str], separator: str, most: int) -> str:
    return first_of(items, most, separator, "{} more")


def _by(causes: Mapping[Name, int]) -> str:
    return f" ({counts(causes)})" if causes else ""
