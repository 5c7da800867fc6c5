"""The check of an agent with every fault, each in a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.models.limits import WAITS, Waits
from whichloop.programs.gateway import ProgramTrial
from whichloop.programs.loop import ForeignAgent, outcome, question_text
from whichloop.protocol import BudgetExceeded, Loop, Request
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import counted

from .agent_faults import FAULTS, AgentFault, BenchTask, FaultFinding, Requirement
from .bench import TASKS, BenchRun, bench_run
from .judging import AgentEnd, is_right, judged

MAX_REQUESTS = 60
"""Requests after which a run counts as one without a limit."""
HANG_S = 5.0
"""Seconds that an agent is given to leave a hanging tool."""
MAX_RUN_S = 240.0
"""Seconds after which any run is stopped, far more than one takes, also where a framework has to be imported and much else runs;
those in which it waits for a process of its own do not count."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """When the check stops a run."""

    requests: int = MAX_REQUESTS
    hang_s: float = HANG_S
    run_s: float = MAX_RUN_S

    def __post_init__(self) -> None:
        if self.requests < 2:
            raise ValueError(f"the limit of requests must be at least 2, not {self.requests}")
        if self.hang_s <= 0 or self.run_s <= 0:
            raise ValueError("limits of seconds must be greater than 0")


class Trouble(Exception):
    """The agent does not solve the task without any fault, or never begins to: there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """What an agent does with every fault."""

    agent: str
    version: str
    """The framework's; empty if it has none."""
    asked: tuple[Request, ...]
    """The requests of the undisturbed run."""
    findings: tuple[FaultFinding, ...]

    @property
    def requests(self) -> int:
        """Number of requests of the undisturbed run."""
        return len(self.asked)

    @property
    def title(self) -> str:
        """The agent, with its version if it has one."""
        return f"{self.agent} {self.version}".strip()

    def unmet(self, requirements: Sequence[Requirement]) -> tuple[tuple[Requirement, FaultFinding], ...]:
        """Return the requirements that are not met, with their findings."""
        by_fault = {finding.fault: finding for finding in self.findings}
        return tuple(
            (one, by_fault[one.fault]) for one in requirements if one.fault in by_fault and not one.is_met(by_fault[one.fault])
        )

    def as_dict(self) -> dict[str, Any]:
        findings = [finding.as_dict() for finding in self.findings]
        return {"agent": self.agent, "version": self.version, "requests": self.requests, "faults": findings}


DEFAULT_LIMITS = CheckLimits()


def check_program(
    loop: Loop,
    name: str = "",
    *,
    faults: Sequence[AgentFault] = FAULTS,
    limits: CheckLimits = DEFAULT_LIMITS,
    on_finding: Callable[[FaultFinding], None] | None = None,
) -> ProgramReport:
    """Run an agent with one fault after the other, without a network or a key. `on_finding` gets each finding, in order.

    The loop keeps its own limit of steps. Raises Trouble for an agent that does not solve the tasks undisturbed, and ValueError and
    OSError for one that cannot be run.
    """
    return run_blocking(_check(loop, name or loop.name, faults, limits, on_finding))


async def _check(
    loop: Loop,
    name: str,
    faults: Sequence[AgentFault],
    limits: CheckLimits,
    on_finding: Callable[[FaultFinding], None] | None,
) -> ProgramReport:
    version = loop.version if isinstance(loop, ForeignAgent) else ""
    clean: dict[BenchTask, list[Request]] = {}
    for task in dict.fromkeys(("chain", *(fault.task for fault in faults))):
        clean[task] = await _undisturbed(loop, task, limits)
    running = [asyncio.create_task(_finding(loop, fault, clean[_reference(fault)], limits)) for fault in faults]
    findings = []
    try:
        for work in running:
            findings.append(await work)
            if on_finding is not None:
                on_finding(findings[-1])
    finally:
        await stop_tasks(running)
    return ProgramReport(name, version, tuple(clean["chain"]), tuple(findings))


def _reference(fault: AgentFault) -> BenchTask:
    """Return the task whose undisturbed run does not have the fault: two calls in a reply are what `pair` is made of."""
    return "chain" if fault.name == "two_calls" else fault.task


async def _undisturbed(loop: Loop, task: BenchTask, limits: CheckLimits) -> list[Request]:
    """Return the requests of a run without a fault. Raises Trouble if its answer is wrong."""
    run = await bench_run(task, None, limits.requests)
    end = await _run(loop, run, limits)
    if end.outcome is None or not is_right(end.outcome.answer, TASKS[task].expected):
        requests, calls = len(run.log.asked), len(run.log.called)
        effort = f"it asked the model {counted(requests, 'time')} and called {counted(calls, 'tool') if calls else 'no tools'}"
        how = end.stopped or end.error
        if end.outcome is not None:
            how = f"its answer was {end.outcome.answer!r} (stop {end.outcome.stop.value}), not {TASKS[task].expected}"
        raise Trouble(f"it does not solve a task without any fault: {how}; {effort}")
    return [one.request for one in run.log.asked]


async def _finding(loop: Loop, fault: AgentFault, clean: Sequence[Request], limits: CheckLimits) -> FaultFinding:
    run = await bench_run(fault.task, fault, limits.requests)
    end = await _run(loop, run, limits)
    if end.stopped and not run.log.asked:
        raise Trouble(f"{fault.name} cannot be judged: {end.stopped}")
    return judged(fault, run.log, end, TASKS[fault.task].expected, clean)


async def _run(loop: Loop, run: BenchRun, limits: CheckLimits) -> AgentEnd:
    """Let an agent solve a task, and say how it ended. Raises ValueError and OSError for one that cannot be run."""
    waits = Waits()
    before = WAITS.set(waits)
    try:
        solving = asyncio.create_task(_solve(loop, run))
    finally:
        WAITS.reset(before)
    hanging = asyncio.create_task(_hung_for(run, limits.hang_s))
    timing = asyncio.create_task(_over_after(limits.run_s, waits))
    try:
        done, _ = await asyncio.wait({solving, hanging, timing}, return_when=asyncio.FIRST_COMPLETED)
        if solving in done:
            return solving.result()
        if hanging in done:
            return AgentEnd(stopped=f"after {limits.hang_s:g} s it still waited for the tool")
        return AgentEnd(stopped=f"after {limits.run_s:g} s it had not ended")
    finally:
        await stop_tasks((solving, hanging, timing))  # what a cancelled agent raises tells nothing


async def _over_after(seconds: float, waits: Waits) -> None:
    """Sleep until a run has had so many seconds, beside those that it lost."""
    clock = asyncio.get_running_loop().time
    start = clock()
    while (seconds_left := seconds - (clock() - start - waits.seconds)) > 0:
        await asyncio.sleep(seconds_left)


async def _hung_for(run: BenchRun, seconds: float) -> None:
    """Return if the agent still waits so many seconds after a tool began to hang; one that goes on has left it."""
    log = run.log
    await log.hung.wait()
    before = len(log.asked), len(log.called)
    await asyncio.sleep(seconds)
    if (len(log.asked), len(log.called)) != before:
        await asyncio.get_running_loop().create_future()


async def _solve(loop: Loop, run: BenchRun) -> AgentEnd:
    """Have the agent solve the task of a run. Raises ValueError and OSError for an agent that cannot be run."""
    try:
        if isinstance(loop, ForeignAgent):
            trial = ProgramTrial(run.model, run.tools, None)
            try:
                answer = await loop.solve_trial(trial, question_text(run.task.query))
            finally:
                trial.close()
            run_outcome = outcome(trial, answer)
        else:
            run_outcome = await loop.run(run.task.query, run.tools, run.model)
    except BudgetExceeded:
        return AgentEnd(stopped=f"it made {run.log.max_requests} requests, and asked once more")
    except Exception as error:  # the boundary to the agent: whatever leaves it is named
        if not run.log.asked and isinstance(error, ValueError | OSError):
            raise
        return AgentEnd(error=f"{error}" if type(error).__name__ == "SolverFailed" else f"{type(error).__name__}: {error}")
    return AgentEnd(run_outcome)
