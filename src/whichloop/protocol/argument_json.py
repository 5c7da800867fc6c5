"""An argument of a call as JSON says it, so that the tool's type reads it back: what a model would have written."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from typing import Any

from .values import ATOMS, jsonable


def argument_json(value: object, *, by_alias: bool = False) -> object:
    """Return the JSON form of an argument. Raises what JSON or a user's own type raises for a value that cannot be said.

    An enum's member is its value, a date or a time ISO 8601, a set a sorted list, a pydantic model or a dataclass an object.
    `by_alias`: pydantic's models by their aliases, as they are read.
    """
    return value if type(value) in ATOMS and value == value else _Writer(by_alias).form(value)  # NaN is no JSON


def argument_forms(value: object) -> tuple[Any, Any]:
    """Return the JSON form with pydantic's models by their fields' names, and by their aliases. Raises as `argument_json` does."""
    writer = _Writer(by_alias=False)
    plain = writer.form(value)
    return plain, _Writer(by_alias=True).form(value) if writer.met_model else plain


class _Writer:
    """Writes one value, and notes whether a pydantic model is in it."""

    def __init__(self, by_alias: bool) -> None:
        self.by_alias = by_alias
        self.met_model = False
        self._encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=self._written)

    def form(self, value: object) -> Any:
        return json.loads(self._encoder.encode(value))

    def _written(self, value: object) -> object:
        """Return what a value of another type than JSON's is written as."""
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, set | frozenset):
            return [json.loads(text) for text in sorted(map(self._encoder.encode, value))]
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return _duration(value)
        self.met_model = self.met_model or (callable(getattr(value, "model_dump", None)) and not is_dataclass(value))
        return jsonable(value, by_alias=self.by_alias)


def _duration(value: timedelta) -> str:
    """Return a duration in ISO 8601, in days and seconds."""
    sign, whole = ("-", -value) if value < timedelta() else ("", value)
    part = f".{whole.microseconds:06}" if whole.microseconds else ""
    return f"{sign}P{whole.days}DT{whole.seconds}{part}S"
