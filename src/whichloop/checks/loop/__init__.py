"""The laws that every loop must keep, with a check for any of them: `check_loop(loop)`."""

from ..shared.law import Finding, Law
from .check import LAWS, check_loop

__all__ = ["LAWS", "Finding", "Law", "check_loop"]
