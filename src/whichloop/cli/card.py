"""`whichloop card`: disclose an agent on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.checks.program import Trouble, check_program
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.card.card import card_doc
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run_apart
from whichloop.protocol.names import Spec
from whichloop.reports.progress.trials import watching
from whichloop.runs.config import IfAbsent, load_config
from whichloop.runs.registry import make_loop
from whichloop.text.doc import Doc, to_markdown

from .check_program import AgentChoice
from .console import check_writable, say, show
from .options import OptionGroup, OutputOptions, Texts, VerboseOption, with_options
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
    runs: Path = Path("runs")
    """Folder for the run directory."""


class CardOutput(OutputOptions, VerboseOption):
    out: Path | None = None
    """File to write the whole card to, in Markdown."""


@with_options()
def card(choice: AgentChoice, run: CardRun, output: CardOutput) -> None:
    """Disclose an agent on one page: figures, what each fault does to it, requests, options, versions.

    Each value comes from a run that is made for it, from its requests, or from a run with one fault.
    """
    if output.out is not None:
        check_writable("--out", output.out, "nothing was run")
    spec = choice.spec()
    if spec is None:
        raise ValueError("--url: a card needs a program, which can be run on a suite")
    try:
        doc = _measured(spec, run, quiet=output.quiet)
    except Trouble as trouble:
        say(f"{agent_name(spec)}: {trouble}")
        raise typer.Exit(FAILED) from None
    if output.out is not None:
        output.out.write_text(to_markdown(doc), encoding="utf-8")
        say(f"wrote {output.out}")
    show(doc, as_json=output.as_json, verbose=output.verbose)


def _measured(spec: Spec, typed: CardRun, *, quiet: bool) -> Doc:
    """Run the agent on the suite and with each fault. Raises Trouble, and ValueError for a run that was stopped."""
    loop, name = make_loop(spec, TOLD_STEPS), agent_name(spec)
    settings = {
        **typed.model_dump(mode="json", exclude={"profile"}),
        "loops": (str(spec),),
        "profiles": tuple(typed.profile) or PROFILES,
        "mlflow": False,
    }
    with own_prints_aside(), quiet_loops():
        check = check_program(loop, name)
        experiment = prepare(load_config(None, settings))
        with watching(experiment, quiet=quiet) as progress:
            stopped = run_apart(experiment, progress)
    if stopped:
        raise ValueError(f"{experiment.folder}: {stopped}")
    return card_doc(name, spec, loop, check, results(experiment.folder))
