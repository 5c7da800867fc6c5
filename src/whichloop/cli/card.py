"""`whichloop card`: disclose an agent on one page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop.checks.program import Trouble, check_program
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.card.card import HarnessCard, harness_card
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run_apart
from whichloop.protocol.names import Spec
from whichloop.reports.progress.trials import watching
from whichloop.runs.config import IfAbsent, load_config
from whichloop.runs.registry import make_loop
from whichloop.runs.store.files import MANIFEST

from .check_program import AgentChoice
from .console import check_writable, say
from .options import OptionGroup, OutputOptions, Texts, with_options
from .process import FAILED, own_prints_aside, quiet_loops

PROFILES = ("clean", "flaky-tools", "flaky-format")


class CardRun(OptionGroup):
    """The run that the card's figures come from."""

    suite: str = "arithmetic"
    """Suite whose tasks are run."""
    tasks: int | None = None
    """Maximum number of tasks, the first ones."""
    profile: Annotated[Texts, IfAbsent(", ".join(PROFILES))]
    """Fault profile, a built-in name or a TOML file; repeat the option for more profiles."""
    seed: int = 0
    """Seed of the fault draws."""
    runs: Path = Path("runs")
    """Folder for the run directory."""

    def flags(self, spec: Spec) -> Mapping[str, Any]:
        """Return the configuration of the run."""
        return {
            "loops": (str(spec),),
            "suite": self.suite,
            "tasks": self.tasks,
            "profiles": tuple(self.profile) or PROFILES,
            "seed": self.seed,
            "runs": str(self.runs),
            "mlflow": False,
        }


class CardOutput(OutputOptions):
    out: Path | None = None
    """File to write the page to, in Markdown."""


def _refuse_run(words: Sequence[str], runs: Path) -> None:
    """Raise ValueError, which says what a card is made of, for the name of a run, such as an imported one."""
    if len(words) == 1 and any(os.path.isfile(folder / words[0] / MANIFEST) for folder in (Path(), runs)):
        takes = "a card is of an agent, which is run for it: a design, a framework or a program, such as whichloop card finish"
        raise ValueError(f"{words[0]} is a run; {takes}; what the run found: whichloop report {words[0]}")


@with_options()
def card(choice: AgentChoice, run: CardRun, output: CardOutput) -> None:
    """Disclose an agent on one page, in Markdown, or as JSON.

    It says what the agent asks its model for, how it shows tools, its options, limits and retries, what it does with each fault,
    and its figures. Each value comes from a run that is made for it, from requests, or from a run with one fault.
    """
    if output.out is not None:
        check_writable("--out", output.out, "nothing was run")
    _refuse_run(choice.program or (), run.runs)
    spec = choice.spec()
    if spec is None:
        raise ValueError("--url: a card measures an agent on a suite, and a service takes one question at a time; name a program")
    try:
        harness_card = _measured_card(spec, run, quiet=output.quiet)
    except Trouble as trouble:
        say(f"{agent_name(spec)}: {trouble}")
        raise typer.Exit(FAILED) from None
    if output.out is not None:
        output.out.write_text(harness_card.to_markdown(), encoding="utf-8")
        say(f"wrote {output.out}")
    if output.as_json:
        print(json.dumps(harness_card.to_json(), ensure_ascii=True, allow_nan=False))
    elif output.out is None:
        print(harness_card.to_markdown(), end="")


def _measured_card(spec: Spec, run: CardRun, *, quiet: bool) -> HarnessCard:
    """Run the agent on the suite and with each fault. Raises Trouble."""
    loop, name = make_loop(spec, TOLD_STEPS), agent_name(spec)
    with own_prints_aside(), quiet_loops():
        check = check_program(loop, name)
        experiment = prepare(load_config(None, dict(run.flags(spec))))
        with watching(experiment, quiet=quiet) as progress:
            stopped = run_apart(experiment, progress)
    if stopped:
        raise ValueError(f"{experiment.folder}: {stopped}")
    return harness_card(name, spec, loop, check, results(experiment.folder))
