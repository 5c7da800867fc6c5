"""`whichloop check program`: what an agent does with one fault at a time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from whichloop.checks.program import (
    FAULTS,
    OUTCOMES,
    RECOVERED,
    AgentFault,
    FaultFinding,
    ProgramReport,
    Requirement,
    Trouble,
    check_program,
    parse_requirements,
)
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.check import HANG_S, MAX_REQUESTS, CheckLimits
from whichloop.checks.program.naming import TOLD_STEPS, agent_name, agent_spec
from whichloop.programs.program import Service
from whichloop.protocol import Loop
from whichloop.protocol.names import Spec, near, parse_spec
from whichloop.reports.html.program_check import program_check_html
from whichloop.runs.registry import make_loop
from whichloop.text import junit
from whichloop.text.output import plain_line, terminal_safe

from .console import check_writable, out, print_row, say
from .options import JsonOption, OptionGroup, Texts, with_options
from .process import DONE, FAILED
from .render import write

MAX_TOLD_CHARS = 160
"""Characters of what the model was told in the rows; --json and --page have all."""


class AgentChoice(OptionGroup):
    program: Annotated[list[str] | None, typer.Argument()] = None
    """The agent: a command line behind --, `my.module:solve` or `FILE.py:solve`, a framework, or a design."""
    loop: str | None = None
    """A loop instead: `name(option=value)` or `package.module:Name`."""
    url: str | None = None
    """An agent that runs as a service instead: its address, which takes questions as JSON by POST."""
    venv: str | None = None
    """Folder of the virtual environment whose Python runs the program."""
    key: Texts
    """Environment variable with a secret that the program may have; repeat the option for more."""

    def spec(self) -> Spec | None:
        """Return the agent as it is named, with its options; None for a service. Raises ValueError."""
        flags = [flag for flag, value in (("PROGRAM", self.program), ("--loop", self.loop), ("--url", self.url)) if value]
        if len(flags) != 1:
            what = "name one agent" if not flags else f"{' and '.join(flags)} are given; name one agent"
            raise ValueError(f"{what}: a command line behind --, my.module:solve, a framework, --loop or --url")
        if self.url:
            self._check_plain("--url")
            return None
        spec = parse_spec(self.loop) if self.loop else agent_spec(self.program or [])
        if spec.name != "program":
            self._check_plain(str(spec))
        more: dict[str, Any] = {"venv": self.venv} if self.venv else {}
        keys: dict[str, Any] = {"keys": tuple(self.key)} if self.key else {}
        return Spec(spec.name, {**spec.options, **more, **keys}, spec.program)

    def named(self) -> tuple[Loop, str]:
        """Return the agent and its name. Raises ValueError."""
        spec = self.spec()
        if spec is None:
            return Service(self.url or ""), self.url or ""
        return make_loop(spec, TOLD_STEPS), agent_name(spec)

    def _check_plain(self, what: str) -> None:
        if self.venv or self.key:
            raise ValueError(f"{'--venv' if self.venv else '--key'} is for programs, not for {what}")


class CheckOptions(OptionGroup):
    require: Texts
    """Outcomes that are demanded: FAULT=OUTCOME,… such as empty=recovered,never_finishes=error|handled."""
    fault: Texts
    """Check this fault only; repeat the option for more."""
    max_requests: int = MAX_REQUESTS
    """Requests after which a run is stopped and counts as one without a limit."""
    tool_seconds: float = HANG_S
    """Seconds that the agent is given to leave a tool that hangs."""

    def faults(self) -> tuple[AgentFault, ...]:
        """Return the faults to check. Raises ValueError for an unknown one."""
        for name in self.fault:
            if name not in BY_NAME:
                suggestion, every = near(name, BY_NAME), f"known: {', '.join(BY_NAME)}"  # the help has no room for them
                raise ValueError(f"--fault: there is no fault {name!r}; {suggestion or every}")
        return tuple(fault for fault in FAULTS if not self.fault or fault.name in self.fault)

    def requirements(self) -> tuple[Requirement, ...]:
        """Return what is demanded. Raises ValueError."""
        try:
            requirement_list = parse_requirements(",".join(self.require))
        except ValueError as error:
            raise ValueError(f"--require: {error}") from None
        checked = {fault.name for fault in self.faults()}
        for one in requirement_list:
            if one.fault not in checked:
                raise ValueError(f"--require: {one.fault} is demanded, and --fault leaves it out")
        return requirement_list


class CheckOutputs(JsonOption):
    junit: Path | None = None
    """File to write JUnit XML to: a test for each fault, which fails where a demanded outcome is missing."""
    page: Path | None = None
    """File to write a page (HTML) to, with what the model was told after each fault."""

    def check(self) -> None:
        """Check that the files can be written, and make their folders. Raises ValueError."""
        for flag, path in (("--junit", self.junit), ("--page", self.page)):
            if path is not None:
                check_writable(flag, path, "nothing was checked")


@with_options()
def check_program_(choice: AgentChoice, options: CheckOptions, outputs: CheckOutputs) -> None:
    """Run an agent with one fault at a time, and say what it does with each.

    The faults are mistakes of the model, failures of tools and trouble with the provider; a scripted model makes them, so that no
    key is needed. Outcomes are judged from the agent's requests, its calls and its answer. The exit code is 1 if a demanded outcome
    is missing, or if the agent does not solve the task without a fault: then nothing is judged.
    """
    faults, demanded = options.faults(), options.requirements()
    limits = CheckLimits(options.max_requests, options.tool_seconds)
    outputs.check()
    loop, name = choice.named()
    try:
        report = check_program(loop, name, faults=faults, limits=limits, on_finding=None if outputs.as_json else print_finding)
    except Trouble as trouble:
        _tell_trouble(name, str(trouble), outputs)
        raise typer.Exit(FAILED) from None
    unmet = report.unmet(demanded)
    if outputs.junit is not None:
        write_junit(report, demanded, outputs.junit)
        say(f"JUnit: {outputs.junit}")
    if outputs.page is not None:
        write(program_check_html(report, demanded), outputs.page, outputs.page)
    if outputs.as_json:
        missing = [{"fault": one.fault, "demanded": one.says, "outcome": finding.outcome} for one, finding in unmet]
        print(json.dumps({**report.as_dict(), "ok": not unmet, "unmet": missing}, ensure_ascii=True))
    else:
        _print_total(report, demanded)
    raise typer.Exit(FAILED if unmet else DONE)


def _tell_trouble(name: str, trouble: str, outputs: CheckOutputs) -> None:
    """Say why an agent was not judged, wherever a report was asked for. Raises OSError."""
    say(f"{name}: {trouble}")
    if outputs.as_json:
        print(json.dumps({"agent": name, "ok": False, "trouble": trouble}, ensure_ascii=True))
    if outputs.junit is not None:
        root = junit.suites("whichloop check program")
        case = junit.add_case(junit.add_suite(root, name, 1, {"error": 1}), name, "without any fault")
        junit.add_result(case, "error", trouble)
        outputs.junit.write_text(junit.document(root), encoding="utf-8")


def print_finding(finding: FaultFinding) -> None:
    """Print the row of one fault: what the agent did, and what its model was told."""
    fault = BY_NAME[finding.fault]
    style = "green" if finding.outcome in ("told", "handled") else "yellow" if finding.outcome in RECOVERED else "bold red"
    if finding.outcome in fault.sound and finding.outcome not in RECOVERED:
        style = "green"
    if finding.outcome == "not applicable":
        style = "dim"
    print_row([(finding.fault, "", 21), (finding.outcome, style, 16)], finding.detail)
    if finding.shown and finding.outcome in ("told", "untold", "unaware"):
        text = plain_line(finding.shown)
        cut = text if len(text) <= MAX_TOLD_CHARS else f"{text[:MAX_TOLD_CHARS]}…"
        print_row([("", "", 21)], f"request {finding.request} says: {cut}", "dim")


def _print_total(report: ProgramReport, demanded: tuple[Requirement, ...]) -> None:
    counts = Counter(finding.outcome for finding in report.findings)
    says = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    console = out()
    console.print(Text(f"{terminal_safe(report.title)}: {says}", style="bold"), soft_wrap=True)
    for outcome in OUTCOMES:
        if counts[outcome]:
            print_row([("", "", 2), (outcome, "dim", 16)], OUTCOMES[outcome], "dim")
    for one, finding in report.unmet(demanded):
        console.print(Text(one.missing(finding), style="bold red"), soft_wrap=True)
    if demanded and not report.unmet(demanded):
        console.print(
            Text(f"all {len(demanded)} demanded outcomes are there" if len(demanded) > 1 else "the demanded outcome is there")
        )


def write_junit(report: ProgramReport, demanded: tuple[Requirement, ...], path: Path) -> None:
    """Write a test for each fault. Raises OSError."""
    unmet = {one.fault: one for one, _ in report.unmet(demanded)}
    kinds: Counter[str] = Counter(
        "failure" if finding.fault in unmet else "skipped" if finding.outcome == "not applicable" else ""
        for finding in report.findings
    )
    root = junit.suites("whichloop check program")
    suite = junit.add_suite(root, report.title, len(report.findings), kinds)
    for finding in report.findings:
        case = junit.add_case(suite, report.title, finding.fault)
        says = f"{finding.outcome}: {finding.detail}"
        if finding.fault in unmet:
            junit.add_result(case, "failure", f"demanded {unmet[finding.fault].says}, found {says}", finding.shown)
        elif finding.outcome == "not applicable":
            junit.add_result(case, "skipped", says)
        junit.add_output(case, f"{BY_NAME[finding.fault].says}\n{says}\n{finding.shown}")
    path.write_text(junit.document(root), encoding="utf-8")
