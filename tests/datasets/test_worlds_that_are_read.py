"""Worlds that are read and reckoned with: searches take any text, trails lead on, and sums are what arithmetic says."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import calculator, library
from whichloop.datasets.agriculture import region as sources
from whichloop.datasets.agriculture.region import Region
from whichloop.datasets.agriculture.season import SeasonStory
from whichloop.datasets.facts import drawn
from whichloop.datasets.generating import Draw
from whichloop.datasets.library import shelves as desk
from whichloop.datasets.library.collection import COASTS, MERGED_PER_COAST, Document, collection
from whichloop.datasets.library.shelves import BadQuery, DocumentMerged, NoSuchPage, UnknownTag
from whichloop.datasets.long_haul import archive as archives
from whichloop.datasets.long_haul.archive import ArchiveError, TrailArchive, VaultShut
from whichloop.datasets.typed import records as system
from whichloop.datasets.typed.records import Records
from whichloop.protocol.json_text import digest

HELD = collection()
DOCUMENTS = list(HELD.documents.values())
PLAIN = {item.id: " ".join(re.findall(r"\w+", item.text.casefold())) for item in DOCUMENTS}
OLD, NEW = next(iter(HELD.merged.items()))
documents = st.sampled_from(DOCUMENTS)


@settings(max_examples=cases(25), deadline=None)
@given(query=st.text(max_size=80) | st.text(alphabet='"*^:-+(){}[]ANDORNTE ab\0', max_size=40), limit=st.integers(1, 20))
def test_any_text_is_a_query_or_refused_in_words(query: str, limit: int) -> None:
    if not re.search(r"\w", query):
        with pytest.raises(BadQuery, match="no word"):
            desk.search(HELD, query, limit)
        return
    found = desk.search(HELD, query, limit)["results"]
    assert len(found) <= limit
    assert found == desk.search(HELD, query, 20)["results"][:limit]


@settings(max_examples=cases(10), deadline=None)
@given(documents, st.integers(0, 30), st.integers(3, 6))
def test_a_phrase_finds_the_documents_that_hold_it(document: Document, start: int, length: int) -> None:
    words = " ".join(re.findall(r"\w+", document.text)[start : start + length])
    if not words:
        return
    found = desk.search(HELD, f'"{words}"', 20)["results"]
    holding = {item.id for item in DOCUMENTS if f" {words.casefold()} " in f" {PLAIN[item.id]} "}
    assert len(found) == 20 or holding <= {item["id"] for item in found}  # word stems may find more, never less


def test_the_digest_that_the_suite_states_is_that_of_the_collection() -> None:
    documents = [[item.id, item.title, item.tag, item.year, item.links] for item in HELD.documents.values()]
    pages = [[[page.text, page.record] for page in item.pages] for item in HELD.documents.values()]
    assert digest([documents, pages, HELD.merged]) == library.COLLECTION_DIGEST == library.load().shared
    assert len(HELD.documents) == len(HELD.ids) == 32 * COASTS
    assert len(HELD.merged) == MERGED_PER_COAST * COASTS
    assert not HELD.merged.keys() & HELD.documents.keys()


@pytest.mark.parametrize(
    ("error", "words", "tool", "arguments"),
    [
        (DocumentMerged, "document_history", desk.read_document, [OLD]),
        (NoSuchPage, "pages 1 to", desk.read_document, [NEW, 9]),
        (UnknownTag, "'Atlantis'", desk.list_documents, ["Atlantis"]),
        (BadQuery, "between 1 and 20", desk.search, ["ship", 21]),
        (BadQuery, "has 100002 characters; at most 1000", desk.search, [f'"{"the " * 25_000}"']),  # took 13 s
        (BadQuery, "beyond ±", desk.summarize_numbers, [[1, float("nan")]]),
    ],
)
def test_errors_say_what_is_wrong(error: type[Exception], words: str, tool: Callable[..., Any], arguments: list[Any]) -> None:
    with pytest.raises(error, match=words):
        tool(HELD, *arguments)


few_trails = settings(max_examples=cases(6), deadline=None)
FACTS = st.lists(st.sampled_from(["booked", "price", "ticket", "seal"]), unique=True, max_size=2).map(tuple)


@st.composite
def archive(draw: st.DrawFn, least_seals: int = 0) -> TrailArchive:
    """Any archive that a task may ask for."""

    def places(low: int, high: int, least: int = 0) -> list[int]:
        return sorted(draw(st.sets(st.integers(low, high), min_size=least, max_size=3)))

    lengths = draw(st.lists(st.integers(8, 20), min_size=1, max_size=3))
    seals, facts = places(0, lengths[0] - 2, least_seals), draw(FACTS)
    return TrailArchive(
        key=draw(st.integers(0, 10**12)),
        lengths=lengths,
        facts=[*facts, "seal"] if seals else facts,
        is_wordy=draw(st.booleans()),
        annex_every=draw(st.integers(0, 5)),
        moved=places(2, lengths[0] - 1),
        is_lost=draw(st.booleans()),
        burnt=draw(st.lists(st.integers(0, len(lengths) - 1), max_size=1)),
        seals_at=seals,
    )


@few_trails
@given(archive())
def test_a_trail_is_read_from_card_to_card(archive: TrailArchive) -> None:
    for number, trail in enumerate(archive.trails):
        code: str | None = trail[0].code
        for card in trail:
            assert code is not None
            read = archives.read_card(archive, archives.find_moved(archive, code)["moved_to"] if code in archive.moved_to else code)
            assert read["card"] == card.code
            assert read == archives.read_card(archive, card.code)  # each reading gives the same
            code = read["next_card"]
        if archive.is_lost and number == 0:
            with pytest.raises(ArchiveError, match="not in its drawer"):
                archives.read_card(archive, code or "")
            with pytest.raises(ArchiveError, match="does not know"):
                archives.find_moved(archive, code or "")
        else:
            assert code is None


@few_trails
@given(archive(least_seals=1), st.randoms(use_true_random=False))
def test_a_vault_opens_with_its_seals_and_no_others(archive: TrailArchive, random: Any) -> None:
    [(vault, (wanted, crates))] = archive.vaults.items()
    seals = sorted(wanted)
    random.shuffle(seals)
    assert archives.open_vault(archive, vault, seals) == {"vault": vault, "crates_inside": crates}
    for wrong in (seals[1:], [*seals, "kite-000"], [*seals[1:], "kite-000"]):
        with pytest.raises(VaultShut):
            archives.open_vault(archive, vault, wrong)


few = settings(max_examples=cases(12), deadline=None)
amounts = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))


def season_of(key: object) -> SeasonStory:
    story = SeasonStory(Draw("test", key))
    story.draw_season()
    return story


region = Region(season_of(0).region)


@few
@given(
    values=st.lists(amounts, min_size=1, max_size=8),
    units=st.sampled_from(
        [("F", "C"), ("inch", "mm"), ("mph", "m/s"), ("acre", "hectare"), ("lb", "tonne"), ("1000 gallons", "m3")]
    ),
)
def test_a_conversion_and_its_reverse_give_the_numbers_back(values: list[float], units: tuple[str, str]) -> None:
    there = sources.convert_units(region, values, *units)["values"]
    back = sources.convert_units(region, there, *reversed(units))["values"]
    assert back == pytest.approx(values, rel=1e-9, abs=1e-6)


@few
@given(days=st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 20)), min_size=2, max_size=10), base=st.integers(0, 12))
def test_degree_days_add_up_and_never_fall(days: list[tuple[int, int]], base: int) -> None:
    highs, lows = [float(low + more) for low, more in days], [float(low) for low, _ in days]

    def gathered(part: slice, base: float) -> float:
        told: float = sources.growing_degree_days(region, highs[part], lows[part], base)["growing_degree_days"]
        return told

    whole = slice(None)
    assert gathered(slice(1), base) + gathered(slice(1, None), base) == gathered(whole, base) >= 0
    assert gathered(whole, base + 1) <= gathered(whole, base)
    assert gathered(whole, 50) == 0


DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31)).map(date.isoformat)


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


@given(st.integers(0, 10**13), st.integers(5_000, 20_000), st.integers(5_000, 20_000))
@example(1_234_567_890_123, 10_000, 10_000)
def test_currency_goes_and_comes_back_and_sums_keep_their_cents(cents: int, one: int, two: int) -> None:
    amount = cents / 100
    assert system.sum_values([amount, 0.01]) == (cents + 1) / 100
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


cents = st.integers(-10_000_000, 10_000_000).map(lambda number: number / 100)
any_float = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)


def fraction(number: float) -> Fraction:
    return Fraction(Decimal(repr(number)))


@given(cents, cents)
def test_sums_and_products_of_decimals_are_exact(a: float, b: float) -> None:
    assert fraction(calculator.add(a, b)) == fraction(a) + fraction(b)
    assert fraction(calculator.subtract(a, b)) == fraction(a) - fraction(b)
    product = fraction(a) * fraction(b)
    assert abs(fraction(calculator.multiply(a, b)) - product) <= abs(product) * Fraction(1, 10**11)


@given(cents, cents)
def test_quotients_have_twelve_digits(a: float, b: float) -> None:
    assume(b)
    quotient = fraction(a) / fraction(b)
    assert abs(fraction(calculator.divide(a, b)) - quotient) <= abs(quotient) * Fraction(1, 10**11)


@given(cents, cents)
def test_remainder_is_what_whole_multiples_leave(a: float, b: float) -> None:
    assume(b)
    rest = fraction(calculator.remainder(a, b))
    assert (fraction(a) - rest) % fraction(b) == 0
    assert 0 <= rest * (1 if b > 0 else -1) < abs(fraction(b))


two_numbers = st.sampled_from([tool for tool in calculator.TOOLS if tool.name not in ("convert_units", "round_to")])


@given(two_numbers, any_float, any_float)
def test_any_numbers_give_a_number_in_range_or_a_plain_error(tool, a, b) -> None:
    names = list(tool.parameters["properties"])
    try:
        result = tool.function(**dict(zip(names, (a, b), strict=True)))
    except (ValueError, ArithmeticError) as error:
        assert str(error)  # noqa: PT017
        return
    assert abs(result) <= calculator.LIMIT
    assert isinstance(result, int) == float(result).is_integer()
    assert isinstance(result, int) or result == float(f"{result:.12g}")


@given(cents, st.sampled_from(list(calculator._UNITS.items())), st.data())
def test_a_unit_and_back_is_the_same_value(value, kind, data) -> None:
    one, other = data.draw(st.sampled_from(list(kind[1]))), data.draw(st.sampled_from(list(kind[1])))
    there = calculator.convert_units(value, one, other)
    assert math.isclose(calculator.convert_units(there, other, one), value, rel_tol=1e-11, abs_tol=1e-9)


@given(cents, st.integers(-12, 12))
def test_rounding_moves_by_half_a_unit_at_most(number: float, digits: int) -> None:
    unit = Fraction(10) ** -digits
    rounded = fraction(calculator.round_to(number, digits))
    assert abs(rounded - fraction(number)) <= unit / 2
    assert rounded % unit == 0


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (calculator.divide(1, 3), 0.333333333333),
        (calculator.power(4, -0.5), 0.5),
        (calculator.remainder(10**15, 5e-324), 0),
        (calculator.round_to(2.675, 2), 2.68),
        (calculator.convert_units(1, "mile", "foot"), 5280),
    ],
)
def test_examples(result, expected) -> None:
    assert result == expected
    assert type(result) is type(expected)
