"""Values of a factor that are not told apart: where they make any difference at all, and which pair of settings may decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from whichloop.metrics.factors.layout import Factor
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted, joined
from whichloop.text.numbers import difference_text, listed_names

from .ablation import AblationResult, value_texts


@dataclass(frozen=True, slots=True)
class OpenValues:
    """The settings of an ablation, pair by pair. `chosen`: factor → the value that is recommended."""

    result: AblationResult
    chosen: Mapping[str, str]

    def are_the_same_here(self, factor: str, value: str) -> bool:
        """Whether the recommended setting did the same in every trial with this value."""
        here = self._pairs_with_chosen(factor, value)
        return bool(here) and all(self._did_the_same(pair) for pair in here)

    def deciding_pairs(self, factor: str, value: str) -> list[Pair]:
        """Return the pairs of settings that may tell a value from the chosen one: those of the recommended setting or, where it did
        the same with both, the one in which the two differ most; none where they differ nowhere, or that setting was not run."""
        here = self._pairs_with_chosen(factor, value)
        if not here or not self.are_the_same_here(factor, value):
            return here
        apart = [pair for pair in self._pairs(factor, self.chosen[factor], value) if not self._did_the_same(pair)]
        return [max(apart, key=lambda pair: abs(pair.difference.value))] if apart else []

    def elsewhere(self, factor: str, pair: Pair) -> str:
        """Return ` with decision_format=json`, in what the settings of a pair are not the recommended one beside this factor."""
        others = {name: value for name, value in self._values(pair.a).items() if name != factor and value != self.chosen[name]}
        return f" with {joined([f'{name}={value}' for name, value in others.items()])}" if others else ""

    def without_difference(self, factor: Factor) -> Iterator[str]:
        """Yield with which values of other factors a factor made no difference in any trial, and what it made with the rest."""
        own = [pair for one, other in combinations(factor.levels, 2) for pair in self._pairs(factor.name, one, other)]
        for other in self.result.layout.factors:
            if other is factor:
                continue
            at = {level: [pair for pair in own if self._values(pair.a)[other.name] == level] for level in other.levels}
            still = [level for level, pairs in at.items() if pairs and all(map(self._did_the_same, pairs))]
            rest = [level for level, pairs in at.items() if level not in still and pairs]
            if still and rest:
                trials = counted(sum(self._trials(pair) for level in still for pair in at[level]), "pair")
                no_difference = (
                    f"{factor.name} made no difference in any of {trials} of trials with {other.name}={listed_names(still)}"
                )
                yield "; ".join(
                    [no_difference, *(self._difference_made(factor, f"{other.name}={level}", at[level]) for level in rest)]
                )

    def _difference_made(self, factor: Factor, other_value: str, pairs: Sequence[Pair]) -> str:
        """Return what a factor made with a value of another one: the difference of a single pair of settings, else that it did."""
        if len(pairs) > 1:
            return f"with {other_value} it did"
        pair = max(pairs[0], pairs[0].turned, key=lambda turned: factor.levels.index(self._values(turned.a)[factor.name]))
        last, first = (self._values(arm)[factor.name] for arm in (pair.a, pair.b))
        tasks = counted(pair.difference.n, "task")
        return f"with {other_value} {last} minus {first} is {difference_text(pair.difference, 3)} on {tasks}"

    def _pairs_with_chosen(self, factor: str, value: str) -> list[Pair]:
        """Return the pairs of the recommended setting with the same one but for this value, one for each profile."""
        pairs = self._pairs(factor, self.chosen[factor], value)
        return [pair for pair in pairs if not self.elsewhere(factor, pair)]

    def _pairs(self, factor: str, one: str, other: str) -> list[Pair]:
        """Return the pairs of settings that differ in nothing but a factor, which has these two values."""
        pairs_found = []
        for pair in self.result.results.comparison.pairs:
            if pair.metric == PRIMARY:
                a, b = self._values(pair.a), self._values(pair.b)
                if {a.pop(factor), b.pop(factor)} == {one, other} and a == b:
                    pairs_found.append(pair)
        return pairs_found

    def _values(self, arm: str) -> dict[str, str]:
        return value_texts(self.result.ablation.cells[arm])

    def _did_the_same(self, pair: Pair) -> bool:
        return self.result.results.comparison.are_same(pair.a, pair.b)

    def _trials(self, pair: Pair) -> int:
        return next(arm.summary.trials for arm in self.result.results.comparison.arms if arm.info.arm == pair.a)
