"""The command line: parse, call, print.

What carries out a run loads when it is called: the help of a command needs its flags alone.
"""

from __future__ import annotations

from loopbench._lazy import lazy

_HOMES = {"loopbench.cli.running": ("carry_out_new",)}

__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
