"""Near copies among many texts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.generating import Draw
from whichloop.datasets.validity.checks import alike, wording

WORDS = [f"{first}{last}" for first in ("ba", "co", "du", "fi", "lo", "mi", "no", "ra", "su", "ti") for last in "bdfgklmnprst"]


def text(key: object, words: int = 40) -> list[str]:
    draw = Draw("text", key)
    return [draw.choice(WORDS) for _ in range(words)]


def grouped(wordings: list[str]) -> set[frozenset[str]]:
    return {frozenset(wordings[place] for place in group) for group in alike(wordings)}


@given(st.integers(0, 1_000), st.integers(0, 39))
@settings(max_examples=cases(12))
def test_one_word_changed_is_a_near_copy_and_another_text_is_none(key: int, place: int) -> None:
    one = text(key)
    changed = [*one[:place], "changed", *one[place + 1 :]]
    texts = [" ".join(words) for words in (one, text(key + 1), changed, text(key + 2))]
    assert alike(texts) == [[0, 2]]


@given(st.permutations(range(8)))
@settings(max_examples=cases(7))
def test_the_order_of_texts_changes_no_group(order: list[int]) -> None:
    texts = [" ".join(text(number // 2)) + (" once more" if number % 2 else "") for number in range(8)]
    assert grouped([texts[number] for number in order]) == grouped(texts)
    assert len(grouped(texts)) == 4


def test_numbers_and_case_are_no_words() -> None:
    assert wording("Bruno buys 12 lamps for $3.50, on 2024-05-01.") == wording("bruno BUYS 7 lamps for $1,200 on 1.1.25")
    assert wording("room 12b") != wording("room 12 c")
