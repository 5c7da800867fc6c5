"""What a team demands, from text to a decision."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.checks.program.agent_faults import BY_NAME, EITHER, OUTCOMES, RECOVERED, FaultFinding, parse_requirements

WORDS = st.sampled_from([*(name for name in OUTCOMES if name != "not applicable"), "recovered"])
DEMANDS = st.dictionaries(st.sampled_from(sorted(BY_NAME)), st.lists(WORDS, min_size=1, max_size=3, unique=True))


@given(DEMANDS)
def test_text_and_mapping_say_the_same(demands):
    said = {fault: "|".join(words) for fault, words in demands.items()}
    assert parse_requirements(",".join(f"{fault}={words}" for fault, words in said.items())) == parse_requirements(said)


@given(DEMANDS, st.sampled_from(sorted(OUTCOMES)))
def test_a_demand_is_met_by_the_outcomes_that_it_names_and_by_faults_that_cannot_happen(demands, outcome):
    for one in parse_requirements({fault: "|".join(words) for fault, words in demands.items()}):
        named = {word for words in (demands[one.fault],) for word in words}
        allowed = named | (RECOVERED if "recovered" in named else set()) | {"not applicable"}
        assert one.is_met(FaultFinding(one.fault, outcome, "")) == (outcome in allowed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("unknown_tol=told", "there is no fault 'unknown_tol'; did you mean 'unknown_tool'?"),
        ("empty=recoverd", "there is no outcome 'recoverd'; did you mean 'recovered'?"),
        ("empty", "'empty' is not FAULT=OUTCOME"),
        ("empty=", "'empty' is not FAULT=OUTCOME"),
    ],
)
def test_a_mistake_is_told_in_one_line(text, says):
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        parse_requirements(text)
    assert "\n" not in str(caught.value)


def read_or_refused(text):
    """The requirements in a text, or the words that refuse it."""
    try:
        return parse_requirements(text)
    except ValueError as error:
        return str(error)


PIECES = [*BY_NAME, *OUTCOMES, "=", "=", ",", EITHER, " "]


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_any_text_is_read_as_faults_with_outcomes_or_refused_in_one_line(text):
    found = read_or_refused(text)
    if isinstance(found, str):
        assert "\n" not in found
        return
    assert {each.fault for each in found} <= BY_NAME.keys()
    assert all(each.allowed and each.allowed <= set(OUTCOMES) for each in found)
    assert parse_requirements(", ".join(f"{each.fault}={each.text}" for each in found)) == found
