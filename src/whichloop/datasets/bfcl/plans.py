"""Plans from right calls: each call once, with the first of its allowed values that its function takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.protocol import Plan, PlannedCall

from .functions import ParameterRow, StubFunction
from .literals import Language, write_literal

MADE = "The calls are made."
NOTHING_FITS = "None of the functions fits this."


class Contradiction(ValueError):
    """Right calls that the row's own functions do not take; the message says which and why."""


class NoFittingValue(ValueError):
    """Allowed values of a parameter that all contradict the type that a model is shown: right, but nothing that a plan may do."""


def plan_of(
    calls: Sequence[Mapping[str, Mapping[str, Any]]], functions: Mapping[str, StubFunction], language: Language = "python"
) -> Plan:
    """Plan the right calls, each with the first of its allowed values that fits the schema; none needs another.

    Raises Contradiction and NoFittingValue.
    """
    planned = []
    for number, call in enumerate(calls, start=1):
        ((name, allowed),) = call.items()
        if name not in functions:
            raise Contradiction(f"call {number} is of {name!r}, which is none of its functions")
        function = functions[name]
        arguments = _arguments(allowed, function, language, f"call {number}, {name!r}")
        planned.append(PlannedCall(f"c{number}", function.tool, arguments, f"Call {number}: run {function.tool}."))
    return Plan(tuple(planned), MADE if planned else NOTHING_FITS)


def _arguments(allowed: Mapping[str, Any], function: StubFunction, language: Language, where: str) -> dict[str, Any]:
    properties, required = function.row.parameters.properties or {}, function.row.parameters.required or ()
    arguments = {}
    for name, options in allowed.items():
        if name not in properties:
            raise Contradiction(f"{where}: it has no parameter {name!r}")
        if not options:
            raise Contradiction(f"{where}: no value of {name!r} is allowed, and neither is leaving it out")
        if options[0] == "" and name not in required:
            continue
        fitting = [value for value in _values(options, properties[name], language) if function.shows(name, value)]
        if not fitting:
            raise NoFittingValue(f"possible_answer: {where}: no allowed value of {name!r} has its type")
        arguments[name] = fitting[0]
    problem = function.problem(arguments)
    if problem:
        raise Contradiction(f"{where}: {problem}")
    return arguments


def _values(options: Sequence[Any], parameter: ParameterRow, language: Language) -> Iterator[Any]:
    for option in [option for option in options if option != ""] or [""]:
        value = _value(option, parameter)
        if language == "python":
            yield value
            continue
        try:
            yield write_literal(value, parameter.type, parameter.items.type if parameter.items else None, language)
        except ValueError:
            continue


def _value(option: Any, parameter: ParameterRow) -> Any:
    """Return an allowed value as a call has it. An object's field gets its first allowed value, and is left out if that is `""`."""
    if isinstance(option, list):
        return [_value(item, parameter.items or _ANY) for item in option]
    if not isinstance(option, dict):
        return option
    fields = {}
    for name, options in option.items():
        choices = options if isinstance(options, list) and options else [options]
        if choices[0] == "" and name not in (parameter.required or ()):
            continue
        choice = next((item for item in choices if item != ""), "")
        fields[name] = _value(choice, (parameter.properties or {}).get(name, _ANY))
    return fields


_ANY = ParameterRow()
