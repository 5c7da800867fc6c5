"""The names of loopbench.cli for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from loopbench.cli.running import carry_out_new as carry_out_new
