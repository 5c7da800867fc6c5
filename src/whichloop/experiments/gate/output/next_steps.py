"""What to do next about a gate's outcome, by the case: never a step that does not follow from what differs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from whichloop.experiments.gate.changes.traced_trials import ALTERED
from whichloop.experiments.gate.data.advice import DRAWS, Advice, Larger
from whichloop.experiments.gate.data.findings import SharedRepeats
from whichloop.experiments.gate.data.outcome import PASSES, GateResult, OnWorseHere
from whichloop.metrics.gate import MORE
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.numbers import chance_in_words, dollars_text, listed_names

from .line_words import decisive
from .sentences import further_lines, headline

LET_THROUGH = {"worse here": "on_worse_here", "undecided": "on_undecided"}
"""Outcome that is open → the setting that lets it through."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing that can be done next."""

    say: str
    """A sentence, which ends in a colon where commands follow; empty for a command that explains itself."""
    commands: tuple[str, ...] = ()
    in_short: str = ""
    """The same in one line for a CI server, where it is another."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentence and its commands."""
        return tuple(filter(None, (self.say, *self.commands)))

    @property
    def brief(self) -> str:
        """The step in one line."""
        return self.in_short or " ".join(self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"say": self.say, "commands": list(self.commands)}


def let_through(result: GateResult, on_worse_here: OnWorseHere, on_undecided: str) -> GateResult:
    """Return the result with what lets it count as a pass, where that is so: losses here, or what is undecided."""
    held = result.held_as(on_worse_here)
    by = [result.advice.option("on_worse_here", "pass")] if held != result.outcome else []
    if held == "undecided":
        by = [*by, result.advice.option("on_undecided", "pass")] if on_undecided == "pass" else []
    return replace(result, advice=replace(result.advice, let_through=listed_names(by)))


def next_steps(result: GateResult) -> list[NextStep]:
    """Return what can be done, the most useful first."""
    if result.outcome in PASSES:
        return list(_after_a_pass(result))
    if result.outcome in ("regression", "worse here"):
        return [_after_a_loss(result)]
    if result.outcome == "invalid":
        return [_commanded("Nothing was judged. Mend what the first line names, then gate again", result.advice.again)]
    return list(_where_open(result)) if result.outcome == "undecided" else []


def to_json(result: GateResult) -> dict[str, Any]:
    """Return the object that `gate --json` prints: the result, what it rests on in sentences, and what can be done next."""
    first_lines = [headline(result), *further_lines(result)]
    return result.to_json() | {"said": first_lines, "next": [step.to_json() for step in next_steps(result)]}


def more_steps(result: GateResult) -> list[NextStep]:
    """Return what there is to know besides, for the long form: the size that would show more, and what lets the run through."""
    steps, larger = [], result.advice.larger
    if larger is not None and (result.outcome == "worse here" or result.advice.differs):
        steps.append(_larger_baseline(result, larger))
    is_said = larger is not None and larger.out_of_proportion
    if not is_said and result.outcome in LET_THROUGH and result.advice.asker == "shell" and not result.advice.let_through:
        steps.append(NextStep(f"{_let_by_flags(result)} it through all the same."))
    return steps


def _let_by_flags(result: GateResult) -> str:
    """Return which flags let through what is open, with their verb: `--on-undecided pass lets`."""
    outcomes = {line.outcome for line in result.lines}
    flags = [result.advice.option(name, "pass") for outcome, name in LET_THROUGH.items() if outcome in outcomes]
    return f"{listed_names(flags)} {'let' if len(flags) > 1 else 'lets'}"


def _after_a_loss(result: GateResult) -> NextStep:
    if result.advice.only_the_seed:
        return _same_draws(result)
    lines = decisive(result)
    arms = {line.arm for line in lines}
    fell = any(line.metric == PRIMARY and line.arm in arms and line.effect.value < 0 for line in result.lines)
    meant = "the loss" if fell or not lines else f"the {'rise' if lines[0].may_rise else 'fall'} in {lines[0].metric}"
    if not result.bless:
        return NextStep(f"{_mend(result)}{_why_not_bless(result)}.")
    fix = "Find what else changed" if result.advice.other_cause else _mend(result)
    if through := result.advice.let_through:
        accepted = f"Let through by {through}. Bless the run if {meant} is meant"
        return NextStep(f"{accepted}:", (result.bless,), f"{accepted}.")
    let = ""
    if result.outcome == "worse here" and result.advice.asker == "test":
        let = f", or let it through with {result.advice.option(LET_THROUGH[result.outcome], 'pass')}"
    return NextStep(
        f"{fix}{let}, or bless the run if {meant} is meant:",
        (result.bless,),
        f"{fix}{let}, or, if {meant} is meant: {result.bless}",
    )


def _mend(result: GateResult) -> str:
    """Return what mends a loss: of an imported run the agent itself, since whichloop has no loop of it."""
    return "Fix the agent and import its new results" if result.advice.imported else "Fix the loop"


def _why_not_bless(result: GateResult) -> str:
    """Return, to stand behind what mends it, why no command that blesses the run is offered."""
    if any(arm.short_of_faults for arm in result.arms):
        return "; a run in which so few of the scheduled faults land cannot be blessed"
    if any(arm.hangs for arm in result.arms):
        return "; a run that ended since a loop hangs cannot be blessed"
    ends = [
        name
        for name, occurs in (
            ("a new error" if result.advice.imported else "a new crash", any(change.crashed for change in result.stops)),
            ("a new hang", any(change.hangs for change in result.stops)),
        )
        if occurs
    ]
    if ends and sum(change.broke for change in result.stops) < sum(arm.trials for arm in result.arms):
        return f"; a run with {' and '.join(ends)} is not offered as a baseline"
    return (
        f"; a run in which every trial {'ended with an error' if result.advice.imported else 'crashes or hangs'} cannot be blessed"
    )


def _where_open(result: GateResult) -> Iterator[NextStep]:
    advice = result.advice
    if result.fails_for_answers:
        yield _after_other_answers(result)
    if advice.let_through:
        yield NextStep(f"Let through by {advice.let_through}.")
    if any(arm.limit_alone for arm in result.arms):
        fails = ", which fails until it is tested or blessed" if advice.asker == "shell" and not advice.let_through else ""
        gate = "; this gate tests it" if advice.limited else ""
        yield _commanded(f"No trial ran under the new default limit{fails}{gate}", advice.limited)
        if advice.limits_compared:
            sentence = "That holds it to the limit that the comparison set, under which the baseline ran; this, to the old default"
            yield _commanded(sentence, advice.limits_compared)
        if result.bless:
            yield NextStep("", (f"{result.bless} # if the new limit is meant",))
    if advice.other_cause:
        yield NextStep("Find what else changed than the loop's code; more tasks would not tell.")
    larger = advice.larger
    if result.shared is not None and result.shared.fewer_in_run:
        yield _all_repeats(advice, result.shared)
    if advice.differs:
        yield _same_draws(result)
        if larger is not None and not larger.out_of_proportion:
            how = " (-v has the commands)." if advice.asker == "shell" else f". {larger.supply}".rstrip()
            yield NextStep(f"Or {_decides(larger)}{how}")
    elif larger is not None:
        yield _larger_baseline(result, larger)
    is_said = larger is not None and larger.out_of_proportion and not advice.differs
    if advice.asker == "test" and larger is not None and not is_said and not advice.let_through:
        skip, passed = (advice.option("on_undecided", how) for how in ("skip", "pass"))
        yield NextStep(f"Where it is undecided, {skip} in the test skips it, and {passed} lets it pass.")


def _same_draws(result: GateResult) -> NextStep:
    """Return the step to the baseline's own seed and repeats, under which every trial has its counterpart."""
    advice = result.advice
    names = listed_names([DRAWS[name] for name, _, _ in advice.differs])
    values = ", ".join(f"{now}, not {then}" for _, now, then in advice.differs)
    as_blessed = listed_names([advice.option(name, then) for name, _, then in advice.differs])
    under = f"Under the baseline's own {names}" if advice.asker == "shell" else f"With {as_blessed}, as in the baseline,"
    if advice.only_the_seed:
        sentence = f"The loop is the one of the baseline, and only the seed is another ({values}): there is nothing to bless."
        return _commanded(f"{sentence} {under} a change is judged trial by trial", advice.paired)
    differ = "differs" if len(advice.differs) == 1 else "differ"
    is_other_seed = any(name == "seed" for name, _, _ in advice.differs)
    therefore = "other faults struck" if is_other_seed else "tasks are compared by the means of their trials"
    sentence = f"The {names} {differ} from the baseline's ({values}): {therefore}."
    return _commanded(f"{sentence} {under} each trial has its counterpart, which shows what the change did", advice.paired)


def _all_repeats(advice: Advice, shared: SharedRepeats) -> NextStep:
    """Return the step to the baseline's own number of repeats, by which all of its trials are compared."""
    repeats = advice.option("repeats", shared.baseline)
    under = f"Without {advice.option('repeats', shared.run)}" if advice.asker == "shell" else f"With {repeats}, as in the baseline,"
    return _commanded(f"{under} all {shared.baseline} repeats of the baseline are compared", advice.paired)


def _commanded(say: str, command: tuple[str, ...]) -> NextStep:
    return NextStep(f"{say}:", (shlex.join(command),), f"{say}.") if command else NextStep(f"{say}.")


def _decides(larger: Larger) -> str:
    cost = "" if larger.cost_usd is None else f" (about ${dollars_text(larger.cost_usd)} a run)"
    chance = f"decides it with a chance of about {chance_in_words(larger.chance)}"
    return f"a baseline of {counted(larger.tasks, 'task')}{cost} {chance}{'' if larger.whole else ', though not all of it'}"


def _out_of_proportion(result: GateResult, larger: Larger) -> NextStep:
    """Return that so small a difference is not for a suite of so few tasks, and what can be done, in one line."""
    takes = f"that takes about {larger.tasks:,} tasks{'' if larger.whole else ', and leaves some of it open'}"
    no_number = "no feasible number of tasks is likely to"
    few = f"So small a difference cannot be decided by this suite of {counted(larger.ran, 'task')}"
    accept, advice = "", result.advice
    if advice.asker == "shell" and not advice.let_through:
        accept = f"{_let_by_flags(result)} it through as it is."
    elif advice.asker == "test" and not advice.let_through and not advice.differs and result.outcome == "undecided":
        accept = (
            f"{advice.option('on_undecided', 'skip')} in the test skips it, {advice.option('on_undecided', 'pass')} lets it pass."
        )
    margin = "A wider margin, to be set before a run and not after, decides it sooner."
    return NextStep(" ".join(filter(None, (f"{few}: {takes if larger.tasks else no_number}.", larger.repeats, margin, accept))))


def _larger_baseline(result: GateResult, larger: Larger) -> NextStep:
    """Return how to make a baseline that is likely to decide what is open, or what can be done where none is to be made."""
    advice = result.advice
    if larger.out_of_proportion:
        return _out_of_proportion(result, larger)
    what_decides = f"{_decides(larger)}."
    what_decides = f"{what_decides[0].upper()}{what_decides[1:]}"
    supply, commands = larger.supply, [larger.compare, advice.bless_latest, advice.again]
    if advice.asker == "test":
        sized = f'Write suite={json.dumps(larger.suite)} in the test, without "tasks".'
        supply, commands = larger.supply or (sized if larger.suite else ""), [advice.bless_latest, advice.again]
    elif not larger.compare or not advice.again:
        over = "Import results of both over as many" if larger.imported else "Run the loop as it was over as many"
        return NextStep(f"{what_decides} {over}, bless the old ones, and gate again.", (), what_decides)
    more = " ".join(filter(None, [larger.repeats, supply, "Bless with the loop as it was, then gate the changed one:"]))
    return NextStep(f"{what_decides} {more}", tuple(map(shlex.join, commands)), what_decides)


def _after_a_pass(result: GateResult) -> Iterator[NextStep]:
    if result.fails_for_answers:
        yield _after_other_answers(result)
    elif result.bless:
        yield NextStep("", (f"{result.bless} # {_why_bless(result)}",))
    if unjudged := list(dict.fromkeys(metric for arm in result.arms for metric in arm.unjudged)):
        yield NextStep(f"{result.advice.judging(unjudged, MORE)} has the gate judge {listed_names(unjudged)}, too.")
    if result.advice.unseen:
        yield not_met(result.advice)


def _after_other_answers(result: GateResult) -> NextStep:
    """Return what to do about answers that fail a run since they are others than the blessed ones."""
    step = f"{_mend(result)}, or bless the run if the other answers are meant"
    return NextStep(f"{step}:", (result.bless,), f"{step}: {result.bless}") if result.bless else NextStep(f"{step}.")


def _why_bless(result: GateResult) -> str:
    """Return when a run that passes is to be blessed: one whose loop altered calls or answers is no better one for that."""
    if result.altered:
        did = listed_names([ALTERED[cause] for cause in dict.fromkeys(altered.cause for altered in result.altered)])
        return f"only if it is meant that the loop {did}"
    if result.common is not None:
        return "soon: the tasks that changed are not judged"
    return "to hold later changes to this run" if result.other_answers is None else "only if the other answers are meant"


def not_met(advice: Advice) -> NextStep:
    """Return which faults never struck, and what would have them."""
    what = listed_names([what for what, _ in advice.unseen])
    profiles = [advice.option("profile", profile) for profile in dict.fromkeys(profile for _, profile in advice.unseen)]
    return NextStep(f"In this run {what}; a baseline that is blessed with {listed_names(profiles)}, too, has the gate judge that.")
