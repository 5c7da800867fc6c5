"""The check of agents within a team's own tests: the value of the pytest plugin's fixture `agent_checks`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from whichloop.protocol import Loop
from whichloop.text.output import safe_for_others

from ..shared.pytest_items import check_not_async
from .agent_faults import BY_NAME, parse_requirements
from .check import ProgramReport, Trouble, check_program
from .naming import agent_of


@dataclass(frozen=True, slots=True)
class AgentChecks:
    """A check of agents from within one test."""

    item: pytest.Item
    say: Callable[[str], None]
    """A function that adds a line to the summary of the session."""

    def __call__(
        self,
        agent: str | type[Loop] | Loop | Callable[..., object],
        *,
        require: Mapping[str, str] | str = "",
        faults: Sequence[str] = (),
    ) -> ProgramReport:
        """Run an agent with one fault at a time, and fail the test if a demanded outcome is missing.

        `agent`: a command line, `my.module:solve`, a framework, a design, or an object: a loop, its class, a function. `require`:
        fault → outcome, such as {"unknown_tool": "told", "empty": "recovered"}; without it the test fails only if the agent does
        not solve the task undisturbed. `faults`: only these, beside those that are demanded. Bad settings fail the test with a
        line that names them.
        """
        check_not_async(self.item, "agent_checks")
        try:
            demanded = parse_requirements(require)
            names = {*faults, *demanded} if faults or demanded else set(BY_NAME)
            for name in names - BY_NAME.keys():
                raise ValueError(f"there is no fault {name!r}; known: {', '.join(BY_NAME)}")
            loop, name = agent_of(agent)
            chosen = [fault for fault in BY_NAME.values() if fault.name in names]
            report = check_program(loop, name, faults=chosen)
            counts = Counter(finding.outcome for finding in report.findings)
            self.say(f"{report.agent}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}")
            missing, details = report.missing(demanded), {finding.fault: finding.detail for finding in report.findings}
            if not missing:
                return report
            problem = "\n".join([report.agent, *(f"{line} ({details[fault]})" for fault, line in missing.items())])
        except (ValueError, OSError, Trouble) as error:
            problem = str(error)
        pytest.fail(f"agent_checks: {safe_for_others(problem)}", pytrace=False)  # out here, where no context prints it twice
