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
from whichloop.datasets.facts import drawn
from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite
from whichloop.datasets.typed import records as system
from whichloop.datasets.typed.desk import blank
from whichloop.datasets.typed.records import FormRecord, RecordNotFound, Records, ResultWithdrawn

DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31)).map(date.isoformat)
FILED = {"R-10000": FormRecord("R-10000", "match", "MT-12", {"head": {"on": "2024-02-29"}}, {"gate": "spilled"})}
RECORDS = Records(FILED, tables={"sides": {"T1": "home"}}, rates={"EUR": "1"})
DAY, FAR = "2024-02-29", r"is beyond ±1e\+15"


@pytest.fixture(scope="module")
def many() -> Suite:
    return typed.load(size=78, seed=4)


def objects(schema: Any, depth: int = 1) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """All object schemas in a schema, each with its depth."""
    if schema.get("type") == "object":
        yield depth, schema
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from objects(inner, depth + 1)


def test_schemas_are_valid_and_take_the_expected_answer(many: Suite) -> None:
    for task in many.tasks[:26]:
        schema = task.query.schema
        assert schema is not None
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(task.expected)
        assert all(item["additionalProperties"] is False for _, item in objects(schema))
        assert all(set(item["required"]) == set(item["properties"]) for _, item in objects(schema))
        assert max(depth for depth, _ in objects(schema)) >= 3  # rows in the form, at least


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


@pytest.mark.parametrize(
    ("said", "drawn_ones"),
    [
        ("[5-7]", {5, 6, 7}),
        ("0[01-02]", {"001", "002"}),
        ("[AB]-[1-2]", {"A-1", "A-2", "B-1", "B-2"}),
        ("[a|null|3|towns:2:]", {"a", None, 3, "Thornby"}),
        ("[each] [towns::1]", {"this Alverton"}),
        ("maybe [each]", {None, "this"}),
        ("cents [150-151]", {1.5, 1.51}),
        ("text [7-7]", {"7"}),
        ("chance 0.5", {True, False}),
        ("twice [2-3]", {4, 6}),
    ],
)
def test_a_fact_is_drawn_as_its_text_says(said: str, drawn_ones: set[Any]) -> None:
    names = {"towns": ["Alverton", "Jarrow", "Thornby"], "each": "this", "twice": lambda number: 2 * number}
    assert {drawn(Draw("facts", key), said, names) for key in range(60)} == drawn_ones


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
    assert all(drafted[name] != value and type(drafted[name]) is type(value) for name, value in section.items())


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "said"),
    [
        (system.find_record, ["match", "MT-21"], RecordNotFound, "no 'match' has the reference 'MT-21'; there are .* match"),
        (system.find_record, ["book", "MT-12"], RecordNotFound, "no 'book' has the reference"),
        (system.fetch, ["R-2", "head"], RecordNotFound, "no record 'R-2'; ids look like R-12345"),
        (system.fetch, ["R-10000", "tail"], RecordNotFound, "R-10000 has no section 'tail'; it has head"),
        (system.fetch, ["R-10000", "gate"], ResultWithdrawn, "section 'gate' of R-10000 was withdrawn, reason: spilled"),
        (system.fetch_draft, ["R-10000", "gate"], RecordNotFound, "has no section 'gate'"),
        (system.look_up_code, ["colours", "T1"], RecordNotFound, "no code table 'colours'; there are sides"),
        (system.look_up_code, ["sides", "T2"], RecordNotFound, "'sides' has no 'T2'; it has T1"),
        (system.convert_currency, [1, "EUR", "USD"], RecordNotFound, "no rate for 'USD'; there are rates for EUR"),
        *((system.convert_currency, [number, "EUR", "EUR"], OverflowError, FAR) for number in (math.inf, math.nan, 1e300)),
        *((system.sum_values, [[1.0, number]], OverflowError, FAR) for number in (math.inf, math.nan, 1e300)),
        *((system.sum_values, [values], ValueError, "there must be 1 to 100") for values in ([], [1.0] * 101)),
        (system.add_days, [DAY, 10**9], ValueError, "beyond the calendar"),
        *(
            (system.days_between, [DAY, text], ValueError, f"'{text}' is no date as YYYY-MM-DD")
            for text in ("today", "20240229", "2024-W09-4", "2024-2-29")
        ),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(tool: Any, arguments: list[Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tool(*([] if tool in (system.sum_values, system.add_days, system.days_between) else [RECORDS]), *arguments)


def test_each_record_has_a_twin_that_is_easily_mistaken_for_it(many: Suite) -> None:
    for task in many.tasks[:26]:
        records: list[FormRecord] = list(many.open(task).world.by_id.values())  # type: ignore[attr-defined]
        assert set(Counter(record.kind for record in records).values()) == {2}
        for one, twin in zip(records[::2], records[1::2], strict=True):
            assert (one.kind, one.reference != twin.reference) == (twin.kind, True)
            assert sorted(twin.reference)[:-1] == sorted(one.reference)[:-1] or twin.reference[:-2] == one.reference[:-2]
            assert twin.sections.keys() == one.sections.keys()
