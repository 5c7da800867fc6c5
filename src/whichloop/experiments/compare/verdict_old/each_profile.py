"""Verdicts on profiles that are judged by themselves: what each recommends, whether all agree, and the headline over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whichloop.protocol.values import joined
from whichloop.text.numbers import listed_names

from .sentence import AnswerSentence


@dataclass(frozen=True, slots=True)
class ProfilesVerdict:
    """What is said of one profile, or of several that are judged together."""

    profiles: tuple[str, ...]
    sentences: tuple[AnswerSentence, ...]
    """At least one sentence."""

    @property
    def recommendation(self) -> AnswerSentence:
        """The first sentence that says which loop to adopt; the first one of all where none does."""
        return next((each for each in self.sentences if each.adopts), self.sentences[0])

    def to_json(self) -> dict[str, Any]:
        """Return an object of plain JSON."""
        recommendation = self.recommendation
        return {
            "profiles": list(self.profiles),
            "loops": list(recommendation.loops),
            "recommendation": recommendation.in_full,
        }


def each_of(profiles: Sequence[Any]) -> str:
    """Return `both profiles`, `each of the 3 profiles`."""
    return "both profiles" if len(profiles) == 2 else f"each of the {len(profiles)} profiles"


def differ(verdicts: Sequence[ProfilesVerdict]) -> bool:
    """Whether profiles that are judged by themselves recommend different loops, or of different tasks."""
    return len({_recommended(each) for each in verdicts}) > 1


def _recommended(verdict: ProfilesVerdict) -> tuple[frozenset[str], str]:
    """Return which loops a verdict recommends, and of which tasks."""
    recommendation = verdict.recommendation
    return frozenset(recommendation.loops), recommendation.of_tasks if recommendation.adopts else ""


def headline(verdicts: Sequence[ProfilesVerdict], robust: Sequence[str] = ()) -> Iterator[AnswerSentence]:
    """Yield which loops to adopt under which of several profiles that are judged by themselves.

    `robust`: the loops to take if you do not know which profile is yours, which is said where the profiles differ. Nothing where
    there are no two of them, and where all give one recommendation in the same words, which then is the headline.
    """
    if len(verdicts) < 2 or len({each.recommendation.text for each in verdicts}) == 1:
        return
    by_words: dict[tuple[frozenset[str], str], AnswerSentence] = {}
    profiles: dict[tuple[frozenset[str], str], list[str]] = {}
    for verdict in verdicts:
        key = _recommended(verdict)
        by_words.setdefault(key, verdict.recommendation)
        profiles.setdefault(key, []).extend(verdict.profiles)
    if not differ(verdicts):
        yield _agreed(verdicts[0].recommendation, each_of(verdicts))
        return
    adopted = [(_named(by_words[key]), joined(profiles[key], "and")) for key in by_words if by_words[key].adopts]
    parts = [f"{loops} under {under}" for loops, under in adopted]
    is_simple = len(parts) == 2 and not any(" or " in loops or " and " in under for loops, under in adopted)
    opens = [
        f"which loop to adopt is undecided under {joined(profiles[key], 'and')}" for key in by_words if not by_words[key].adopts
    ]
    ends = [f"under {each_of(verdicts)}, none is shown to beat {listed_names(robust)}: {_take(robust)}"] if robust else []
    adopt = f"Adopt {(' and ' if is_simple else '; ').join(parts)}"
    text = "; ".join([adopt, *opens, *ends])
    if not robust:
        yield AnswerSentence(text)
        return
    take = f"take {joined(robust, 'or')}"
    brief, briefest = (
        "; ".join([adopt, *opens, end]) for end in (f"{take} if you do not know which profile is yours", f"if in doubt, {take}")
    )
    yield AnswerSentence(text, brief, briefest)


def _take(robust: Sequence[str]) -> str:
    return f"take {'it' if len(robust) == 1 else 'one of these'} if you do not know which profile is yours"


def _agreed(recommendation: AnswerSentence, every: str) -> AnswerSentence:
    if not recommendation.adopts:
        return AnswerSentence(f"Which loop to adopt is undecided under {every}")
    adopt = f"Adopt {_named(recommendation)} under {every}"
    return replace(recommendation, text=adopt, brief="", opens=False, command=())


def _named(recommendation: AnswerSentence) -> str:
    """Return `finish or bare on these 8 tasks`."""
    of = f" {recommendation.of_tasks}" if recommendation.of_tasks else ""
    return f"{joined(recommendation.loops, 'or')}{of}"


def agreed(verdicts: Sequence[ProfilesVerdict], sentences: Sequence[AnswerSentence]) -> AnswerSentence | None:
    """Return the recommendation of a whole answer: the first sentence that says which loop to adopt, else the first one of the
    verdict, which says that it is undecided.

    None where there is no verdict, and where profiles that are judged by themselves recommend different loops. `sentences`: all
    sentences of the answer; those that are no basis of a verdict begin with it.
    """
    if not verdicts or differ(verdicts):
        return None
    own = [each for each in sentences if not each.is_basis]
    return next((each for each in own if each.adopts), next(iter(own), None))
