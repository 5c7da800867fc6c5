"""Profiles that are judged by themselves: one headline over them, one recommendation for each, and one for all if they agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.verdict_old.each_profile import ProfilesVerdict, agreed, differ, headline
from whichloop.experiments.compare.verdict_old.sentence import AnswerSentence

LOOPS = ("finish", "bare", "phased")
ADOPTED = st.lists(st.sampled_from(LOOPS), unique=True, max_size=2).map(tuple)


def verdict(profile: str, loops: tuple[str, ...], *, of_tasks: str = "", why: str = "") -> ProfilesVerdict:
    said = f"Adopt {' or '.join(loops)}: {why or profile}" if loops else f"Nothing is decided: {why or profile}"
    return ProfilesVerdict((profile,), (AnswerSentence(said, adopts=(*loops, "")[0], or_else=loops[1:], of_tasks=of_tasks),))


def told(*verdicts: ProfilesVerdict) -> list[str]:
    return [each.text for each in headline(verdicts)]


@given(st.lists(ADOPTED, min_size=2, max_size=5))
def test_the_headline_names_every_profile_once_unless_they_agree_which_the_whole_then_recommends(loops):
    verdicts = [verdict(f"profile-{place}", own) for place, own in enumerate(loops)]
    (line,) = headline(verdicts)
    whole = agreed(verdicts, [line, *(each.recommendation for each in verdicts)])
    is_one = len({frozenset(own) for own in loops}) == 1
    assert (whole is None) != is_one
    if is_one:
        assert whole is line
        assert set(line.loops) == set(loops[0])
        assert line.text.endswith(f" under {'both profiles' if len(loops) == 2 else f'each of the {len(loops)} profiles'}")
    else:
        assert all(line.text.count(f"profile-{place}") == 1 for place in range(len(loops)))
        assert line.adopts == ""


def test_a_headline_says_where_profiles_differ():
    assert told(verdict("a", ("finish",)), verdict("b", ("bare",))) == ["Adopt finish under a and bare under b"]
    assert told(verdict("a", ("finish",)), verdict("b", ("finish",)), verdict("c", ("bare", "phased"))) == [
        "Adopt finish under a and b; bare or phased under c"
    ]
    assert told(verdict("a", ("finish",)), verdict("b", ())) == ["Adopt finish under a; which loop to adopt is undecided under b"]
    assert told(verdict("a", ()), verdict("b", ())) == ["Which loop to adopt is undecided under both profiles"]


@given(st.lists(ADOPTED, min_size=2, max_size=5), ADOPTED)
def test_a_headline_ends_with_the_robust_choice_where_profiles_differ_alone(loops, robust):
    verdicts = [verdict(f"profile-{place}", own) for place, own in enumerate(loops)]
    (line,) = headline(verdicts, robust)
    (without,) = headline(verdicts)
    assert (line.text != without.text) == (differ(verdicts) and bool(robust))
    if line.text != without.text:
        every = "both profiles" if len(loops) == 2 else f"each of the {len(loops)} profiles"
        take = "it" if len(robust) == 1 else "one of these"
        beat = f"; under {every}, none is shown to beat {' and '.join(robust)}"
        assert line.text == f"{without.text}{beat}: take {take} if you do not know which profile is yours"


def test_a_headline_says_of_which_tasks_it_is():
    of_these = [verdict(profile, ("finish",), of_tasks="on these 8 tasks") for profile in "abc"]
    assert told(*of_these) == ["Adopt finish on these 8 tasks under each of the 3 profiles"]
    others = verdict("b", ("finish",), of_tasks="of other tasks")
    assert told(of_these[0], others) == ["Adopt finish on these 8 tasks under a and finish of other tasks under b"]
    assert agreed([of_these[0], others], []) is None


@given(st.lists(st.booleans(), max_size=4))
def test_without_a_verdict_no_sentence_is_the_recommendation(bases):
    assert agreed([], [AnswerSentence("Wrong answers given as done: bare 3", is_basis=is_basis) for is_basis in bases]) is None


def test_no_headline_stands_over_a_single_profile_or_over_verdicts_in_the_same_words():
    assert told(verdict("a", ("finish",))) == []
    same = [verdict(profile, ("finish",), why="it is better") for profile in "ab"]
    assert told(*same) == []
    assert agreed(same, [same[0].recommendation]) is same[0].recommendation
