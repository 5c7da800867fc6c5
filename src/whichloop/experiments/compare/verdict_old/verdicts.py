"""What follows from a matrix, in sentences: which loop to adopt, what is undecided, and what is worse.

A loop is worth adopting if no loop is shown to be better under any profile. Of those, a loop is named unless another is at least as
accurate and as cheap, by the means, and told apart from it in cost or by more than the margin; and a dearer loop is not named
beside one that is shown to be equivalent to it. Where no profile by itself tells them apart and all profiles together show one to
be better than the rest of them, that one is adopted (`over_all`). Where its advantage over a cheaper loop is shown to lie within
the margin, the cheaper one is adopted in its place (`thrift`). Cheap is what costs little by the solved task (`prices`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import too_few_units
from whichloop.protocol.values import joined
from whichloop.text.numbers import MAX_NAMES, interval, listed_names, standing

from .air import STRESS, AdoptionEvidence, air, every_profile, is_still, what_disturbs
from .few_tasks_verdict import FewTasksVerdict, nothing_of_others
from .matrix import AGENT, BEST, AnswerMatrix, AnswerRow, pairs_of, place_in_column
from .over_all import OverAllSentences, is_clear, over_all
from .prices import Prices, cheapest_below, crashes, is_shown_cheaper
from .sentence import NO_WORDS, AnswerSentence, Wording, alike
from .thrift import Thrift, ThriftSearch
from .ties import TieBreaks
from .undecided import UndecidedPairs

# The sentences, with a place for each part that differs. A part behind a word without a space is empty, or begins with its own.

NOTHING_DECIDED = Wording(
    "Nothing is decided: no {subject} is told apart from another{under}{least}{by_other_counts}{ends}",
    "No {subject} is told apart from another{under}{least}{by_other_counts}{ends}",
)
NOTHING_DECIDED_AMONG = alike("Nothing is decided {among} {loops}: no {subject} is shown to beat them{under}{costs}{ends}")
ADOPT_CHEAPER = Wording(
    "Adopt {loop}{harm}: {best} is more accurate by {difference}, which is within the margin of {margin}; "
    "{loop} costs {percent} % less ({costs}){crashes}",
    "Adopt {loop}{harm}: {best} is more accurate, but within the margin of {margin}; {loop} costs {percent} % less{crashes}",
)
ADOPT_BEST = alike("Adopt {loop}{narrowly}{harm}: better than every other {subject}{under}{costs}{ends}")
ADOPT_UNBEATEN = alike(
    "Adopt {loop}{narrowly}{harm}: every other {subject} is worse than the best under some {profile}{costs}{ends}"
)
ADOPT_AMONG = alike("Adopt {loops}{harm}: no {subject} is shown to beat {them}{under}{equals}{costs}{ends}")
NONE_BEST_EVERYWHERE = Wording(
    "No {subject} is among the best under every profile: {leaders}{least}",
    "No {subject} is among the best under every profile: {leaders}",
)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The sentences on one matrix."""

    matrix: AnswerMatrix
    accuracy: tuple[Pair, ...]
    """Pairs of arms on accuracy."""
    prices: Prices
    pooled: tuple[Pair, ...]
    """Pairs of loops over all profiles together."""
    alpha: float
    ties: TieBreaks
    few_tasks: FewTasksVerdict

    def sentences(self) -> Iterator[AnswerSentence]:
        """Yield which loop to adopt, what is open, and what is worse; nothing where no two loops are compared.

        Of a few tasks with repeats, what these show of the tasks themselves stands first where nothing is decided of other tasks,
        else behind it.
        """
        compared = self.matrix.compared
        if not compared:
            return
        these = [*self.few_tasks.sentences()]
        others = [] if self.few_tasks.are_all_that_is_known else [*self._of_other_tasks(compared)]
        is_open = all(pair.verdict.word == "undecided" for pair in (*self.accuracy, *self.pooled))
        if not these:
            yield from others
            yield from self.few_tasks.with_repeats() if is_open else ()
        elif is_open and not any(each.adopts for each in others):
            yield from these
            yield nothing_of_others(self.matrix)
        elif is_open:
            yield from [*these, *map(_of_others, others)]
        else:
            yield from [*others, *these]

    def _of_other_tasks(self, compared: Sequence[int]) -> Iterator[AnswerSentence]:
        best = self.matrix.rows[0]
        candidates = [row for row in self.matrix.rows if all(place_in_column(row, n) in BEST for n in compared)]
        named = self._worth_naming(candidates) if candidates else []
        together = OverAllSentences(self.matrix, over_all(best.loop, self.matrix, self.pooled))
        rivals = [row for row in candidates if row is not best]
        leads = best in candidates and together.picks(rivals)
        search = ThriftSearch(self.matrix.rows, self.accuracy, self.prices.costs, self.pooled)
        thrift = search.instead_of(named if named and not leads else [best])
        if thrift is not None:
            yield self._adopt_cheaper(thrift)
            yield from () if thrift.is_pooled else together.sentences()
        elif not named:
            yield self._one_per_column(compared)
            yield from together.sentences()
        elif leads and not together.is_close(rivals):
            ends = Wording(self._bought(best, rivals), self.prices.saved(best))
            yield (together.pick(rivals, self.ties.harm(best)) + ends).sentence(adopts=best.loop)
            yield from UndecidedPairs(self.matrix, self.accuracy, best, rivals).confirming()
        else:
            adoptable = [*named, *self._told_from_none(named, candidates)]
            adoption = self._adopt(adoptable, candidates)
            yield adoption
            yield from self._not_named(adoption.loops, candidates) if adoption.or_else else ()
            yield from together.sentences()
            yield from self._open(named, candidates)
        yield from self._worse(compared, None if thrift is None else thrift.cheaper)

    # Which loop

    def _worth_naming(self, candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the candidates that no other one beats in both accuracy and cost by the means, the cheapest first."""
        if any(row.cost is None for row in candidates):
            return [candidates[0]]
        front: list[AnswerRow] = []
        for row in sorted(candidates, key=lambda row: (row.solved_cost, -row.accuracy, row.mean_cost)):
            if all(row.accuracy > before.accuracy and not self._equivalent(row, before) for before in front):
                front.append(row)
        return front

    def _told_from_none(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the candidates that only chance leaves out of those that are named.

        Wherever the means prefer a named loop, the accuracies are within the margin of each other, and no column tells the two
        apart in accuracy or cost.
        """
        if any(row.cost is None for row in candidates):
            return []
        left_out = [row for row in candidates if row not in named]
        return [
            row for row in left_out if all(self._is_as_good(row, each) for each in named if each.solved_cost <= row.solved_cost)
        ]

    def _not_named(self, named: Sequence[str], candidates: Sequence[AnswerRow]) -> Iterator[AnswerSentence]:
        """Yield which candidates are left out of several that are named, though no loop is shown to beat them, and why."""
        left_out = [row for row in candidates if row.loop not in named]
        dominated = [row for row in left_out if any(_is_as_good_and_cheap(other, row) for other in candidates)]
        if dominated:
            are = "is" if len(dominated) == 1 else "are"
            why = f"by the means another {self.matrix.subject} is at least as accurate, and as cheap by the solved task"
            text = f"{listed_names([row.loop for row in dominated])} {are} not shown to be worse either, but {why}"
            yield AnswerSentence(text, may_be_left_out=True)
        for row in left_out:
            cheaper = [other for other in candidates if other.solved_cost < row.solved_cost and self._equivalent(row, other)]
            if row not in dominated and cheaper:
                text = f"{row.loop} is equivalent to {cheaper[0].loop}, which costs less by the solved task"
                yield AnswerSentence(text, may_be_left_out=True)

    def _is_as_good(self, one: AnswerRow, other: AnswerRow) -> bool:
        gaps, costs = pairs_of(self.accuracy, one, other), pairs_of(self.prices.costs, one, other)
        together = [pair for pair in self.pooled if {pair.a, pair.b} == {one.loop, other.loop}]
        is_near = all(abs(pair.difference.value) <= pair.margin for pair in gaps)
        is_apart = any(pair.verdict.word in ("better", "worse") for pair in (*gaps, *costs, *together))
        return bool(gaps and costs) and is_near and not is_apart

    def _equivalent(self, one: AnswerRow, other: AnswerRow) -> bool:
        pairs = pairs_of(self.accuracy, one, other)
        return bool(pairs) and all(pair.verdict.word == "equivalent" for pair in pairs)

    def _bought(self, best: AnswerRow, rivals: Sequence[AnswerRow]) -> str:
        """Return which rival is cheaper than the loop that is adopted, and whether any single profile tells the two apart."""
        cheapest = cheapest_below(best, rivals)
        if cheapest is None:
            return self.prices.cheaper_than(best)
        cheaper = self.prices.cheaper_than(best, rivals)
        if any(pair.verdict.word in ("better", "worse") for pair in pairs_of(self.accuracy, best, cheapest)):
            return cheaper
        loops = len(self.matrix.rows)
        corrected = f" (with the corrections for {loops} {self.matrix.subject}s)" if loops > 2 else ""
        return f"{cheaper}, and no single profile tells the two apart{corrected}"

    def _adopt_cheaper(self, thrift: Thrift) -> AnswerSentence:
        """Say that a loop is adopted though another one is more accurate: by less than the margin, and at a higher price."""
        gap, cheaper, prices = thrift.gap, thrift.cheaper, self.prices
        difference = interval(gap.difference, 3)
        if thrift.is_pooled:
            difference += f" over {every_profile(self.matrix)} together"
        elif under := self.matrix.under(gap):
            difference += f" at most{under}"
        verdict = ADOPT_CHEAPER.filled(
            loop=cheaper.loop,
            harm=self.ties.harm(cheaper),
            best=thrift.best.loop,
            difference=difference,
            margin=f"{gap.margin:g}",
            percent=f"{100 * thrift.saving:.0f}",
            costs=f"{prices.per_trial(cheaper)} against {prices.price(thrift.best)}{prices.paired_saving(cheaper, thrift.best)}",
            crashes=crashes(cheaper),
        )
        return verdict.sentence(adopts=cheaper.loop)

    def _adopt(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> AnswerSentence:
        """Say which of the candidates to adopt, or that nothing is decided among them."""
        under = self._under_each("any")
        is_open = self._is_open(named, candidates)
        if is_open and len(candidates) == len(self.matrix.rows):
            return self._nothing_decided(named[0], under)
        ends = self.prices.unknown()
        if is_open:
            return self._none_among([*named, *(row for row in candidates if row not in named)], under, ends)
        if len(candidates) > 1:
            return self._adopt_among(named, candidates, under, ends)
        return self._adopt_only(named[0], ends)

    def _under_each(self, determiner: str) -> str:
        """Return ` under any profile`, or for a single stress test ` under a stress test`; empty for another single profile."""
        if len(self.matrix.compared) > 1:
            return f" under {determiner} {air(self.matrix)}"
        return f" under a {STRESS}" if air(self.matrix) == STRESS else ""

    def _adopt_only(self, best: AnswerRow, ends: str) -> AnswerSentence:
        """Say that the one loop is adopted that none is shown to beat, and how the others stand to it.

        `ends`: what ends the sentence.
        """
        others = [row for row in self.matrix.rows if row is not best]
        pairs = [pair for row in others for pair in pairs_of(self.accuracy, best, row)]
        is_best = all(standing(pair) == "better" for pair in pairs)
        profile = air(self.matrix)
        evidence = AdoptionEvidence(self.matrix, best, self.accuracy, self.pooled)
        verdict = (ADOPT_BEST if is_best else ADOPT_UNBEATEN).filled(
            loop=Wording(self.prices.with_cost(best, has_unit=True), best.loop),
            narrowly=evidence.narrowly(),
            harm=self.ties.harm(best),
            subject=self.matrix.subject,
            under=self._under_each("every"),
            profile=profile,
            costs=Wording(f"{evidence.surely()}{self.prices.cheaper_than(best)}", self.prices.saved(best)),
            ends=ends,
        )
        return verdict.sentence(best.loop)

    def _is_open(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> bool:
        """Whether nothing is shown by which to choose among the loops that none is shown to beat: neither accuracy nor cost.

        It is as open where there are more than two and each of them would be named, or where nothing could be shown. Loops that are
        shown to be worse have no part in it, so that what is said of the others is the same without them.
        """
        accuracy, loops = self._among(candidates, self.accuracy), {row.loop for row in candidates}
        words = {pair.verdict.word for pair in accuracy}
        if not words or not words <= ({"undecided"} if len(candidates) == 2 else {"undecided", "equivalent"}):
            return False
        if any(is_clear(pair) for pair in self.pooled if {pair.a, pair.b} <= loops):
            return False
        if len(named) == len(candidates) > 2:
            return True
        if "equivalent" in words:
            return False
        if is_still(self.matrix) or all(too_few_units(pair.units, self.alpha) for pair in accuracy):
            return True
        return not any(is_shown_cheaper(each, row, self.prices.costs) for each in named for row in candidates)

    def _among(self, rows: Sequence[AnswerRow], pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for one, other in combinations(rows, 2) for pair in pairs_of(pairs, one, other)]

    def _nothing_decided(self, cheapest: AnswerRow, under: str) -> AnswerSentence:
        """Say that no loop of all is told apart from another, and which cost the least. `cheapest`: by the solved task."""
        verdict = NOTHING_DECIDED.filled(
            subject=self.matrix.subject,
            under=under,
            least=self.prices.least(cheapest),
            by_other_counts=self.ties.in_words(cheapest, self.matrix.rows),
            ends=f"{self.prices.unknown()}{what_disturbs(self.matrix)}",
        )
        return verdict.sentence()

    def _none_among(self, equals: Sequence[AnswerRow], under: str, ends: str) -> AnswerSentence:
        """Say that nothing is decided among several loops, of which others are shown to be worse; the rest as `_adopt_among`."""
        verdict = NOTHING_DECIDED_AMONG.filled(
            among="between" if len(equals) == 2 else "among",
            loops=Wording(listed_names(self._with_costs(equals)), listed_names([row.loop for row in equals])),
            subject=self.matrix.subject,
            under=under,
            costs=self._by_cost(equals, equals) + self._cheaper(equals[0], equals),
            ends=ends,
        )
        return verdict.sentence()

    def _adopt_among(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow], under: str, ends: str) -> AnswerSentence:
        """Say which of several loops to adopt that none is shown to beat: by cost, and by what else tells equals apart.

        `under`: behind what is said of every profile. `ends`: what ends the sentence.
        """
        first = named[0]
        split = self.ties.split(first, candidates) if len(named) == 1 else NO_WORDS
        if split:
            loops, rivals, costs = first.loop + split, self.ties.rivals(first, candidates), NO_WORDS
        else:
            loops = Wording(joined(self._with_costs(named), "or"), joined([row.loop for row in named], "or"))
            rivals, costs = [*named[1:]], self._by_cost(named, candidates)
        is_one = not split and len(named) == 1
        verdict = ADOPT_AMONG.filled(
            loops=loops,
            harm=self.ties.harm(first) if is_one else "",
            subject=self.matrix.subject,
            them="it" if is_one else "them",
            under=under,
            equals=self._equals(named, candidates, first.loop if split else "it"),
            costs=costs + self._cheaper(first, candidates),
            ends=ends,
        )
        return verdict.sentence(first.loop, tuple(row.loop for row in rivals))

    def _with_costs(self, rows: Sequence[AnswerRow]) -> list[str]:
        """Return the loops with what a trial of each costs, the unit behind the first."""
        return [self.prices.with_cost(row, has_unit=number == 0) for number, row in enumerate(rows)]

    def _cheaper(self, loop: AnswerRow, equals: Sequence[AnswerRow]) -> Wording:
        """Return which loop is cheaper than one that is named, if any is. `equals`: those as good as it."""
        return Wording(self.prices.cheaper_than(loop, equals=equals), self.prices.saved(loop, equals))

    def _by_cost(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> Wording:
        """Return how the loops that are named stand to their equals in cost."""
        first, others = named[0], named[1:]
        if not others:
            cheapest = self._is_cheapest(named, candidates)
            return cheapest + (self.ties.dearer(first, candidates) if cheapest else NO_WORDS)
        dearer = [row for row in others if is_shown_cheaper(first, row, self.prices.costs)]
        stand = NO_WORDS + ", and not all of their costs are told apart"
        if all(self._is_as_good(row, first) for row in others):
            stand = NO_WORDS + ", and neither accuracy nor cost tells them apart"
        elif len(dearer) == len(others):
            least = "cheaper" if len(others) == 1 else "cheapest"
            saved = self.prices.paired_saving(first, dearer[0]) if len(others) == 1 else ""
            stand = Wording(f", and {first.loop} is the {least}{saved}", f", {first.loop} being cheaper")
        return stand + self.ties.in_words(first, candidates)

    def _equals(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow], it: str) -> str:
        """Return which candidates are shown to be equivalent to the one that is named, as a clause. `it`: what it is called."""
        if len(named) > 1:
            return ""
        equal = [row for row in candidates if row is not named[0] and self._equivalent(named[0], row)]
        if not equal:
            return ""
        margins = {f"{pair.margin:g}" for row in equal for pair in pairs_of(self.accuracy, named[0], row)}
        return f", and {it} is equivalent to {listed_names([row.loop for row in equal])} within the margin of {min(margins)}"

    def _is_cheapest(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> str:
        """Return what is known of the cost of the one loop that is named: the first of those that are is the cheapest."""
        if len(named) > 1 or any(row.cost is None for row in candidates):
            return ""
        spent = [row.cost.value for row in candidates if row.cost is not None]
        if named[0].cost is not None and named[0].cost.value <= min(spent):
            return ", and none of its equals is cheaper"
        return ", and none of its equals is shown to cost less by the solved task"

    def _one_per_column(self, compared: Sequence[int]) -> AnswerSentence:
        leaders: dict[tuple[str, ...], list[str]] = {}
        for n in compared:
            loops = tuple(row.loop for row in self.matrix.rows if place_in_column(row, n) == "highest")
            leaders.setdefault(loops, []).append(self.matrix.heading(self.matrix.columns[n]))
        all_leaders = "; ".join(
            f"{listed_names(loops)} {'leads' if len(loops) == 1 else 'lead'} under {listed_names(profiles)}"
            for loops, profiles in leaders.items()
        )
        cheapest = min(self.matrix.rows, key=lambda row: row.solved_cost)
        least = self.prices.least(cheapest)
        return NONE_BEST_EVERYWHERE.filled(subject=self.matrix.subject, leaders=all_leaders, least=least).sentence()

    # What is open, and what is worse

    def _open(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> Iterator[AnswerSentence]:
        """Yield what is likely to decide between the named loops or, where one is named, between it and the other candidates."""
        first = named[-1]
        decided = over_all(first.loop, self.matrix, self.pooled).clearly("better", "worse", "equivalent")
        rivals = [row for row in (named if len(named) > 1 else candidates) if row is not first and row.loop not in decided]
        yield from UndecidedPairs(self.matrix, self.accuracy, first, rivals).sentences(self.alpha)

    def _worse(self, compared: Sequence[int], adopted: AnswerRow | None = None) -> Iterator[AnswerSentence]:
        """Yield which loops are worse than the best, and where. `adopted`: a loop of which that has been said."""
        lost: dict[tuple[str, ...], list[str]] = {}
        for row in self.matrix.rows:
            if row is adopted:
                continue
            under = tuple(self.matrix.heading(self.matrix.columns[n]) for n in compared if place_in_column(row, n) == "lower")
            if under:
                lost.setdefault(under, []).append(row.loop)
        if not lost:
            return
        is_all_but_one = len(compared) == 1 and sum(map(len, lost.values())) == len(self.matrix.rows) - 1
        may_be_left_out = self.matrix.subject != AGENT or is_all_but_one  # of agents no other line of a short answer says it
        has_precedence = sum(map(len, lost.values())) < len(self.matrix.rows) - 1  # else the verdict says it of every other loop
        if len(lost) > MAX_NAMES - 1:
            every = listed_names([loop for loops in lost.values() for loop in loops])
            worse = f"Worse than the best under some profile: {every}"
            yield AnswerSentence(worse, may_be_left_out=may_be_left_out, has_precedence=has_precedence)
            return
        parts = []
        for under, loops in lost.items():
            where = "" if len(compared) == 1 else " everywhere" if len(under) == len(compared) else f" under {listed_names(under)}"
            parts.append(f"{listed_names(loops)}{where}")
        every = listed_names([loop for loops in lost.values() for loop in loops])
        yield AnswerSentence(
            f"Worse: {'; '.join(parts)}",
            briefest=f"Worse somewhere: {every}" if len(lost) > 1 else "",
            may_be_left_out=may_be_left_out,
            has_precedence=has_precedence,
        )


def _of_others(sentence: AnswerSentence) -> AnswerSentence:
    """Return a sentence that says of other tasks which loop to adopt, and that it does; any other one as it is."""
    if not sentence.adopts:
        return sentence
    return replace(sentence.behind("Of other tasks: "), of_tasks="of other tasks", opens=True)


def _is_as_good_and_cheap(one: AnswerRow, other: AnswerRow) -> bool:
    """Whether a loop is by the means at least as accurate as another one, and as cheap by the solved task."""
    return one is not other and one.accuracy >= other.accuracy and one.solved_cost <= other.solved_cost
