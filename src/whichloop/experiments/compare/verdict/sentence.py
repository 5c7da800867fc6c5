"""One sentence of an answer, and the run that it is about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from whichloop.protocol.values import joined


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer, without its full stop."""

    text: str
    brief: str = ""
    """The same in fewer words, for a narrow terminal; empty: there is no shorter one."""
    briefest: str = ""
    """The same in the fewest words, for a terminal without room for `brief`; empty: there is no shorter one."""
    may_be_left_out: bool = False
    """Whether the matrix or another sentence shows what matters of it, so that a narrow terminal may lack it."""
    has_precedence: bool = False
    """Whether it says what is undecided or what is worse, and so has room before all others but the verdict."""
    decides: DecidingRun | None = None
    """The run that the sentence is about, whose command stands below it."""
    command: tuple[str, ...] = ()
    """The words of another command that stands below it."""
    adopts: str = ""
    """The loop that it says to adopt, the first one if several."""
    or_else: tuple[str, ...] = ()
    """The others."""
    of_tasks: str = ""
    """Of which tasks it says so, where these are not tasks in general: `on these 8 tasks`, `of other tasks`."""
    is_basis: bool = False
    """Whether it says what the verdict rests on, and stands before it."""
    opens: bool = False
    """Whether it is of another profile than what stands before it, and so begins on a line of its own."""

    @property
    def loops(self) -> tuple[str, ...]:
        """All loops that it says to adopt, one or another; none where it says to adopt none."""
        return (self.adopts, *self.or_else) if self.adopts else ()

    def behind(self, words: str) -> AnswerSentence:
        """Return the sentence behind these words, in each of its forms."""
        brief, briefest = (form and f"{words}{form}" for form in (self.brief, self.briefest))
        return replace(self, text=f"{words}{self.text}", brief=brief, briefest=briefest)

    @property
    def in_fewest_words(self) -> str:
        """The shortest form that there is."""
        return self.briefest or self.brief or self.text

    @property
    def in_full(self) -> str:
        """The sentence, with its own command behind it."""
        return f"{self.text}: {shlex.join(self.command)}" if self.command else self.text


@dataclass(frozen=True, slots=True)
class Wording:
    """A sentence or a part of one in full, and the same in few words for a narrow terminal."""

    full: str
    brief: str

    def __add__(self, after: Wording | str) -> Wording:
        """Return this part with another one, or the same words in both forms, behind it."""
        more = after if isinstance(after, Wording) else alike(after)
        return Wording(f"{self.full}{more.full}", f"{self.brief}{more.brief}")

    def __radd__(self, before: str) -> Wording:
        return alike(before) + self

    def __bool__(self) -> bool:
        """Whether there are any words."""
        return bool(self.full)

    def filled(self, **parts: Wording | str) -> Wording:
        """Return both forms with each part in the place that has its name in braces; a form need not have a place for each."""
        full = {name: part.full if isinstance(part, Wording) else part for name, part in parts.items()}
        brief = {name: part.brief if isinstance(part, Wording) else part for name, part in parts.items()}
        return Wording(self.full.format(**full), self.brief.format(**brief))

    def sentence(self, adopts: str = "", or_else: tuple[str, ...] = ()) -> AnswerSentence:
        """Return the whole sentence. `adopts`, `or_else`: the loops that it says to adopt; in the fewest words, these alone."""
        briefest = f"Adopt {joined((adopts, *or_else), 'or')}" if adopts else ""
        return AnswerSentence(self.full, self.brief, briefest, adopts=adopts, or_else=or_else)


NO_WORDS = Wording("", "")


def alike(words: str) -> Wording:
    """Return words that are the same in full and in brief."""
    return Wording(words, words)


def leading(sentences: Sequence[AnswerSentence]) -> Sequence[AnswerSentence]:
    """Return the sentences that say what a verdict rests on, and the verdict behind them: they stand out."""
    rests_on = [*takewhile(lambda each: each.is_basis, sentences)]
    return sentences[: len(rests_on) + 1]


@dataclass(frozen=True, slots=True)
class DecidingRun:
    """Two loops in one column, and how many tasks are likely to tell them apart in a fresh run of the two alone."""

    arms: tuple[str, str]
    tasks: int
    chance: float
