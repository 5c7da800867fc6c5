"""Partial answers: what is known while JSON is being written."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, Field

from tests.cases import cases
from tests.loops.finish.codec_helpers import JSON, PLAIN_JSON
from tests.rows import row
from whichloop.loops.finish import Partial
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.hooks import partial_json, so_far


class City(BaseModel):
    city_name: str
    population: int
    explanation: str


@row("S3-30")
def test_partial_has_all_fields_optional() -> None:
    kind: Any = Partial[City]
    made = kind()
    assert (made.city_name, made.population, made.explanation) == (None, None, None)
    assert list(kind.model_fields) == ["city_name", "population", "explanation"]
    assert Partial[City] is kind
    with pytest.raises(TypeError, match="pydantic"):
        Partial[int]  # type: ignore[type-var]


def snapshots(model: type[BaseModel], text: str) -> list[Any]:
    """What is known after every character."""
    output = Output.of_model(model)
    found = (so_far(text[:end], output) for end in range(1, len(text) + 1))
    return [each for each in found if each is not None]


@row("S3-46", "S3-30")
def test_strings_grow_and_other_scalars_appear_only_when_complete() -> None:
    seen = snapshots(City, '{"city_name": "Rome \\"x\\" 12", "population": 2800000, "explanation": "old"}')
    names = [part.city_name for part in seen]
    assert {"R", "Rome", 'Rome "x" 1', 'Rome "x" 12'} <= set(names)
    assert all(name is None or 'Rome "x" 12'.startswith(name) for name in names)
    assert {part.population for part in seen} == {None, 2800000}
    kind: Any = Partial[City]
    assert all(isinstance(part, kind) for part in seen)
    assert seen[-1].model_dump() == {"city_name": 'Rome "x" 12', "population": 2800000, "explanation": "old"}


class Kind(StrEnum):
    BIG = "big"


class Mixed(BaseModel):
    kind: Kind
    size: Literal["small", "smallest"]
    day: datetime.date
    share: float
    flag: bool
    count: int
    words: list[str]
    numbers: list[int]
    inner: City | None
    many: list[City]
    loop: Optional[Mixed] = None  # noqa: UP045
    other: str = Field("", alias="another")


MIXED = {
    "kind": "big",
    "size": "smallest",
    "day": "2020-12-31",
    "share": -1.25e3,
    "flag": False,
    "count": "123",
    "words": ["one", "two"],
    "numbers": [12, 345, 6],
    "inner": {"city_name": "Rome", "population": 28, "explanation": "x"},
    "many": [{"city_name": "Oslo", "population": 700, "explanation": "y"}],
    "another": "z",
}


@row("S3-46")
def test_nothing_half_written_passes_for_a_value_and_the_end_is_the_whole() -> None:
    seen = snapshots(Mixed, json.dumps(MIXED))
    assert {part.kind for part in seen} == {None, Kind.BIG}
    assert {part.day for part in seen} == {None, datetime.date(2020, 12, 31)}
    assert {part.share for part in seen} == {None, -1250.0}
    assert {part.count for part in seen} == {None, 123}
    assert next(part.numbers for part in seen if part.numbers) == [12]
    assert {tuple(part.numbers) for part in seen if part.numbers} == {(12,), (12, 345), (12, 345, 6)}
    assert {part.inner.population for part in seen if part.inner} == {None, 28}
    assert {"R", "Rom"} <= {part.inner.city_name for part in seen if part.inner}
    whole = seen[-1]
    assert (whole.size, whole.words, whole.flag, whole.other) == ("smallest", ["one", "two"], False, "z")
    assert whole.many[0].population == 700


@given(value=st.dictionaries(st.sampled_from([*MIXED, "x"]), JSON, max_size=4), cut=st.integers(0, 200))
@settings(deadline=None, max_examples=cases(20))
@row("S3-46")
def test_no_validation_error_arises_while_partial(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)[: cut + 1]
    for model in (Mixed, City):
        snapshots(model, text)


@given(value=st.dictionaries(st.text(max_size=4), PLAIN_JSON, max_size=4), cut=st.integers(1, 60))
@settings(deadline=None)
@row("S3-30")
def test_partial_json_of_a_whole_object_is_the_object_and_a_cut_one_adds_no_key(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    assert partial_json(text) == (value, value)
    found = partial_json(text[:cut])
    if found is not None:
        assert set(found[1]) <= set(found[0]) <= set(value)


@pytest.mark.parametrize("escaped", ['\\"', "\\\\", "\\n"])
def test_partial_json_reads_a_long_string_of_escapes_once(escaped: str) -> None:
    found = partial_json('{"number": 12, "text": "' + escaped * 50_000)  # else every quote would have the rest searched
    assert found is not None
    assert found[1] == {"number": 12}
    assert found[0]["text"] == json.loads(f'"{escaped}"') * 50_000


@dataclass
class Known:
    name: str

    def __post_init__(self) -> None:
        {"known": 1}[self.name]


class Shadowing(BaseModel):
    names: list[str]
    adapters: str
    read: bool
    known: Known
    renamed: str = Field("", validation_alias=AliasChoices("new", "old"))


@row("S3-46")
def test_partial_takes_any_names_and_types_whose_checks_raise_anything() -> None:
    value = {"names": ["a"], "adapters": "x", "read": True, "known": {"name": "known"}, "new": "y"}
    seen = snapshots(Shadowing, json.dumps(value))
    assert {part.known and part.known.name for part in seen} == {None, "known"}
    assert (seen[-1].names, seen[-1].adapters, seen[-1].read, seen[-1].renamed) == (["a"], "x", True, "y")


@pytest.mark.parametrize("text", ["", "[1", "3", "nope", '"x', "[" * 10_000])
def test_partial_json_of_no_object_is_none(text: str) -> None:
    assert partial_json(text) is None
