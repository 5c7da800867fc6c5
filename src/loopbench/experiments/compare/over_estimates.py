"""What holds under each of several profiles that are judged by themselves: the line that closes their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopbench.text.counts import listed

from .matrix import AnswerMatrix, AnswerRow, place_of
from .sentence import AnswerSentence


def over_estimates(found: AnswerMatrix, judged: Mapping[str, Sequence[AnswerSentence]]) -> Iterator[AnswerSentence]:
    """Yield whether the profiles adopt the same loop, and which loop is among the best under each of them.

    `judged`: profile → its verdict. Nothing where fewer than two profiles adopt a loop: then there is nothing to hold together.
    """
    adopting = {profile: next((each for each in said if each.adopts), None) for profile, said in judged.items()}
    known = {profile: said for profile, said in adopting.items() if said is not None}
    if len(known) < 2 or len(known) < len(judged):
        return
    every = "both profiles" if len(known) == 2 else f"all {len(known)} profiles"
    loops = list(dict.fromkeys(said.adopts for said in known.values()))
    if len(loops) == 1:
        is_cheapest = all(said.is_cheapest for said in known.values())
        cheapest = "; none of its equals is cheaper under any" if is_cheapest else ""
        is_best = any(row.loop == loops[0] and _is_best_everywhere(row, found) for row in found.rows)
        stands = "the highest, or not told apart from it" if is_best else "the one to adopt"
        yield AnswerSentence(f"Under {every} {loops[0]} is {stands}{cheapest}")
        return
    best = [row.loop for row in found.rows if _is_best_everywhere(row, found)]
    among = (
        f"; {listed(best)} {'is' if len(best) == 1 else 'are'} the highest under each, or not told apart from it" if best else ""
    )
    each = ", ".join(f"{said.adopts} under {profile}" for profile, said in known.items())
    yield AnswerSentence(f"The profiles name different loops ({each}){among}")


def _is_best_everywhere(row: AnswerRow, found: AnswerMatrix) -> bool:
    return all(place_of(row, number) in ("highest", "not told apart") for number in range(len(found.columns)))
