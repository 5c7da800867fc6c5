"""What a comparison answers: loops × profiles, the best loop first, and which loop to adopt, what is undecided, what is worse.

A loop is worth adopting if no loop is shown to be better under any profile. Of those, a loop is named unless another is at least as
accurate and as cheap, by the means; and a dearer loop is not named beside one that is shown to be equivalent to it. Where no
profile by itself tells them apart and all profiles together show one to be better than the rest of them, that one is adopted.
Where its advantage over a cheaper loop is shown to lie within the margin, the cheaper one is adopted in its place (`thrift`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopbench.metrics.comparison import Comparison, Pair
from loopbench.metrics.statistics import VerdictWord
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.views import Unit
from loopbench.models.profiles import stress_tests
from loopbench.protocol.counts import counted
from loopbench.text.counts import MAX_NAMES, listed
from loopbench.text.numbers import RELATIONS, chance_in_words, interval, narrowly, standing

from .claims import claims_in_words
from .exposure import exposures
from .matrix import AnswerColumn, AnswerRow, amount, matrix_rows, place_of, unit_of_cost
from .measured_forms import by_profile, fitting, forms_of
from .paired import difference_in_words, too_few_clusters
from .sentence import AnswerSentence, DecidingRun
from .thrift import Thrift, ThriftSearch, saving

STRESS = "stress test"
STILL = "clean"
"""The profile without faults."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run that is likely to tell a loop from another one, in words."""

    row: AnswerRow
    """The other one."""
    tasks: str
    """How many, and under which profile."""
    chance: str
    decides: DecidingRun


@dataclass(frozen=True, slots=True)
class ComparisonAnswer:
    """The matrix of loops × columns, the most accurate loop first, and the sentences that say what follows."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[AnswerRow, ...]
    unit: Unit
    said: tuple[AnswerSentence, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences in full."""
        return tuple(sentence.text for sentence in self.said)

    def heading(self, column: AnswerColumn) -> str:
        """Return the profile, with the suite where there are several."""
        several = len({each.suite for each in self.columns}) > 1
        return f"{column.suite}, {column.profile}" if several else column.profile


def answer(comparison: Comparison) -> ComparisonAnswer:
    """Return what a comparison answers; of an invalid one the matrix alone, since no verdict holds."""
    arms, unit = comparison.arms, unit_of_cost(comparison.arms)
    columns = tuple(dict.fromkeys(AnswerColumn(arm.info.suite, arm.info.profile) for arm in arms))
    pairs, costs = (tuple(pair for pair in comparison.pairs if pair.metric == metric) for metric in (PRIMARY, unit))
    found = ComparisonAnswer(columns, matrix_rows(arms, () if comparison.invalid else pairs, columns, unit), unit, ())
    if comparison.invalid:
        return found
    of_injection = (
        AnswerSentence(f"{exposure.sentence}{exposure.defence}", f"{exposure.brief}{exposure.defence}")
        for exposure in exposures(comparison)
    )
    infos, sentences = [arm.info for arm in arms], _Sentences(pairs, costs, comparison.pooled, found, comparison.alpha)
    mixed = len(set(forms_of(infos).values())) > 1 and found.rows[1:]
    verdicts = list(_each_by_itself(comparison, columns) if mixed else sentences.verdicts())
    verdicts[1:1] = _only_difference(found, pairs)
    fits = (AnswerSentence(f"{said}{NOT_POOLED if mixed else ''}") for said in [fitting(infos)] if said and found.rows[1:])
    return replace(found, said=(*verdicts, *fits, *sentences.claims(), *of_injection))


NOT_POOLED = ": each profile is judged by itself, and nothing is pooled, because they are of different replies"


def _each_by_itself(comparison: Comparison, columns: Sequence[AnswerColumn]) -> Iterator[AnswerSentence]:
    """Yield what each profile says, where they were measured of calls in different forms; what the matrix shows is left out."""
    for profile in dict.fromkeys(column.profile for column in columns):
        alone = by_profile(comparison, profile)
        unit = unit_of_cost(alone.arms)
        own = tuple(column for column in columns if column.profile == profile)
        pairs, costs = (tuple(pair for pair in alone.pairs if pair.metric == metric) for metric in (PRIMARY, unit))
        found = ComparisonAnswer(own, matrix_rows(alone.arms, pairs, own, unit), unit, ())
        for said in _Sentences(pairs, costs, (), found, comparison.alpha).verdicts():
            if not said.may_be_left_out:
                brief = said.brief and f"Under {profile}: {said.brief}"
                yield replace(said, text=f"Under {profile}: {said.text}", brief=brief)


def _only_difference(found: ComparisonAnswer, pairs: Sequence[Pair]) -> Iterator[AnswerSentence]:
    """Yield the paired difference of two arms, the more accurate one first, where there are no others."""
    if len(pairs) != 1 or len(found.rows) != 2:
        return
    pair = pairs[0] if pairs[0].difference.value >= 0 else pairs[0].turned
    names = (next(row.loop for row in found.rows if arm in _arms(row)) for arm in (pair.a, pair.b))
    yield AnswerSentence(*difference_in_words(pair, *names))


# --- sentences ---


@dataclass(frozen=True, slots=True)
class _Sentences:
    """What follows from a matrix, in words."""

    accuracy_pairs: tuple[Pair, ...]
    cost_pairs: tuple[Pair, ...]
    """In the unit that costs are told in."""
    pooled: tuple[Pair, ...]
    """Pairs of loops over all profiles together."""
    found: ComparisonAnswer
    alpha: float

    def verdicts(self) -> Iterator[AnswerSentence]:
        """Yield which loop to adopt, what is open, and what is worse."""
        compared = [n for n in range(len(self.found.columns)) if any(place_of(row, n) for row in self.found.rows)]
        if not compared:
            return
        candidates = [row for row in self.found.rows if all(place_of(row, n) in ("highest", "not told apart") for n in compared)]
        named = self._worth_naming(candidates) if candidates else []
        picked = self._picked_together(candidates, compared)
        search = ThriftSearch(self.found.rows, self.accuracy_pairs, self.cost_pairs, self.pooled)
        thrift = search.instead_of(named if named and picked is None else self.found.rows[:1])
        if thrift is not None:
            yield self._adopt_cheaper(thrift)
            yield from () if thrift.is_pooled else self._together()
        elif not named:
            yield self._one_per_column(compared)
            yield from self._together()
        elif picked is not None:
            yield picked
            yield from self._confirming(self.found.rows[0], candidates)
        else:
            yield self._adopt(named, candidates, compared)
            yield from self._together()
            yield from self._open(named, candidates)
        yield from self._worse(compared, None if thrift is None else thrift.cheaper)

    def claims(self) -> Iterator[AnswerSentence]:
        """Yield how many wrong answers each loop gave as done, where they differ."""
        said, brief = claims_in_words(self.found.rows, [self.found.heading(column) for column in self.found.columns])
        if said:
            yield AnswerSentence(said, brief)

    # Which loop

    def _worth_naming(self, candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the candidates that no other one beats in both accuracy and cost by the means, the cheapest first."""
        if any(row.cost is None for row in candidates):
            return [candidates[0]]
        by_cost = sorted(candidates, key=lambda row: (0.0 if row.cost is None else row.cost.value, -row.accuracy))
        front: list[AnswerRow] = []
        for row in by_cost:
            if all(row.accuracy > before.accuracy and not self._equivalent(row, before) for before in front):
                front.append(row)
        return front

    def _picked_together(self, candidates: Sequence[AnswerRow], compared: Sequence[int]) -> AnswerSentence | None:
        """Return which of several candidates to adopt where all profiles together show it to be better than each other one.

        None where they do not, or where a profile tells it from each of them by itself.
        """
        best = self.found.rows[0]
        rivals = [row for row in candidates if row is not best]
        own = sorted(self._over_all(best.loop), key=lambda pair: pair.difference.value)
        won = {pair.b for pair in own if pair.verdict.word == "better"}
        if best not in candidates or not rivals or len(compared) < 2 or not all(row.loop in won for row in rivals):
            return None
        over_all = len(own) == len(won) == len(self.found.rows) - 1 > 1
        nearest = own[0] if over_all else next(pair for pair in own if pair.b in {row.loop for row in rivals})
        gap = interval(nearest.difference, 3)
        others = "every other loop" if over_all else listed([row.loop for row in rivals])
        by = f", the next being {nearest.b} by {gap}" if over_all else f" by {gap}" if len(rivals) == 1 else ""
        together, adopt = f"over {self._every_profile()} together", f"Adopt {best.loop}{narrowly(own)}"
        said = f"{adopt}: {together} it is better than {others}{by}{self._bought(best, rivals)}"
        brief = f"{adopt}: better than {'all others' if over_all else others} {together}"
        return AnswerSentence(said, f"{brief}{self._saved(best)}")

    def _bought(self, best: AnswerRow, rivals: Sequence[AnswerRow]) -> str:
        """Return which rival is cheaper than the loop that is adopted, and whether any single profile tells the two apart."""
        cheapest = self._cheapest_below(best, rivals)
        if cheapest is None:
            return self._cheaper(best)
        told = any(pair.verdict.word in ("better", "worse") for pair in self._pairs(best, cheapest))
        cheaper = self._cheaper(best, rivals)
        return cheaper if told else f"{cheaper}, and no single profile tells the two apart{self._corrected()}"

    @staticmethod
    def _cheapest_below(best: AnswerRow, others: Sequence[AnswerRow]) -> AnswerRow | None:
        """Return the cheapest of other loops that costs less than a loop, by the means."""
        known = [(row.cost.value, row) for row in others if row.cost is not None]
        cost, cheapest = min(known, key=lambda each: each[0], default=(math.inf, best))
        return cheapest if best.cost is not None and cost < best.cost.value else None

    def _cheaper(self, best: AnswerRow, others: Sequence[AnswerRow] | None = None) -> str:
        """Return which of other loops, or of all, is the cheapest, with both costs; empty where none costs less as written."""
        cheapest = self._cheapest_below(best, self.found.rows if others is None else others)
        if cheapest is None or self._price(cheapest) == self._price(best):
            return ""
        return f"; {cheapest.loop} is cheaper ({self._per_trial(cheapest)} against {self._price(best)})"

    def _saved(self, best: AnswerRow) -> str:
        """Return how much less than a loop the cheapest of all costs, in few words; empty where none costs less as written."""
        cheapest = self._cheapest_below(best, self.found.rows)
        if cheapest is None or self._price(cheapest) == self._price(best):
            return ""
        return f"; {cheapest.loop} costs {100 * saving(cheapest, best):.0f} % less"

    def _adopt_cheaper(self, thrift: Thrift) -> AnswerSentence:
        """Say that a loop is adopted though another one is more accurate: by less than the margin, and at a higher price."""
        gap, cheaper = thrift.gap, thrift.cheaper
        most = self._under(gap) if not thrift.is_pooled else f" over {self._every_profile()} together"
        at_most = " at most" if most and not thrift.is_pooled else ""
        advantage = f"{thrift.best.loop} is more accurate by {interval(gap.difference, 3)}{at_most}{most}"
        margin = f"within the margin of {gap.margin:g}"
        saved = f"{cheaper.loop} costs {100 * thrift.saving:.0f} % less"
        costs = f"({self._per_trial(cheaper)} against {self._price(thrift.best)})"
        return AnswerSentence(
            f"Adopt {cheaper.loop}: {advantage}, which is {margin}; {saved} {costs}",
            f"Adopt {cheaper.loop}: {thrift.best.loop} is more accurate, but {margin}; {saved}",
        )

    def _corrected(self) -> str:
        """Return that verdicts are corrected for the number of loops, of which two alone may be told apart; empty for two."""
        loops = len(self.found.rows)
        return f" (with the corrections for {loops} loops)" if loops > 2 else ""

    def _every_profile(self) -> str:
        profiles = len({column.profile for column in self.found.columns})
        return f"{'both' if profiles == 2 else f'all {profiles}'} {self._air()}s"

    def _equivalent(self, one: AnswerRow, other: AnswerRow) -> bool:
        pairs = list(self._pairs(one, other))
        return bool(pairs) and all(pair.verdict.word == "equivalent" for pair in pairs)

    def _pairs(self, one: AnswerRow, other: AnswerRow) -> Iterator[Pair]:
        arms = [_arms(row) for row in (one, other)]
        for pair in self.accuracy_pairs:
            if (pair.a in arms[0] and pair.b in arms[1]) or (pair.b in arms[0] and pair.a in arms[1]):
                yield pair

    def _adopt(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow], compared: Sequence[int]) -> AnswerSentence:
        several = len(compared) > 1
        under = f" under any {self._air()}" if several else ""
        if all(pair.verdict.word == "undecided" for pair in self.accuracy_pairs):
            together = any(pair.verdict.word != "undecided" for pair in self.pooled)
            nothing = "No loop" if together else "Nothing is decided: no loop"
            return AnswerSentence(f"{nothing} is told apart from another{under}{self._least(named[0])}{self._still_air()}")
        names = " or ".join(self._with_cost(row, number) for number, row in enumerate(named))
        alone = f", under a {STRESS}" if not several and self._air() == STRESS else ""
        if len(candidates) > 1:
            beaten = f"no loop is shown to beat {'it' if len(named) == 1 else 'them'}{under}"
            said = f"Adopt {names}: {beaten}{self._cheapest(named, candidates)}{self._cheaper(named[0])}{alone}"
            brief = f"Adopt {' or '.join(row.loop for row in named)}: {beaten}{self._saved(named[0])}{alone}"
            return AnswerSentence(said, brief)
        others = [row for row in self.found.rows if row is not named[0]]
        if all(_is_won(pair, named[0]) for row in others for pair in self._pairs(named[0], row)):
            every = f" under every {self._air()}" if several else ""
            close = narrowly([pair for row in others for pair in self._pairs(named[0], row)])
            return AnswerSentence(f"Adopt {names}{close}: better than every other loop{every}{self._cheaper(named[0])}{alone}")
        worse = f"every other loop is worse than the best under some {self._air()}"
        return AnswerSentence(f"Adopt {names}: {worse}{self._cheaper(named[0])}")

    def _profiles(self) -> list[str]:
        """Return the profiles of the scripted model under which loops were compared; of a run of other models none."""
        arms = [cell.arm.info for row in self.found.rows for cell in row.cells if cell is not None]
        return list(dict.fromkeys(info.profile for info in arms)) if all(info.model == "scripted" for info in arms) else []

    def _air(self) -> str:
        """Return what a profile is called: a stress test where no model was measured to have any of them."""
        profiles = self._profiles()
        return STRESS if profiles and len(stress_tests(profiles)) == len(profiles) else "profile"

    def _still_air(self) -> str:
        """Say what to do where nothing was disturbed."""
        return (
            f"; {STILL} disturbs nothing: add --profile flaky-format or --profile flaky-tools"
            if self._profiles() == [STILL]
            else ""
        )

    def _least(self, cheapest: AnswerRow) -> str:
        """Return which loop is the cheapest, or that all cost the same as far as a cost is written."""
        if cheapest.cost is None:
            return ""
        least = self._with_cost(cheapest, 0).removeprefix(cheapest.loop)
        equal = [row for row in self.found.rows if self._with_cost(row, 0).removeprefix(row.loop) == least]
        if len(equal) == len(self.found.rows):
            return f"; they cost the same{least}"
        names = listed([cheapest.loop, *(row.loop for row in equal if row is not cheapest)])
        return f"; the cheapest {'is' if len(equal) == 1 else 'are'} {names}{least}"

    @staticmethod
    def _cheapest(named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> str:
        """Return what is known of the cost of the one loop that is named: the first of those that are is the cheapest."""
        is_cheapest = len(named) == 1 and all(row.cost is not None for row in candidates)
        return ", and none of its equals is cheaper" if is_cheapest else ""

    def _with_cost(self, row: AnswerRow, number: int) -> str:
        if row.cost is None:
            return row.loop
        return f"{row.loop} ({self._per_trial(row) if number == 0 else self._price(row)})"

    def _per_trial(self, row: AnswerRow) -> str:
        """Return what a trial costs, with its unit."""
        unit = "" if self.found.unit == "cost_usd" else " tokens"
        return f"{self._price(row)}{unit} a trial"

    def _price(self, row: AnswerRow) -> str:
        """Return what a trial costs, without its unit."""
        sign = "$" if self.found.unit == "cost_usd" else ""
        return "" if row.cost is None else f"{sign}{amount(row.cost.value, self.found.unit)}"

    def _one_per_column(self, compared: Sequence[int]) -> AnswerSentence:
        leaders: dict[str, list[str]] = {}
        for n in compared:
            loop = next(row.loop for row in self.found.rows if place_of(row, n) == "highest")
            leaders.setdefault(loop, []).append(self.found.heading(self.found.columns[n]))
        each = "; ".join(f"{loop} leads under {listed(profiles)}" for loop, profiles in leaders.items())
        known = [row for row in self.found.rows if row.cost is not None]
        cheapest = min(known, key=lambda row: 0.0 if row.cost is None else row.cost.value, default=self.found.rows[0])
        told = f"No loop is among the best under every profile: {each}"
        return AnswerSentence(f"{told}{self._least(cheapest)}", told)

    def _together(self) -> Iterator[AnswerSentence]:
        """Yield how the loop that is the most accurate on average stands to the others over all profiles together."""
        top = self.found.rows[0].loop
        own = sorted(self._over_all(top), key=lambda pair: pair.difference.value)
        if not own:
            return
        over = f"Over {self._every_profile()} together {top} is"
        nearest = f"{own[0].b} ({interval(own[0].difference, 3)})"
        words = list(dict.fromkeys(pair.verdict.word for pair in own))
        if words == ["better"] and 1 < len(own) == len(self.found.rows) - 1:
            best = f"{over}{narrowly(own, '')} better than every other loop"
            yield AnswerSentence(f"{best}, the next being {nearest}", best)
            return
        full = [self._relation(own, word, nearest) for word in words]
        brief = [self._relation(own, word, own[0].b) for word in words if word != "better" or len(words) == 1]
        is_open = {*words} <= {"better", "undecided"} and "undecided" in words
        yield AnswerSentence(f"{over} {', '.join(full)}", f"{over} {', '.join(brief)}", may_be_left_out=is_open)

    @staticmethod
    def _relation(own: Sequence[Pair], word: VerdictWord, nearest: str) -> str:
        """Return how a loop stands to those with the same verdict: `better than b and c`. `nearest`: how the first is written."""
        return f"{RELATIONS[word]} {listed([nearest if pair is own[0] else pair.b for pair in own if pair.verdict.word == word])}"

    def _over_all(self, loop: str) -> list[Pair]:
        """Return the pairs of a loop over all profiles together, it being the first of each."""
        return [pair if pair.a == loop else pair.turned for pair in self.pooled if loop in (pair.a, pair.b)]

    # What is open, and what is worse

    def _open(self, named: Sequence[AnswerRow], candidates: Sequence[AnswerRow]) -> Iterator[AnswerSentence]:
        """Yield what is likely to decide between the named loops or, where one is named, between it and the other candidates."""
        first = named[-1]
        rivals = [row for row in (named if len(named) > 1 else candidates) if row is not first]
        if self._profiles() == [STILL]:
            return  # more tasks would show no more where nothing is disturbed
        told = {pair.b for pair in self._over_all(first.loop) if pair.verdict.word != "undecided"}
        rivals = [row for row in rivals if row.loop not in told]
        undecided = [(pair, row) for row in rivals for pair in self._pairs(first, row) if pair.verdict.word == "undecided"]
        rows = list(dict.fromkeys(row.loop for _, row in undecided))
        if not rows:
            return
        between = f"Undecided {'between' if len(rows) == 1 else 'among'} {listed([first.loop, *rows])}"
        if few := too_few_clusters([pair for pair, _ in undecided], self.alpha):
            yield AnswerSentence(f"{between}: {few}")
            return
        if (plan := self._soonest(undecided)) is None:
            yield AnswerSentence(f"{between}: no feasible number of tasks is likely to decide")
            return
        told_apart = f"{plan.tasks} would tell {first.loop} from {plan.row.loop} ({plan.chance})"
        decides = f"{plan.tasks} would decide ({plan.chance})" if len(rows) == 1 else told_apart
        yield AnswerSentence(f"{between}: {decides}", decides=plan.decides)

    def _confirming(self, best: AnswerRow, candidates: Sequence[AnswerRow]) -> Iterator[AnswerSentence]:
        """Yield which run would confirm, with other faults, what all profiles together show of the best loop."""
        rivals = [row for row in candidates if row is not best]
        plan = self._soonest([(pair, row) for row in rivals for pair in self._pairs(best, row) if pair.verdict.word == "undecided"])
        if plan is not None:
            said = f"To confirm it: {plan.tasks} would tell {best.loop} from {plan.row.loop} ({plan.chance})"
            yield AnswerSentence(said, f"{plan.tasks} would confirm it ({plan.chance})", decides=plan.decides)

    def _soonest(self, undecided: Sequence[tuple[Pair, AnswerRow]]) -> _Plan | None:
        """Return the run of fewest tasks that is likely to decide one of these pairs; None if no feasible one is."""
        plans = [(pair.outlook.more, pair, row) for pair, row in undecided if pair.outlook is not None]
        if not plans:
            return None
        size, pair, row = min(plans, key=lambda plan: (plan[0].tasks, plan[0].chance))
        tasks = f"{counted(size.tasks, 'task')}{self._under(pair)}"
        chance = f"chance about {chance_in_words(size.chance)}"
        return _Plan(row, tasks, chance, DecidingRun((pair.a, pair.b), size.tasks, size.chance))

    def _under(self, pair: Pair) -> str:
        """Return the column of a pair's arms; empty where there is only one."""
        if len(self.found.columns) == 1:
            return ""
        place = next(n for row in self.found.rows for n, cell in enumerate(row.cells) if cell and cell.arm.info.arm == pair.a)
        return f" under {self.found.heading(self.found.columns[place])}"

    def _worse(self, compared: Sequence[int], adopted: AnswerRow | None = None) -> Iterator[AnswerSentence]:
        """Yield which loops are worse than the best, and where. `adopted`: a loop of which that has been said."""
        lost: dict[tuple[str, ...], list[str]] = {}
        for row in self.found.rows:
            if row is adopted:
                continue
            under = tuple(self.found.heading(self.found.columns[n]) for n in compared if place_of(row, n) == "lower")
            if under:
                lost.setdefault(under, []).append(row.loop)
        if not lost:
            return
        if len(lost) > MAX_NAMES - 1:
            every = listed([loop for loops in lost.values() for loop in loops])
            yield AnswerSentence(f"Worse than the best under some profile: {every}", may_be_left_out=True)
            return
        parts = []
        for under, loops in lost.items():
            where = "" if len(compared) == 1 else " everywhere" if len(under) == len(compared) else f" under {listed(under)}"
            parts.append(f"{listed(loops)}{where}")
        yield AnswerSentence(f"Worse: {'; '.join(parts)}", may_be_left_out=True)


def _is_won(pair: Pair, row: AnswerRow) -> bool:
    """Whether the row's loop is better in a pair."""
    return standing(pair, pair.a if pair.a in _arms(row) else pair.b) == "better"


def _arms(row: AnswerRow) -> set[str]:
    return {cell.arm.info.arm for cell in row.cells if cell is not None}
