"""The names of loopbench.checks.suite for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from loopbench.checks.suite.check import CHECKS as CHECKS
from loopbench.checks.suite.check import Checked as Checked
from loopbench.checks.suite.check import check_suite as check_suite
from loopbench.checks.suite.check import task_problems as task_problems
from loopbench.checks.suite.quick import quick_problems as quick_problems
from loopbench.checks.suite.subject import Progress as Progress
from loopbench.checks.suite.subject import SuiteCheck as SuiteCheck
from loopbench.checks.suite.subject import SuiteFinding as SuiteFinding
from loopbench.checks.suite.subject import sampled as sampled
