"""What a search did, to read: a row for each program that it tried, and how the prompts that it kept differ from the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whichloop.experiments.compare.prepare import can_be_told, kept_words
from whichloop.protocol.names import SCRIPTED, Spec
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted, one_line
from whichloop.runs.folders import run_name
from whichloop.text.doc import Table

from .program_text import NamedProgram, PredictorDiff, ProgramDiff, program_diff
from .result import DesignResult, OptimizationResult
from .tried import TriedProgram, kept_program, solved

UNKNOWN = "–"
MAX_SHOWN = 300
"""Characters of a program's new instructions that a table shows; the whole text is in the design's `candidates.json`."""
OTHER_ROLLOUTS = "(rollouts of programs that do not count as tried: steps within the optimizer, and what the budget cut off)"
COLUMNS = ("design", "program", "kept", "solved on dev", "solved on train", "rollouts", "LM calls", "what is new in it")


def programs_table(result: OptimizationResult) -> Table:
    """Return a row for each program that a search tried, and one for its other rollouts; no rows while none is done."""
    rows = tuple(row for design in result.designs for row in _rows(design))
    return Table("Programs that each search tried; a score of a part of the tasks is not that of all of them", COLUMNS, rows)


def _rows(design: DesignResult) -> Iterator[tuple[str, ...]]:
    for program in design.tried:
        yield _row(design, program)
    other = design.other_rollouts
    if other.trials:
        empty = (UNKNOWN, "", UNKNOWN, UNKNOWN)
        yield design.design, *empty, str(other.trials), str(other.calls), OTHER_ROLLOUTS


def _row(design: DesignResult, program: TriedProgram) -> tuple[str, ...]:
    candidate, tasks = program.candidate, program.tasks
    return (
        design.design,
        str(program.number),
        "kept" if program.is_kept else "",
        _score(candidate.dev, tasks.dev),
        _score(candidate.train, tasks.train),
        str(program.spent.trials),
        str(program.spent.calls),
        _news(design.tried[0], program),
    )


def _score(scores: Mapping[str, float], tasks: int) -> str:
    """Return `8 of 12`, or `8 of 8, 4 not run` where not all tasks were run."""
    if not scores:
        return UNKNOWN
    missing = f", {tasks - len(scores)} not run" if len(scores) < tasks else ""
    return f"{solved(scores):g} of {len(scores)}{missing}"


def _news(initial: TriedProgram, program: TriedProgram) -> str:
    """Return what a program has that the design's own one has not."""
    if program.number == initial.number:
        return "(the design's own)"
    diff = _diff(initial, program)
    news = " · ".join(filter(None, map(_news_of, diff.predictors))) or "(nothing)"
    return news if len(news) <= MAX_SHOWN else f"{news[:MAX_SHOWN]}…"


def _news_of(predictor: PredictorDiff) -> str:
    added = [line[1:] for line in predictor.instructions if line.startswith("+") and line[1:].strip()]
    removed = sum(line.startswith("-") for line in predictor.instructions)
    parts = [
        *([one_line(" ".join(added))] if added else []),
        *([f"{counted(removed, 'line')} of the old instructions gone"] if removed else []),
        *([counted(len(predictor.added), "new demonstration")] if predictor.added else []),
    ]
    return f"{predictor.name}: {', '.join(parts)}" if parts else ""


def kept_diff(design: DesignResult) -> ProgramDiff | None:
    """Return how the prompts that a search kept differ from the old ones; None if its programs are not known."""
    final = kept_program(design.tried)
    return None if final is None else _diff(design.tried[0], final)


def _diff(initial: TriedProgram, program: TriedProgram) -> ProgramDiff:
    """Return how a program differs from the design's own, without secrets."""
    return program_diff(_named(initial, "old prompts"), _named(program, f"program {program.number}"))


def _named(program: TriedProgram, name: str) -> NamedProgram:
    prompts = program.candidate.program
    return NamedProgram(name, {each: replace(prompt, instructions=redact(prompt.instructions)) for each, prompt in prompts.items()})


def comparing_words(result: OptimizationResult, design: DesignResult) -> Sequence[str]:
    """Return the words of a command that compares a design's old and new prompts on the test tasks again, as the test did.

    It is typed where the search was begun. None without a program, or where a command does not say all of the settings.
    """
    config = result.manifest.config["compare"]
    entry = next((entry for entry in result.manifest.designs if entry.design == design.design), None)
    if entry is None or design.program is None or not can_be_told(config):
        return ()
    settings = result.manifest.settings.compare
    program = Path(settings.runs) / run_name(result.folder) / design.program.relative_to(result.folder)
    return [
        *("whichloop", "compare", "--loop", design.design, "--loop", str(Spec(entry.loop, entry.options, str(program)))),
        *_air(settings.models, settings.profiles),
        *("--suite", settings.suite or result.manifest.suite.name, "-s", "split=test"),
        *(() if settings.tasks is None else ("--tasks", str(settings.tasks))),
        *(("--seed", str(result.manifest.seed)) if result.manifest.seed else ()),
        *kept_words(config),
    ]


def _air(models: Sequence[str], profiles: Sequence[str]) -> Iterator[str]:
    for model in models:
        yield from () if model == SCRIPTED else ("--model", model)
    if SCRIPTED in models:
        yield from (word for profile in profiles for word in ("--profile", profile))
