"""Why trials were lost, as a document: causes by arm, with how many solved trials show the same, examples, and what may help."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from whichloop.experiments.compare.measured_forms import applies
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import table_of
from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.caveats import reasons
from whichloop.metrics.record import Record
from whichloop.metrics.tasks import GroupFindings, TaskFinding
from whichloop.metrics.trajectory.causes import MEANINGS, Cause
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.built_in import builtin_names
from whichloop.runs.manifest import Settings
from whichloop.runs.registry import is_generated
from whichloop.text.doc import UNKNOWN, Cell, Doc, Lines, Table, lines_of
from whichloop.text.numbers import counts, interval, p_value

from .losses import ArmLosses, LostTrial, PairLosses, Why
from .replay import MinimalFaults
from .trial import show_command

MAX_ACROSS = 6
"""Arms that stand side by side, below each other their causes; of more each has a row."""
MAX_EXAMPLES = 2
"""Causes of which a terminal shows an example without -v, those that lost most."""
MAX_TASKS = 40
"""Notable tasks of a group in its table; the data have all."""
READING = "trials lost to a cause (share of solved trials that show it too); ?: not shown to be a cause"
UNDISTURBED = ("clean", IMPORTED)
"""Profiles under which no fault can be why nobody solved a task."""

FACTORS: Mapping[str, Mapping[Cause, tuple[str, ...]]] = {
    "bare": {
        "parse": ("max_consecutive_errors=3,6", "keep_bad_replies=true,false"),
        "tool argument": ("max_consecutive_errors=3,6", "check_types=false,true"),
        "fault not recovered": ("max_consecutive_errors=3,6", "on_provider_error=stop,observe"),
    },
    "finish": {
        "parse": ("parse_retries=2,5",),
        "tool argument": ("list_tools_in_error=false,true",),
        "termination": ("forced_finish=both,off",),
    },
    "phased": {
        "fault not recovered": ("max_rounds=5,8", "failed_dependency=run,skip,fail"),
        "tool argument": ("max_rounds=5,8",),
        "termination": ("max_rounds=5,8", "failed_dependency=run,skip,fail"),
    },
    "react_extract": {
        "parse": ("on_parse_error=finish,observe", "parse_retries=0,2"),
        "termination": ("tell_extract=false,true",),
    },
    "stateless": {
        "tool argument": ("constrain_names=false,true",),
        "fault not recovered": ("max_recovery_rounds=2,4", "enable_error_recovery=true,false"),
        "lost observation": ("max_history_length=10,none", "history_as=prose,messages"),
    },
}
"""Loop → cause of a loss → factors of an ablation, each an option with its default first. Step limits are the suite's."""

FENCES = "fences=refuse,read"
"""The option that reads replies in a code fence, its default first."""
GUARD = "guarded"
"""The loop that puts defences around another one."""
GUARDS = ("results=marked,plain", "tools=all,needed", "writes=free,confirmed")
"""Factors of the defences against instructions in results, which can be put around any loop, each with its default first."""


def why_doc(run: Results, why: Why, *, named: bool = False) -> Doc:
    """Return the losses of a run. `named`: two arms were asked for, so that where they part is no detail."""
    infos = {arm.info.arm: arm.info for arm in run.comparison.arms}
    explained = any(arm.causes for arm in why.arms)
    causes = dict.fromkeys((cause, infos[arm.arm].subject) for arm in why.arms for cause in arm.causes)
    meanings = [(cause, MEANINGS[cause].replace("the loop", f"the {subject}")) for cause, subject in causes]
    base_rates = [row for arm in why.arms for row in _base_rates(arm)]
    strangers = [arm.arm for arm in why.arms if arm.lost and not applies(infos[arm.arm])]
    main, more = _examples(run, [] if named else why.arms)
    found: list[Table | Lines] = [
        lines_of(("Warning", f"measured of another form of calls: {', '.join(strangers)}" if strangers else "")),
        *_cause_tables(why.arms, infos),
        lines_of(
            ("Read", READING if base_rates else ""),
            ("Lost", "" if any(arm.lost for arm in why.arms) else "none"),
            *_untraced(why),
        ),
        *_pairs(run, why.pairs, detail=not named and len(why.pairs) != 1),
        main,
        more,
        lines_of(("Next", _remedy(run, why.arms, infos))),
        Table(
            "Lost trials, and solved ones that show the same",
            ("arm", "cause", "lost", "solved", "p", "as a cause", "kinds of fault"),
            tuple(base_rates),
            detail=True,
        ),
        Table("Causes", ("cause", "means"), tuple(meanings), detail=True),
        *(table for group in why.findings for table in task_tables(group, detail=explained)),
    ]
    return Doc(run.title, tuple(found), {"run": str(run.folder.resolve())} | why.to_json())


def _cause_tables(arms: Sequence[ArmLosses], infos: Mapping[str, ArmInfo]) -> Iterator[Table]:
    """Yield a table of causes and arms for each suite and profile."""
    for (suite, profile), members in groupby(arms, key=lambda arm: (infos[arm.arm].suite, infos[arm.arm].profile)):
        group = list(members)
        total = sum((Counter(arm.causes) for arm in group), Counter[Cause]())
        is_across = len(group) <= MAX_ACROSS
        lines: list[tuple[Cell | str, ...]] = [
            ("cause" if is_across else infos[group[0].arm].subject, *(infos[arm.arm].without_profile for arm in group)),
            ("lost", *(Cell(f"{arm.lost} of {arm.trials}", value=arm.lost) for arm in group)),
            *((cause, *(_count(arm, cause) for arm in group)) for cause, _ in total.most_common()),
        ]
        head, *rows = lines if is_across else zip(*lines, strict=True)
        if any(arm.trials for arm in group):
            yield Table(f"{suite}, {profile}", tuple(map(str, head)), tuple(rows))


def _count(arm: ArmLosses, cause: Cause) -> Cell:
    """Return `9 (3 %)`, trials lost to a cause and the share of solved trials that show it; marked if it is not shown to be one."""
    many, rate = arm.causes.get(cause, 0), arm.base_rates.get(cause)
    solved = "" if rate is None else f" ({100 * rate.solved / rate.of_solved:.0f} %)"
    doubt = "" if not many or arm.stands(cause) else "?"
    return Cell(f"{many}{doubt}{solved}", "dim" if doubt or not many else "", many)


def _base_rates(arm: ArmLosses) -> Iterator[tuple[Cell | str, ...]]:
    for cause, many in arm.causes.items():
        rate = arm.base_rates.get(cause)
        kinds = counts({kind or UNKNOWN: number for kind, number in arm.kinds[cause].items()})
        told = (
            [f"{rate.solved} of {rate.of_solved}{' (sample)' if rate.is_sample else ''}", p_value(rate.p)]
            if rate
            else [UNKNOWN] * 2
        )
        stands = UNKNOWN if rate is None else "stands" if arm.stands(cause) else "not shown"
        yield (arm.arm, cause, f"{many} of {sum(arm.causes.values())}", *told, stands, kinds)


def _untraced(why: Why) -> Iterator[tuple[str, str | Sequence[str]]]:
    """Yield what is known of lost trials without a trace, and of errored ones."""
    if why.untraced:
        yield "Untraced", f"{why.untraced} lost trials: the step is not known"
        yield (
            "Ended",
            [f"{arm.arm}: {reasons({how or UNKNOWN: n for how, n in arm.ended.items()}, 5)}" for arm in why.arms if arm.ended],
        )
    yield "Errored", [f"{arm.arm}: {sum(arm.errored.values())} ({reasons(arm.errored)})" for arm in why.arms if arm.errored]


def _examples(run: Results, arms: Sequence[ArmLosses]) -> tuple[Lines, Lines]:
    """Return an example of each cause with the command that shows it: those of the frequent causes, and the others, a detail."""
    told = [
        (
            (cause, f"step {one.step}: {one.detail}"),
            ("show", show_command(run.folder, f"{arm.arm}/{one.task}/{one.repeat}")),
        )
        for cause in _by_frequency(arms)
        if (found := example_of(cause, arms)) is not None
        for arm, one in [found]
    ]
    parts = [Lines(tuple(line for lines in part for line in lines)) for part in (told[:MAX_EXAMPLES], told[MAX_EXAMPLES:])]
    return parts[0], Lines(parts[1].items, detail=True)


def _by_frequency(arms: Sequence[ArmLosses]) -> list[Cause]:
    """Return the causes by trials, those first that stand in any arm."""
    total = Counter[Cause]()
    for arm in arms:
        total.update(arm.causes)
    return sorted(total, key=lambda cause: (not any(arm.stands(cause) for arm in arms), -total[cause], cause))


def example_of(cause: Cause, arms: Sequence[ArmLosses]) -> tuple[ArmLosses, LostTrial] | None:
    """Return the example of a cause that tells most: of an arm in which it stands, solved by others, of the arm that lost most."""
    having = [arm for arm in arms if arm.stands(cause)] or [arm for arm in arms if cause in arm.causes]
    kinds = Counter[str]()
    for arm in having:
        kinds.update(arm.kinds[cause])
    main = max(kinds, key=lambda kind: (kinds[kind], kind), default="")
    examples = [(arm, one) for arm in having for one in arm.examples if one.cause == cause]
    return max(examples, key=lambda each: (each[1].solved_by > 0, each[0].lost, each[1].fault == main), default=None)


def _remedy(run: Results, arms: Sequence[ArmLosses], infos: Mapping[str, ArmInfo]) -> str:
    """Return the command that measures what may help against the most frequent cause for which an option is known."""
    for cause in _by_frequency(arms):
        for arm in sorted((arm for arm in arms if arm.stands(cause)), key=lambda arm: -arm.causes[cause]):
            if command := ablation_of(infos[arm.arm], cause, run.manifest.settings, next(iter(arm.kinds[cause]))):
                return command
    return ""


def ablation_of(arm: ArmInfo, cause: Cause, settings: Settings, fault: str = "") -> str:
    """Return the command that varies the options of an arm's loop that concern a cause; empty where none is known to.

    `fault`: the kind that most of these losses came from; of replies in a code fence only the option concerns that reads them, and
    no option helps a model that is weak in what prompts teach, such as units.
    Instructions that were obeyed concern no option of a loop, but those of the defences that can be put around any.
    Only of arms with the scripted model and a generated suite, and with the loop's defaults: for those a command says it all.
    """
    subject, factors = arm.loop, FACTORS.get(arm.loop, {}).get(cause, ())
    if cause == "obeyed instruction" and arm.loop in builtin_names("loop"):
        subject, factors = f"{GUARD}(loop={arm.loop})", GUARDS
    if cause == "parse" and fault == "wire.fenced" and arm.loop == "bare":
        factors = (FENCES,)
    is_known = arm.model == SCRIPTED and is_generated(settings.suite.partition("(")[0]) and not arm.options
    if fault.startswith("weakness.") or not factors or not is_known:
        return ""
    varied = [word for factor in factors for word in ("--vary", factor)]
    return shlex.join(["whichloop", "compare", "--loop", subject, *varied, "--suite", settings.suite, "--profile", arm.profile])


# --- pairs and tasks ---


def _pairs(run: Results, pairs: Sequence[PairLosses], *, detail: bool) -> Iterator[Table | Lines]:
    """Yield how many trials two arms solved, both or one of them, and what each lost that the other solved."""
    rows = [
        (pair.a, pair.b, *(str(getattr(pair, name)) for name in ("both", "only_a", "only_b", "neither", "tasks"))) for pair in pairs
    ]
    yield Table("Solved trials of two arms", ("a", "b", "both", "only a", "only b", "neither", "tasks"), tuple(rows), detail)
    causes = [
        (loser, winner, cause, many)
        for pair in pairs
        for loser, winner in ((pair.a, pair.b), (pair.b, pair.a))
        for cause, many in pair.causes[loser].items()
    ]
    lost = tuple((loser, winner, cause, Cell(str(many), value=many)) for loser, winner, cause, many in causes)
    yield Table("Lost where the other arm solved", ("lost by", "solved by", "cause", "trials"), lost, detail)
    first = {(each.winner, each.loser, each.cause): each for pair in pairs for each in reversed(pair.divergences)}
    told = [
        line
        for each in (first[winner, loser, cause] for loser, winner, cause, _ in causes)
        for line in (
            (each.cause, f"step {each.step}, they part at {each.parts_at}: {each.detail}"),
            ("show", show_command(run.folder, f"{each.loser}/{each.task}/{each.repeat}")),
        )
    ]
    yield Lines(tuple(told) if not detail else (), detail)


def task_tables(group: GroupFindings, *, detail: bool) -> Iterator[Table]:
    """Yield the notable tasks of a suite under a profile, and what each arm does in all of its tasks."""
    arms = [arm.arm for arm in group.arms]
    rows = tuple(_task(task, arms, group.profile) for task in group.notable[:MAX_TASKS])
    where = f"{group.suite}, {group.profile}"
    names = [arm.removesuffix(f"/{group.profile}") for arm in arms]
    title = f"Tasks worth a look, {where}: {len(rows)} of {len(group.notable)}"
    notable = table_of(title, ("task", "is", *names, "false success", "wasted steps", "repeated calls"), rows)
    yield notable if detail else replace(notable, detail=False)
    habits = tuple(
        (
            arm.removesuffix(f"/{group.profile}"),
            *(interval(one.false_success, 3), interval(one.wasted_steps, 2), interval(one.repeated_calls, 2)),
            str(len(one.flaky)) if group.repeats > 1 else UNKNOWN,
            str(len(one.alone)) if len(arms) > 1 else UNKNOWN,
        )
        for arm, one in zip(arms, group.arms, strict=True)
    )
    columns = ("arm", "false success", "wasted steps", "repeated calls", "flaky tasks", "solved alone")
    yield table_of(f"Means per trial, {where}: {group.tasks} tasks, repeats {group.repeats}", columns, habits)


def _task(task: TaskFinding, arms: Sequence[str], profile: str) -> tuple[str, ...]:
    kinds = ["unsolved (expected answer?)" if kind == "unsolved" and profile in UNDISTURBED else kind for kind in task.kinds]
    solved = ("{} of {}".format(*task.solved[arm]) if arm in task.solved else UNKNOWN for arm in arms)
    wasted = UNKNOWN if task.wasted_steps is None else f"{task.wasted_steps:.1f}"
    claimed, repeated = (UNKNOWN if each is None else str(each) for each in (task.false_success, task.repeated_calls))
    return task.task, ", ".join(kinds), *solved, claimed, wasted, repeated


# --- one trial ---


def minimal_doc(folder: Path, record: Record, minimal: MinimalFaults, again: str) -> Doc:
    """Return the smallest set of faults with which a trial is lost. `again`: the command that runs it so."""
    proof = "proven: no smaller set loses it" if minimal.smallest else "not proven: no more runs were allowed"
    faults = ("Faults", list(minimal.faults) or "none: it is lost without any fault, too")
    landed = ("Of", f"{len(minimal.landed)} that landed")
    lines = lines_of(faults, landed, ("Smallest", proof), ("Runs", str(minimal.runs)), ("Next", again))
    return Doc(record.name, (lines,), {"run": str(folder.resolve())} | minimal.to_json())
