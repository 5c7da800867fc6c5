"""A mistake in the words of a command, in one line: what it is about, what would be right, and where the help is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from whichloop.protocol.cured_error import needed
from whichloop.protocol.names import most_like, near

from .help import argument_name

_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", re.DOTALL)
_COMMAND = re.compile(r"No such command '(.*?)'", re.DOTALL)
_VALUE = re.compile(r"Option '?(--?[\w-]+)'? requires (?:an argument|\d+ arguments)")
_NUMBER = re.compile(r"(?P<got>.*) is not a valid (?P<kind>int|float)\w*\.?", re.DOTALL)
_CHOICE = re.compile(r"(?P<got>.*) is not one of (?P<known>.*?)\.?", re.DOTALL)
_NUMBERS: Mapping[str, str] = {"int": "a whole number", "float": "a number"}
FIXED_BY_BASELINE = ("--tasks", "--suite", "--data", "--tools", "--profile", "--model")
"""Options of a comparison that a gate takes from its baseline."""
MAX_KIN = 3
"""Options that end in the same word as a mistyped one, beside the one that is most like it."""
MAX_HELP = 60
"""Characters of the help of what is missing."""


def usage_line(error: Any) -> str:
    """Return the line for what the parser of the command line raises."""
    context = error.ctx
    path = "whichloop" if context is None else context.command_path
    mistake = _mistake_in_words(error, context)
    return f"error: {mistake}{'' if mistake.endswith('?') else ';'} see {path} --help"


def _mistake_in_words(error: Any, context: Any) -> str:
    message = str(error.message).removeprefix("Value error, ")
    if getattr(error, "param", None) is not None:
        return _about(error)
    if (option := getattr(error, "option_name", None)) is not None and hasattr(error, "possibilities"):
        return f"no option {option}{_of_the_baseline(option, context) or _meant_by(option, context)}"
    if match := _COMMAND.match(message):
        return f"no command {match[1]!r}{_asked(match[1], context.command.commands)}"
    if match := _EXTRA.match(message):
        return _unexpected(match[1], context)
    if match := _VALUE.match(message):
        matching = next((param for param in _options(context) if match[1] in param.opts), None)
        return f"{match[1]} needs a value{_meaning(matching)}"
    return message.rstrip(".")


def _about(error: Any) -> str:
    """Return what is wrong with the value of an option or an argument; without a message it is missing."""
    param, message = error.param, str(error.message).removeprefix("Value error, ")
    name = max(param.opts, key=len) if param.param_type_name == "option" else argument_name(param)
    if not message:
        return f"{name} is missing{_meaning(param)}"
    if match := _CHOICE.fullmatch(message):
        choices = match["known"].replace("'", "").split(", ")
        got = match["got"].strip("'")
        return f"{name}: {got!r} is none of {', '.join(choices)}{_asked(got, choices)}"
    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors(include_url=False)[0]
        return f"{name}: {needed(first)}, got {first['input']!r}"
    if match := _NUMBER.fullmatch(message):
        return f"{name}: {_NUMBERS[match['kind']]} is needed, got {match['got']}"
    return f"{name}: {message.rstrip('.')}"


def _unexpected(words: str, context: Any) -> str:
    """Return what to do about values that stand behind no option."""
    first = words.split()[0] if words.split() else words
    if any(param.param_type_name == "argument" for param in context.command.params):
        return f"unexpected {first!r}: the command takes no more than {_arguments(context)}"
    such = f", such as --loop {first}" if "--loop" in _flags(context) else ""
    return f"unexpected {first!r}: each value stands behind its option{such}"


def _arguments(context: Any) -> str:
    return " ".join(argument_name(param) for param in context.command.get_params(context) if param.param_type_name == "argument")


def _of_the_baseline(option: str, context: Any) -> str:
    """Return what to do instead of an option that would give a gate other tasks than its baseline has; empty for any other."""
    if context is None or context.command_path != "whichloop gate" or option not in FIXED_BY_BASELINE:
        return ""
    return f": a gate runs what its baseline ran; bless another run, of whichloop compare {option} …"


def _meant_by(option: str, context: Any) -> str:
    """Return what an option that there is not may stand for: others, or an argument, which no flag stands before.

    Beside the option that is most like it stand those that end in the same word: `--limit-tokens` may be `--trial-budget-tokens`.
    """
    typed = option.lstrip("-")
    if context is not None and typed.upper() in _arguments(context).split():
        return f"; {typed.upper()} stands without a flag"
    if context is not None and option in ("--loop", "--profile") and "A" in _arguments(context).split():
        return "; an arm is typed as LOOP/PROFILE, such as bare/flaky-tools"
    flags = {flag.lstrip("-"): flag for flag in _flags(context)}
    similar = most_like(typed, flags)  # without dashes, which make all flags look alike
    if similar is None:
        return ""
    _, dash, last = typed.rpartition("-")
    kin = [name for name in flags if dash and name != similar and name.endswith(f"-{last}")][:MAX_KIN]
    return f"; did you mean {' or '.join(repr(flags[name]) for name in (similar, *kin))}?"


def _flags(context: Any) -> list[str]:
    return [flag for param in _options(context) for flag in (*param.opts, *param.secondary_opts)]


def _options(context: Any) -> Iterator[Any]:
    params = () if context is None else context.command.get_params(context)
    return (param for param in params if param.param_type_name == "option")


def _asked(typed: str, names: Any) -> str:
    """Return the question after what was meant, behind a semicolon; empty if nothing is like it."""
    suggestion = near(typed, names)
    return f"; {suggestion}" if suggestion else ""


def _meaning(param: Any) -> str:
    """Return the first words of a parameter's help, behind a colon."""
    text = str(getattr(param, "help", None) or "")
    first = re.split(r"[.,;:] | \(|\.$| \[default", text)[0]
    words = first if first[:2].isupper() else f"{first[:1].lower()}{first[1:]}"
    return f": {words}" if first and len(first) <= MAX_HELP else ""
