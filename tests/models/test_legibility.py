"""What a prompt shows of a result: the values that stand in it, found by their place or by their key, and nothing by chance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.models.bench import issue
from whichloop.models.policy import POLICY, PolicyRequest
from whichloop.models.receipts import Ledger, ReceiptEntry
from whichloop.protocol import Plan, Ref, Role, Text, Tool, render_value
from whichloop.protocol.receipts import MIN_ALIGNED, Path, Sighting, bare, legible_parts, sightings
from whichloop.protocol.values import span_of

from . import bench
from .test_receipts import EMBEDDINGS

LAW = settings(max_examples=cases(40), deadline=None)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab é9<&\"'\\{[\n😀", max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abc é"', max_size=4), inner, max_size=3),
    max_leaves=8,
)
ITEMS = {"items": [{"id": 7, "price": 1994}, {"id": 9, "price": 19.5, "in stock": True}], "note": "call Ann, not Bob"}


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path into a value."""
    yield path
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from paths_of(item, (*path, place))


def issued(value: Any) -> tuple[Ledger, ReceiptEntry]:
    ledger = Ledger()
    return ledger, issue(ledger, "look", {}, render_value(value), value, True)


def shown(value: Any, wrap: Callable[[str], str]) -> dict[Path, float]:
    """What a prompt shows of a result that was written into it in some way."""
    ledger, entry = issued(value)
    seen = sightings(wrap(entry.around(entry.text))).get(entry.call, ())
    found: dict[Path, float] = {}
    for one in seen:
        found.update(ledger.parts_shown(entry, one, tuple(paths_of(value))))
    return found


@LAW
@given(value=VALUES, data=st.data())
def test_a_part_stands_in_the_rendering_where_its_span_says(value: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(paths_of(value))))
    start, end = span_of(value, path)
    part = Ref("", path).of(value)
    assert render_value(value)[start:end] == (json.dumps(part, ensure_ascii=False) if path else render_value(value))


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS.keys())
@LAW
@given(value=VALUES)
def test_of_a_whole_result_every_part_is_legible_in_any_format(embed: Callable[[str], str], value: Any) -> None:
    assert shown(value, embed).keys() == set(paths_of(value))


@LAW
@given(value=VALUES, data=st.data(), quoted=st.booleans())
def test_of_a_result_cut_short_those_parts_are_legible_that_end_before_the_cut(value, data, quoted):
    text = render_value(value)
    assume(len("".join(text.split())) > MIN_ALIGNED)
    cut = data.draw(st.integers(0, len(text) - 1))
    kept = f"{text[:cut]}\x01…"  # what follows continues nothing by chance
    found = legible_parts(text, value, Sighting("", "front", json.dumps(kept) if quoted else kept, 0), tuple(paths_of(value)))
    for path in found:
        start, end = span_of(value, path)
        assert len(bare(text[:end])) <= len(bare(text[:cut])), (path, start)
    if len(bare(text[:cut])) >= MIN_ALIGNED and "\\" not in text:
        assert {path for path in paths_of(value) if span_of(value, path)[1] <= cut} <= found.keys()


@pytest.mark.parametrize(
    ("keep", "legible"),
    [
        (lambda text: text[:200], {"first"}),
        (lambda text: text[-200:], {"last"}),
        (lambda text: f"{text[:100]} … {text[-100:]}", {"first", "last"}),
        (lambda text: text[200:-200], set()),
    ],
)
def test_a_cut_result_is_legible_where_it_was_not_cut(keep: Callable[[str], str], legible: set[str]) -> None:
    value = {"first": 17, "long": "words " * 100, "middle": 18, "longer": "more " * 100, "last": 19}
    assert {path[0] for path in shown(value, keep) if path in {("first",), ("middle",), ("last",)}} == legible


@LAW
@given(value=VALUES)
def test_receipts_without_their_results_show_nothing(value: Any) -> None:
    assume(bare(render_value(value)))
    _, entry = issued(value)
    front, back = entry.around("|").split(" | ")
    found = [shown(value, str(text).format) for text in (front, back, f"{front}\n2. {back}", f"1. {front}\n2. ", f"1. {back}\n2. ")]
    assert not any(() in paths for paths in found) or bare(render_value(value)) == "2."


ANEW: dict[str, Callable[[Any], str]] = {
    "python": repr,
    "indented": lambda value: json.dumps(value, indent=2),
    "sorted": lambda value: json.dumps(value, sort_keys=True),
    "yaml": yaml.safe_dump,
}


@pytest.mark.parametrize("write", ANEW.values(), ids=ANEW.keys())
def test_a_result_that_is_written_anew_shows_its_values(write: Callable[[Any], str]) -> None:
    _, entry = issued(ITEMS)
    found = shown(ITEMS, lambda _: entry.around(write(ITEMS)))
    assert found.keys() == set(paths_of(ITEMS))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("price: 1994", ("items", 1, "id")),  # 9 stands within 1994 only
        ("price: 9, id: 1994", ("items", 1, "id")),  # under another key
        ("bid: 9", ("items", 1, "id")),
        ("id: 9.5", ("items", 1, "id")),
        ("id: -9", ("items", 1, "id")),
        ("id: 90", ("items", 1, "id")),
        ("I asked for the id. 9 of 10 were there", ("note",)),
        ("price: 19", ("items", 1, "price")),
        ("", ("items", 1, "id")),
    ],
)
def test_a_value_that_stands_elsewhere_by_chance_is_not_shown(text: str, path: Path) -> None:
    _, entry = issued(ITEMS)
    assert path not in shown(ITEMS, lambda _: entry.around(text))


def look(key: str) -> dict[str, Any]:
    """Three values, far apart."""
    return {"first": f"{key}1", "filler": "words " * 60, "second": f"{key}2", "rest": "more " * 60, "third": f"{key}3"}


TOOLS = (Tool.from_function(look, blocking=False), *bench.TOOLS)


def using(*parts: str, answer: Any) -> bench.Bench:
    """A call, then one for each part of its result."""
    first = bench.planned("c1", "look", key="k")
    later = [bench.planned(f"c{place}", "concat", a=Ref("c1", (part,)), b="!") for place, part in enumerate(parts, 2)]
    return bench.Bench(Plan((first, *later), answer), tools=TOOLS)


def test_a_result_is_known_by_its_receipt_and_the_values_that_are_used() -> None:
    trial = using("first", answer=Ref("c2"))
    text = trial.results("c1")["c1"]
    assert trial.view(text[:60]).results.keys() == {"c1"}
    assert not trial.view(text[:20]).results  # the receipt alone
    assert not trial.view(text[-200:]).results
    assert not trial.view(text[:20], "k1", '{"first": "k1"}').results  # the value, but not in its result
    (said,) = POLICY[Role.SUMMARIZE](trial.view(text[:60]), PolicyRequest(9, {}, 3, bluffs=False)).options
    assert isinstance(said, Text)
    assert ("k1" in said.text, "k2" in said.text) == (True, False), "a summary says no more than was read"
    assert trial.view(said.text).results.keys() == {"c1"}
    unused = bench.Bench(Plan((bench.planned("c1", "look", key="k"), bench.planned("c2", "add", a=1, b=2)), Ref("c2")), tools=TOOLS)
    seen = unused.results()
    assert unused.view(seen["c1"][:20], seen["c2"]).results.keys() == {"c1", "c2"}, "what nobody uses is known by its receipt"
