"""The short way to name a program of the user's own, as `--program` takes it."""

from __future__ import annotations

import re
import shlex

from whichloop.protocol.names import Spec, parse_spec
from whichloop.protocol.own_code import loop_of_program

_SHORT = re.compile(r"(?P<command>.*?)\s*(?P<options>\(\s*[A-Za-z_]\w*\s*=.*\))?", re.DOTALL)


def program_spec(text: str) -> str:
    """Return the loop that a command line or the name of a function stands for, with options in brackets behind it.

    `python my_agent.py` is `program(command="python my_agent.py")`, and `my.module:solve(venv=new)` has that option, too.
    Raises ValueError, without the name of a flag, for an empty one, for options that cannot be read, and for a loop.
    """
    parts = _SHORT.fullmatch(text.strip())
    assert parts is not None
    options = parse_spec(f"program{parts['options'] or ''}").options
    if not parts["command"]:
        raise ValueError("write a command line, my.module:function or FILE.py:function")
    if "command" in options:
        raise ValueError(f"{text!r}: command stands in front of the brackets")
    if loop := loop_of_program(parts["command"]):
        spec = shlex.quote(str(Spec(loop, options)))
        raise ValueError(
            f"{loop.partition(':')[2]} is a loop, no program: write --loop {spec}; its laws: whichloop check loop {spec}"
        )
    return str(Spec("program", {"command": parts["command"], **options}))
