"""The laws that every loop must keep, with a check for any of them: `check_loop(loop)`."""

from .check import LAWS, check_loop
from .law import Finding, Law

__all__ = ["LAWS", "Finding", "Law", "check_loop"]
