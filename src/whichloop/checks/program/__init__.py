"""What an agent does with one fault at a time: a run for each, judged from its requests, its calls and its answer."""

from .agent_faults import FAULTS, OUTCOMES, RECOVERED, Outcome, parse_requirements
from .check import ProgramReport, Trouble, check_program

__all__ = ["FAULTS", "OUTCOMES", "RECOVERED", "Outcome", "ProgramReport", "Trouble", "check_program", "parse_requirements"]
