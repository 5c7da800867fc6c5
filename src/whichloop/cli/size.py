"""`whichloop size`: how large a run has to be, before money is spent on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.compare.results import results
from whichloop.experiments.size.doc import size_doc
from whichloop.experiments.size.pilot import PURPOSES, Purpose, SizeRequest
from whichloop.experiments.size.sizes import size as work_out_sizes
from whichloop.metrics.summary import PRIMARY
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import run_folder, trials_folder

from .console import show
from .options import JsonOption, OptionGroup, ReadRunChoice, Texts, VerboseOption, with_options


class SizeOptions(OptionGroup):
    loop: Texts
    """Loop of the pilot that the run is planned for, by its name there; repeat the option for more. [default: all of them]"""
    profile: Texts
    """Profile of the pilot that the run is planned for; repeat the option for more. [default: all of them]"""
    again: Path | None = None
    """Second run of the same configuration with another seed; the noise between the two runs is measured."""
    purpose: Annotated[Purpose | None, typer.Option("--for"), IfAbsent("both")] = None
    """What the run is planned for: compare or gate."""
    margin: Annotated[float | None, IfAbsent("0.02; 0.1 for a gate on another metric")] = None
    """Difference that matters: for a share such as accuracy in points from 0 to 1, for any other metric as a share of it."""
    power: float = 0.8
    """Probability of reaching the decision that is planned for."""
    alpha: Annotated[float | None, IfAbsent("the pilot's")] = None
    """Significance level of the tests."""
    metric: str = PRIMARY
    """Any measure of a run, such as accuracy, steps, tokens or cost_usd."""


@with_options()
def size(choice: ReadRunChoice, options: SizeOptions, output: JsonOption, depth: VerboseOption) -> None:
    """Compute from a pilot run how many tasks and repeats a decision needs.

    It also computes what they cost. No model is called.
    """
    purposes = PURPOSES if options.purpose is None else (options.purpose,)
    wanted = SizeRequest(options.metric, options.margin, options.alpha, options.power, purposes, options.loop, options.profile)
    second = None if options.again is None else results(trials_folder(run_folder(options.again, choice.runs)))
    sizing = work_out_sizes(results(trials_folder(choice.folder)), wanted, second)
    show(size_doc(sizing), as_json=output.as_json, verbose=depth.verbose)
