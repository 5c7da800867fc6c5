"""A sentence is written whole, with places for its parts, and each part may be shorter in the short form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.verdict_old.sentence import Wording, alike

WORDS = st.text(max_size=8)
PARTS = WORDS | st.builds(Wording, WORDS, WORDS)


@given(PARTS, PARTS, WORDS)
def test_a_filled_sentence_is_its_parts_one_behind_the_other(loop: Wording | str, reason: Wording | str, left_out: str) -> None:
    sentence = Wording("Adopt {loop}: {reason}{costs}", "Adopt {loop}: {reason}")
    filled = sentence.filled(loop=loop, reason=reason, costs=left_out)
    assert filled.brief == ("Adopt " + (alike("") + loop) + ": " + reason).brief
    assert filled.full == ("Adopt " + (alike("") + loop) + ": " + reason + left_out).full


@given(WORDS)
def test_braces_in_a_part_are_words(name: str) -> None:
    assert alike("{loop} leads").filled(loop=f"{{{name}}}") == alike(f"{{{name}}} leads")
