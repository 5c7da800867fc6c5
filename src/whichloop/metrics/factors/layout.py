"""The layout of a factorial experiment: which effects its cells can tell, and how each is read off the cells' means.

Where the cells are a fraction of all, the contrasts are those of least squares under main effects and two-factor interactions;
interactions of three factors and more are taken to be absent. In a full factorial the same contrasts are differences of marginal
means, whatever interactions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from ..statistics import Floats

Cell = tuple[int, ...]
"""The number of a level, from 0, for each factor."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What is varied: an option and the values it takes, the first of them the base."""

    name: str
    levels: tuple[str, ...]
    """Its levels as text, at least two."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step from one level of a factor to another, by their numbers."""

    factor: int
    start: int
    end: int

    def text(self, factors: Sequence[Factor]) -> str:
        factor = factors[self.factor]
        return f"{factor.name}: {factor.levels[self.start]} → {factor.levels[self.end]}"


@dataclass(frozen=True, slots=True)
class Given:
    """A change where another factor has one level."""

    change: Change
    factor: int
    level: int
    weights: Floats
    """Weights of the cells."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One effect before there are data."""

    kind: Literal["main", "interaction"]
    changes: tuple[Change, ...]
    """One for a main effect, two for an interaction."""
    code: Floats
    """Weights of the model's columns."""
    weights: Floats
    """Weights of the cells; the effect is the weighted sum of their means."""
    aliases: tuple[str, ...] = ()
    conditional: tuple[Given, ...] = ()

    def term(self, factors: Sequence[Factor]) -> str:
        return " × ".join(change.text(factors) for change in self.changes)


@dataclass(frozen=True, slots=True)
class Layout:
    """Factors, the cells that run, and what can be told from them."""

    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    matrix: Floats
    """Cells × columns of the model: 1, main effects, and interactions of two factors, each as sums to zero."""
    main_columns: int
    """So many columns, the first ones, are without interactions."""
    contrasts: tuple[Contrast, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """`a × b = c × d`: interactions of which only the sum is known."""
        return tuple(
            " = ".join((_product(self.factors, [change.factor for change in contrast.changes]), *contrast.aliases))
            for contrast in self.contrasts
            if contrast.aliases
        )

    def without_interactions(self) -> Layout:
        """Return the same cells with effects of single factors only to tell; interactions stay in the model and out of their
        way."""
        mains = tuple(contrast for contrast in self.contrasts if contrast.kind == "main")
        return Layout(self.factors, self.cells, self.matrix, self.main_columns, mains)


def layout(factors: Sequence[Factor], cells: Sequence[Cell]) -> Layout:
    """Return the main effects (each level against the first, and against the one before) and two-factor interactions from cells.

    Raises ValueError where the cells cannot tell a main effect from other effects of at most two factors.
    """
    mains = coded([len(factor.levels) for factor in factors], cells)
    blocks = _Blocks(np.ones((len(cells), 1)))
    for f, factor in enumerate(factors):
        if not blocks.add((f,), mains[f]):
            raise ValueError(f"these cells cannot tell the effect of {factor.name} from others")
    main_columns = blocks.matrix.shape[1]
    aliases: dict[tuple[int, ...], list[str]] = {}
    for f, g in combinations(range(len(factors)), 2):
        columns = crossed(mains[f], mains[g])
        if not blocks.add((f, g), columns):
            aliased, sign = blocks.alias(columns)
            if aliased is None or len(aliased) < 2:
                raise ValueError(f"these cells cannot tell {_product(factors, (f, g))} from effects of single factors")
            aliases.setdefault(aliased, []).append(f"{sign}{_product(factors, (f, g))}")
    inverse = np.asarray(np.linalg.pinv(blocks.matrix), dtype=np.float64)
    factors_of_layout = []
    for changes in _changes(factors, blocks.places):
        named = tuple(change.factor for change in changes)
        code = blocks.code({named: _code(factors, changes)})
        kind: Literal["main", "interaction"] = "main" if len(changes) == 1 else "interaction"
        conditionals = () if kind == "main" or named in aliases else _conditionals(factors, changes, blocks, inverse)
        factors_of_layout.append(Contrast(kind, changes, code, code @ inverse, tuple(aliases.get(named, ())), conditionals))
    return Layout(tuple(factors), tuple(cells), blocks.matrix, main_columns, tuple(factors_of_layout))


def _changes(factors: Sequence[Factor], terms: Mapping[tuple[int, ...], slice]) -> Iterator[tuple[Change, ...]]:
    """Return the changes, main effects first; interactions are between changes from both bases only."""
    for f, factor in enumerate(factors):
        for level in range(1, len(factor.levels)):
            yield (Change(f, 0, level),)
            if level > 1:
                yield (Change(f, level - 1, level),)
    for f, g in combinations(range(len(factors)), 2):
        if (f, g) in terms:
            for a in range(1, len(factors[f].levels)):
                for b in range(1, len(factors[g].levels)):
                    yield (Change(f, 0, a), Change(g, 0, b))


def _conditionals(factors: Sequence[Factor], changes: Sequence[Change], blocks: _Blocks, inverse: Floats) -> tuple[Given, ...]:
    """Return either of two changes at both levels of the other."""
    conditionals = []
    for change, other in (changes, changes[::-1]):
        change_code = _code(factors, [change])
        for level in (other.start, other.end):
            row = _coding(len(factors[other.factor].levels))[level]
            first = change.factor < other.factor
            crossed_code = {
                tuple(sorted((change.factor, other.factor))): np.kron(change_code, row) if first else np.kron(row, change_code)
            }
            code = blocks.code({(change.factor,): change_code, **crossed_code})
            conditionals.append(Given(change, other.factor, level, code @ inverse))
    return tuple(conditionals)


def coded(sizes: Sequence[int], cells: Sequence[Cell]) -> list[Floats]:
    """Return cells × columns for each factor, as many columns as it has levels but one; `sizes`: levels of each factor."""
    levels = np.array(cells, dtype=np.int64)
    return [_coding(size)[levels[:, f]] for f, size in enumerate(sizes)]


def crossed(a: Floats, b: Floats) -> Floats:
    """Return the columns of an interaction: all products of the columns of two factors."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _coding(levels: int) -> Floats:
    """Return levels × columns, of which each column sums to zero: one column per level but the base, which is -1 in all of them."""
    return np.vstack((-np.ones((1, levels - 1)), np.eye(levels - 1)))


def _code(factors: Sequence[Factor], changes: Sequence[Change]) -> Floats:
    """Return weights of the columns of the changes' own block: the change, or the difference between the two differences."""
    weights = np.ones(1)
    for change in changes:
        rows = _coding(len(factors[change.factor].levels))
        weights = np.kron(weights, rows[change.end] - rows[change.start])
    return weights


def _product(factors: Sequence[Factor], named: Sequence[int]) -> str:
    return " × ".join(factors[f].name for f in named)


class _Blocks:
    """Columns of a model, gathered block by block; what earlier columns already say is not taken in."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix
        self.places: dict[tuple[int, ...], slice] = {}

    def add(self, term: tuple[int, ...], columns: Floats) -> bool:
        """Add a block, and say whether it was added: it is not where it says nothing new, or not all of its columns do."""
        taken = np.hstack((self.matrix, columns))
        if np.linalg.matrix_rank(taken) < taken.shape[1]:
            return False
        self.places[term] = slice(self.matrix.shape[1], taken.shape[1])
        self.matrix = taken
        return True

    def code(self, parts: Mapping[tuple[int, ...], Floats]) -> Floats:
        """Return weights of all columns, from the weights of some terms' own."""
        weights = np.zeros(self.matrix.shape[1])
        for term, part in parts.items():
            weights[self.places[term]] = part
        return weights

    def alias(self, columns: Floats) -> tuple[tuple[int, ...] | None, str]:
        """Return the term whose one column is this one, and `-` where its sign is turned; None if it is not another term's."""
        for term, place in self.places.items() if columns.shape[1] == 1 else ():
            for sign, turned in (("", columns), ("-", -columns)):
                if np.array_equal(self.matrix[:, place], turned):
                    return term, sign
        return None, ""
