"""The names of whichloop.checks.suite for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from whichloop.checks.suite.check import CHECKS as CHECKS
from whichloop.checks.suite.check import Checked as Checked
from whichloop.checks.suite.check import check_suite as check_suite
from whichloop.checks.suite.check import quick_problems as quick_problems
from whichloop.checks.suite.check import sampled as sampled
from whichloop.checks.suite.check import task_problems as task_problems
