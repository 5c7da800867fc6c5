"""The check of an agent with every fault, each in a run of its own."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from whichloop.models.metering import WAITS, Waits
from whichloop.programs.gateway import ProgramTrial
from whichloop.programs.loop import ForeignAgent, outcome, question_text
from whichloop.protocol import BudgetExceeded, Loop, Request, StopReason, render_value
from whichloop.protocol import Outcome as LoopOutcome
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import counted

from .agent_faults import FAULTS, AgentFault, BenchTask, FaultFinding, Outcome, allowed_by, new_text, telling_request
from .bench import TASKS, AgentLog, BenchRun, bench_run

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


MAX_REQUESTS = 60
"""When the check stops a run."""
HANG_S = 5.0
"""Seconds that an agent is given to leave a hanging tool."""
RUN_S = 240.0
"""Seconds, far more than a run takes, also where a framework has to be imported; waiting for a process does not count."""


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
    def title(self) -> str:
        """The agent, with its version if it has one."""
        return f"{self.agent} {self.version}".strip()

    def missing(self, demanded: Mapping[str, str]) -> dict[str, str]:
        """Return fault → a line on what was demanded and not found. What cannot happen to the agent is not missed."""
        found = {finding.fault: finding.outcome for finding in self.findings if finding.outcome != "not applicable"}
        return {
            fault: f"{fault}: demanded {text}, found {found[fault]}"
            for fault, text in demanded.items()
            if fault in found and found[fault] not in allowed_by(text)
        }


def check_program(
    loop: Loop,
    name: str = "",
    *,
    faults: Sequence[AgentFault] = FAULTS,
    max_requests: int = MAX_REQUESTS,
    hang_s: float = HANG_S,
    on_finding: Callable[[FaultFinding], None] | None = None,
) -> ProgramReport:
    """Run an agent with one fault after the other, without a network or a key. `on_finding` gets each finding, in order.

    `hang_s`: seconds that it is given to leave a hanging tool. The loop keeps its own limit of steps.
    Raises Trouble for an agent that does not solve the tasks undisturbed, ValueError and OSError for one that cannot be run.
    """

    async def check() -> ProgramReport:
        version = loop.version if isinstance(loop, ForeignAgent) else ""  # raises for what cannot begin
        clean: dict[BenchTask, list[Request]] = {}
        for task in dict.fromkeys(("chain", *(fault.task for fault in faults))):
            clean[task] = await _undisturbed(loop, task, max_requests)
        # Two calls in a reply are what `pair` is made of, so that its undisturbed run has that fault.
        references = ("chain" if fault.name == "two_calls" else fault.task for fault in faults)
        works = (_finding(loop, fault, clean[task], max_requests, hang_s) for fault, task in zip(faults, references, strict=True))
        running = [asyncio.create_task(work) for work in works]
        findings = []
        try:
            for work in running:
                findings.append(await work)
                if on_finding is not None:
                    on_finding(findings[-1])
        finally:
            await stop_tasks(running)
        return ProgramReport(name or loop.name, version, tuple(clean["chain"]), tuple(findings))

    return run_blocking(check())


@dataclass(frozen=True, slots=True)
class AgentEnd:
    outcome: LoopOutcome | None = None
    error: str = ""
    """What left the agent, `Type: message`."""
    stopped: str = ""
    """Why the check stopped it."""


async def _undisturbed(loop: Loop, task: BenchTask, max_requests: int) -> list[Request]:
    """Return the requests of a run without a fault. Raises Trouble if its answer is wrong."""
    expected = TASKS[task].expected
    run = await bench_run(task, None, max_requests)
    end, log = await _run(loop, run, HANG_S), run.log
    if end.outcome is None or not is_right(end.outcome.answer, expected):
        called = counted(log.called, "tool") if log.called else "none of the tools at $WHICHLOOP_TOOLS_URL"
        how = end.stopped or end.error
        if end.outcome is not None:
            how = f"its answer was {end.outcome.answer!r} (stop {end.outcome.stop.value}), not {expected}"
        effort = f"it asked the model {counted(len(log.asked), 'time')} and called {called}"
        raise Trouble(f"it does not solve a task without any fault: {how}; {effort}")
    return [one.request for one in log.asked]


async def _finding(loop: Loop, fault: AgentFault, clean: Sequence[Request], max_requests: int, hang_s: float) -> FaultFinding:
    """Return the finding of one run. `clean`: the requests of the same task without a fault. Raises Trouble."""
    run = await bench_run(fault.task, fault, max_requests)
    end, log = await _run(loop, run, hang_s), run.log
    requests, calls = len(log.asked), log.called
    if end.stopped and not requests:
        raise Trouble(f"{fault.name} cannot be judged: {end.stopped}")
    if log.struck is None and not end.stopped and not end.error:
        no_room = "the format of its replies has no room for it"
        if fault.task == "pair":
            no_room = "no reply of its model has two calls"
        elif fault.strikes == "endless":
            no_room = "it asks for the answer in a request that leaves no room for a call"
        return FaultFinding(fault.name, "not applicable", no_room, requests=requests, calls=calls)
    struck = requests - 1 if log.struck is None else log.struck
    telling = telling_request(fault, log.asked, struck, clean)
    after = struck + 1 if struck + 1 < requests else None
    place = after if telling is None else telling
    shown = "" if place is None else new_text(fault, log.asked, struck, place, clean)
    outcome, detail = _outcome(fault, log, end, len(clean), telling is not None)
    number = None if place is None else place + 1
    return FaultFinding(fault.name, outcome, detail[:300], number, shown, requests, calls)


async def _run(loop: Loop, run: BenchRun, hang_s: float) -> AgentEnd:
    """Let an agent solve a task, and say how it ended. Raises ValueError and OSError for one that cannot be run."""
    waits, log = Waits(), run.log

    async def hang() -> str:
        """Return if the agent still waits some time after a tool began to hang; one that goes on has left it."""
        await log.hung.wait()
        before = len(log.asked), log.called
        await asyncio.sleep(hang_s)
        if (len(log.asked), log.called) != before:
            await asyncio.get_running_loop().create_future()
        return f"after {hang_s:g} s it still waited for the tool"

    async def time() -> str:
        """Return once the run has had its time, beside what it lost in waiting for a process."""
        clock = asyncio.get_running_loop().time
        start = clock()
        while (seconds_left := RUN_S - (clock() - start - waits.seconds)) > 0:
            await asyncio.sleep(seconds_left)
        return f"after {RUN_S:g} s it had not ended"

    before = WAITS.set(waits)
    try:
        solving = asyncio.create_task(_solve(loop, run))
    finally:
        WAITS.reset(before)
    stopping = [asyncio.create_task(hang()), asyncio.create_task(time())]
    try:
        done, _ = await asyncio.wait({solving, *stopping}, return_when=asyncio.FIRST_COMPLETED)
        if solving in done:
            return solving.result()
        return AgentEnd(stopped=next(each.result() for each in stopping if each in done))
    finally:
        await stop_tasks((solving, *stopping))  # what a cancelled agent raises tells nothing


async def _solve(loop: Loop, run: BenchRun) -> AgentEnd:
    """Have the agent solve the task of a run. Raises ValueError and OSError for an agent that cannot be run."""
    try:
        if isinstance(loop, ForeignAgent):
            trial = ProgramTrial(run.model, run.tools, None)
            try:
                answer = await loop.solve_trial(trial, question_text(run.task.query))
            finally:
                trial.close()
            return AgentEnd(outcome(trial, answer))
        return AgentEnd(await loop.run(run.task.query, run.tools, run.model))
    except BudgetExceeded:
        return AgentEnd(stopped=f"it made {run.log.max_requests} requests, and asked once more")
    except Exception as error:  # the boundary to the agent: whatever leaves it is named
        if not run.log.asked and isinstance(error, ValueError | OSError):
            raise
        return AgentEnd(error=f"{error}" if type(error).__name__ == "SolverFailed" else f"{type(error).__name__}: {error}")


def is_right(answer: object, expected: object) -> bool:
    """Return whether the last number in an answer is the expected one."""
    numbers = _NUMBER.findall(render_value(answer))
    return bool(numbers) and float(numbers[-1].replace(",", "")) == expected


def _outcome(fault: AgentFault, log: AgentLog, end: AgentEnd, clean: int, is_told: bool) -> tuple[Outcome, str]:
    """Return the outcome and how the run ended, in words. `clean`: requests of a run without a fault."""
    if end.stopped:
        return "unlimited", end.stopped
    if end.error:
        return "error", end.error
    assert end.outcome is not None
    answer, stop = render_value(end.outcome.answer), end.outcome.stop
    if end.outcome.answer is not None and is_right(end.outcome.answer, TASKS[fault.task].expected):
        return _recovered(fault, log, clean, is_told), f"answer {answer}"
    if stop is not StopReason.FINISHED:
        why = end.outcome.details.get("error", "")
        return "error", f"stop {stop.value}{f': {why}' if why else ''}"
    if end.outcome.answer is None:
        return "error", "it gave no answer: None"
    return "silent", f"answer {answer!r}" if answer.strip() else "an empty answer"


def _recovered(fault: AgentFault, log: AgentLog, clean: int, is_told: bool) -> Outcome:
    """Return how a run with the right answer got over the fault."""
    assert log.struck is not None
    ran = Counter({after: count for after, count in log.gave.items() if after > log.struck})
    asked_no_more = len(log.asked) <= clean
    # Two calls ran and gave results, after the fault and with no request between them.
    ran_together = fault.name in ("duplicate_ids", "two_calls") and any(count > 1 for count in ran.values())
    if fault.strikes == "provider" or (asked_no_more and (fault.strikes == "order" or ran_together)):
        return "handled"
    if is_told:
        return "told"
    if fault.strikes == "endless" or (asked_no_more and fault.strikes in ("result", "tool")):
        return "handled"
    # A call of the spoiled reply ran and gave a result.
    is_unaware = fault.strikes in ("call", "reply") and fault.task != "pair" and ran[log.struck + 1] > 0
    return "unaware" if is_unaware else "untold"
