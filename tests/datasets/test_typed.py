"""Forms with nested schemas: each valid, each leaf decisive, each value to be had from a tool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import typed
from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite
from whichloop.datasets.typed import records as system
from whichloop.datasets.typed.desk import blank
from whichloop.datasets.typed.records import FormRecord, RecordNotFound, Records, ResultWithdrawn

DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31)).map(date.isoformat)


@pytest.fixture(scope="module")
def many() -> Suite:
    return typed.load(size=78, seed=4)


def objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """All object schemas in a schema."""
    if schema.get("type") == "object":
        yield schema
        for inner in schema["properties"].values():
            yield from objects(inner)
    elif schema.get("type") == "array":
        yield from objects(schema["items"])


def depth(schema: Mapping[str, Any]) -> int:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return 1 + max(map(depth, inner), default=0)


# --- schemas and scores ---


def test_schemas_are_valid_and_take_the_expected_answer(many: Suite) -> None:
    for task in many.tasks[:26]:
        schema = task.query.schema
        assert schema is not None
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(task.expected)
        assert schema["type"] == "object"
        assert all(item["additionalProperties"] is False for item in objects(schema))
        assert all(set(item["required"]) == set(item["properties"]) for item in objects(schema))
        assert depth(schema) >= 4  # leaves in rows in the form, at least


def test_a_blank_form_reads_like_one() -> None:
    schema = {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": ["integer", "null"]}},
            "on": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
            "id": {"type": ["string", "null"], "pattern": "^A-[0-9]$"},
            "kind": {"enum": ["new", None]},
        },
    }
    told = '{"rows": [1 to 3 times whole number or null], "on": YYYY-MM-DD, "id": text like A-[0-9] or null, "kind": "new" or null}'
    assert blank(schema) == told


# --- laws of the records system ---


@given(st.integers(0, 10**8).map(lambda cents: cents / 100), st.integers(5_000, 20_000), st.integers(5_000, 20_000))
def test_currency_goes_and_comes_back(amount: float, one: int, two: int) -> None:
    records = Records(rates={"EUR": str(one / 10_000), "USD": str(two / 10_000)})
    there = system.convert_currency(records, amount, "EUR", "USD")
    assert abs(system.convert_currency(records, there, "USD", "EUR") - amount) <= 0.005 * two / one + 0.0051


@settings(max_examples=cases(10), deadline=None)
@given(st.integers(0, 10**6), st.dictionaries(st.text(max_size=5), st.integers() | DATES | st.booleans(), min_size=1))
def test_a_draft_has_the_same_names_and_other_values(key: int, section: dict[str, Any]) -> None:
    drafted = system.altered(Draw(key), section)
    assert drafted == system.altered(Draw(key), section)
    assert drafted.keys() == section.keys()
    assert all(drafted[name] != value for name, value in section.items())
    assert all(type(drafted[name]) is type(value) for name, value in section.items())


@pytest.fixture
def records() -> Records:
    made = Records(tables={"sides": {"T1": "home"}}, rates={"EUR": "1"})
    made.add(FormRecord("R-10000", "match", "MT-12", {"head": {"on": "2024-02-29"}}, {"gate": "spilled"}))
    return made


def test_what_is_not_there_is_said_in_one_sentence(records: Records) -> None:
    for call, arguments, error, said in (
        (
            system.find_record,
            ["match", "MT-21"],
            RecordNotFound,
            "no 'match' has the reference 'MT-21'; there are records of .* match",
        ),
        (system.find_record, ["book", "MT-12"], RecordNotFound, "no 'book' has the reference"),
        (system.fetch, ["R-2", "head"], RecordNotFound, "no record 'R-2'; ids look like R-12345"),
        (system.fetch, ["R-10000", "tail"], RecordNotFound, "R-10000 has no section 'tail'; it has head"),
        (system.fetch, ["R-10000", "gate"], ResultWithdrawn, "section 'gate' of R-10000 was withdrawn, reason: spilled"),
        (system.fetch_draft, ["R-10000", "gate"], RecordNotFound, "has no section 'gate'"),
        (system.look_up_code, ["colours", "T1"], RecordNotFound, "no code table 'colours'; there are sides"),
        (system.look_up_code, ["sides", "T2"], RecordNotFound, "'sides' has no 'T2'; it has T1"),
        (system.convert_currency, [1, "EUR", "USD"], RecordNotFound, "no rate for 'USD'; there are rates for EUR"),
    ):
        with pytest.raises(error, match=said):
            call(records, *arguments)
    for text in ("today", "20240229", "2024-W09-4", "2024-2-29"):
        with pytest.raises(ValueError, match=f"'{text}' is no date as YYYY-MM-DD"):
            system.days_between("2024-02-29", text)
    for number in (math.inf, math.nan, 1e300):
        with pytest.raises(OverflowError, match=r"is beyond ±1e\+15"):
            system.sum_values([1.0, number])
        with pytest.raises(OverflowError, match=r"is beyond ±1e\+15"):
            system.convert_currency(records, number, "EUR", "EUR")
    with pytest.raises(ValueError, match="beyond the calendar"):
        system.add_days("2024-02-29", 10**9)
    for values in ([], [1.0] * 101):
        with pytest.raises(ValueError, match="there must be 1 to 100"):
            system.sum_values(values)


def test_each_record_has_a_twin_that_is_easily_mistaken_for_it(many: Suite) -> None:
    for task in many.tasks[:26]:
        world: Records = many.open(task).world  # type: ignore[attr-defined]
        kinds = Counter(kind for kind, _ in world.by_reference)
        assert set(kinds.values()) == {2}
        for (kind, reference), record in world.by_reference.items():
            [twin] = [item for (other_kind, name), item in world.by_reference.items() if other_kind == kind and name != reference]
            assert sorted(twin.reference)[:-1] == sorted(reference)[:-1] or twin.reference[:-2] == reference[:-2]
            assert twin.sections.keys() <= record.sections.keys() | record.withdrawn.keys()
