"""What an agent does with one fault at a time: a run for each, judged from its requests, its calls and its answer."""

from .agent_faults import FAULTS, AgentFault
from .check import ProgramReport, Trouble, check_program
from .finding import OUTCOMES, RECOVERED, FaultFinding, Outcome
from .requirements import Requirement, parse_requirements

__all__ = [
    "FAULTS",
    "OUTCOMES",
    "RECOVERED",
    "AgentFault",
    "FaultFinding",
    "Outcome",
    "ProgramReport",
    "Requirement",
    "Trouble",
    "check_program",
    "parse_requirements",
]
