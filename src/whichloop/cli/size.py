"""`whichloop size`: how large a run has to be, before money is spent on it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments import size as sizing
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.size import Sizing
from whichloop.experiments.size import tables as report
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import run_folder, trials_folder

from .console import print_prose, show_table
from .options import JsonOption, OptionGroup, ReadRunChoice, Texts, VerboseOption, with_options


class Purpose(StrEnum):
    """What a run is for."""

    COMPARE = "compare"
    GATE = "gate"


class SizeOptions(OptionGroup):
    loop: Texts
    """Loop of the pilot that the run is planned for, by its name there; repeat the option for more. [default: all of them]"""
    profile: Texts
    """Profile of the pilot that the run is planned for; repeat the option for more. [default: all of them]"""
    again: Path | None = None
    """Second run of the same configuration with another seed; the noise between the two runs is measured."""
    purpose: Annotated[Purpose | None, typer.Option("--for"), IfAbsent("both")] = None
    """What the run is planned for."""
    margin: Annotated[float | None, IfAbsent("0.02; 0.1 for a gate on another metric")] = None
    """Difference that matters: for a share such as accuracy in points from 0 to 1, for any other metric as a share of it."""
    power: float = 0.8
    """Probability of reaching the decision that is planned for."""
    alpha: Annotated[float | None, IfAbsent("the pilot's")] = None
    """Significance level of the tests."""
    metric: str = "accuracy"
    """accuracy, steps, lm_calls, tokens, cost_usd, nominal_usd, seconds, retention, prefix_stability, tokens_with_cache,
    injection_shown, injection_attempted, injection_executed, answer_changed, utility_kept, false_success_rate, calls_lost,
    calls_doubled, results_mispaired, calls_overlapped, user_calls, user_tokens or user_cost_usd."""

    @property
    def request(self) -> sizing.SizeRequest:
        purposes = sizing.PURPOSES if self.purpose is None else (self.purpose.value,)
        return sizing.SizeRequest(self.metric, self.margin, self.alpha, self.power, purposes, self.loop, self.profile)


@with_options()
def size(choice: ReadRunChoice, options: SizeOptions, output: JsonOption, depth: VerboseOption) -> None:
    """Compute from a pilot run how many tasks and repeats a decision needs.

    It also computes what they cost. No model is called.
    """
    wanted = options.request
    pilot = _results(choice.folder)
    second = None if options.again is None else _results(run_folder(options.again, choice.runs))
    sizes = sizing.size(pilot, wanted, second)
    if output.as_json:
        print(json.dumps(sizes.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        _print(sizes, verbose=depth.verbose)


def _results(folder: Path) -> Results:
    return results(trials_folder(folder))


def _print(sizing: Sizing, *, verbose: bool) -> None:
    """Print what suffices and what to doubt about it; if `verbose`, all tables before that."""
    for table in report.sizing_tables(sizing) if verbose else ():
        show_table(table)
    if scope := report.scope(sizing):
        print_prose(f"{scope}.", "dim")
    for answer in report.answers(sizing):
        print_prose(answer, "bold")
    for doubt in sizing.caveats:
        print_prose(doubt, "dim")
    if not verbose:
        print_prose("Other numbers of repeats, what this run can show, and its noise: -v", "dim")
