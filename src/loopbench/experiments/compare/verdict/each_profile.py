"""Verdicts on profiles that are judged by themselves: what each recommends, whether all agree, and the headline over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopbench.protocol.counts import joined

from .sentence import AnswerSentence


@dataclass(frozen=True, slots=True)
class ProfilesVerdict:
    """What is said of one profile, or of several that are judged together."""

    profiles: tuple[str, ...]
    said: tuple[AnswerSentence, ...]
    """At least one sentence."""

    @property
    def recommendation(self) -> AnswerSentence:
        """The first sentence that says which loop to adopt; the first one of all where none does."""
        return next((each for each in self.said if each.adopts), self.said[0])

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


def headline(verdicts: Sequence[ProfilesVerdict]) -> Iterator[AnswerSentence]:
    """Yield which loops to adopt under which of several profiles that are judged by themselves.

    Nothing where there are no two of them, and where all give one recommendation in the same words, which then is the headline.
    """
    if len(verdicts) < 2 or len({each.recommendation.text for each in verdicts}) == 1:
        return
    said: dict[tuple[frozenset[str], str], AnswerSentence] = {}
    profiles: dict[tuple[frozenset[str], str], list[str]] = {}
    for verdict in verdicts:
        recommendation = verdict.recommendation
        key = frozenset(recommendation.loops), recommendation.of_tasks if recommendation.adopts else ""
        said.setdefault(key, recommendation)
        profiles.setdefault(key, []).extend(verdict.profiles)
    if len(said) == 1:
        yield _agreed(verdicts[0].recommendation, each_of(verdicts))
        return
    adopted = [(_named(said[key]), joined(profiles[key], "and")) for key in said if said[key].adopts]
    parts = [f"{loops} under {under}" for loops, under in adopted]
    is_simple = len(parts) == 2 and not any(" or " in loops or " and " in under for loops, under in adopted)
    opens = [f"which loop to adopt is undecided under {joined(profiles[key], 'and')}" for key in said if not said[key].adopts]
    yield AnswerSentence("; ".join([f"Adopt {(' and ' if is_simple else '; ').join(parts)}", *opens]))


def _agreed(recommendation: AnswerSentence, every: str) -> AnswerSentence:
    if not recommendation.adopts:
        return AnswerSentence(f"Which loop to adopt is undecided under {every}")
    adopt = f"Adopt {_named(recommendation)} under {every}"
    return replace(recommendation, text=adopt, brief="", opens=False, command=())


def _named(recommendation: AnswerSentence) -> str:
    """Return `finish or bare on these 8 tasks`."""
    of = f" {recommendation.of_tasks}" if recommendation.of_tasks else ""
    return f"{joined(recommendation.loops, 'or')}{of}"


def agreed(verdicts: Sequence[ProfilesVerdict], said: Sequence[AnswerSentence]) -> AnswerSentence | None:
    """Return the recommendation of a whole answer; None where profiles that are judged by themselves recommend different loops.

    `said`: all sentences of the answer. Without any verdict the first of them stands that is no basis of one, if there is one.
    """
    of_all = {(frozenset(each.recommendation.loops), each.recommendation.of_tasks) for each in verdicts}
    if len(of_all) > 1:
        return None
    own = [each for each in said if not each.is_basis]
    return next((each for each in own if each.adopts), next(iter(own), None))
