"""One sentence of an answer, and the run that it is about."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.protocol.values import joined
from whichloop.runs.config import CompareConfig, flag_of
from whichloop.runs.manifest import ArmEntry, Manifest
from whichloop.runs.registry import with_size


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


KEPT = (
    *("data", "tools", "quarantine", "skip_unplanned", "repeats", "max_tool_steps", "price", "trial_budget", "trial_timeout_s"),
    *("tool_timeout_s", "alpha", "margin", "real_time"),
)
"""Settings of the run that the new one keeps."""
UNTOLD = ("user", "base_url", "provider", "cassette", "split")
"""Settings with which no command is told: it would have to repeat an address, a recording, or the size of another split."""


def deciding_command(manifest: Manifest, decides: DecidingRun) -> Sequence[str]:
    """Return the words of the command; none where the run's suite cannot have so many tasks, or a command would not say it all."""
    entries = [manifest.arm(arm) for arm in decides.arms]
    if manifest.imported is not None or not can_be_told(manifest.config):
        return ()
    loops = [None if entry is None else _typed(entry, manifest.settings.loops) for entry in entries]
    tasks = list(_tasks(manifest, decides.tasks))
    first = entries[0]
    if first is None or None in loops or not tasks:
        return ()
    words = ["whichloop", "compare"]
    for loop in loops:
        words += ["--loop", str(loop)]
    words += ["--profile", first.profile] if first.model == SCRIPTED else ["--model", first.model]
    words += [*tasks, "--seed", str(manifest.seed + 1)]  # other faults: what was seen would else decide again
    return [*words, *kept_words(manifest.config)]


def can_be_told(config: Mapping[str, Any]) -> bool:
    """Whether a command says all that a run's configuration does. What is None may be left out of it, as a baseline does."""
    defaults = CompareConfig().model_dump(mode="json")
    return all(_without_none(config.get(name, defaults[name])) == _without_none(defaults[name]) for name in UNTOLD)


def _without_none(value: Any) -> Any:
    """Return a setting without the parts that are None."""
    return {name: part for name, part in value.items() if part is not None} if isinstance(value, dict) else value


def kept_words(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags of those settings of a run that a new one keeps, where they are not the defaults."""
    defaults = CompareConfig().model_dump(mode="json")
    for name in KEPT:
        value = config.get(name, defaults[name])
        if isinstance(value, dict):
            yield from (word for part, limit in _without_none(value).items() for word in (flag_of([name, part]), str(limit)))
        elif value != defaults[name]:
            yield from [flag_of([name])] if value is True else [flag_of([name]), str(value)]


def _typed(entry: ArmEntry, loops: Sequence[str]) -> str | None:
    """Return an arm's loop as it was typed."""
    for text in loops:
        spec = parse_spec(text)
        if (spec.name, dict(spec.options)) == (entry.loop, entry.options):
            return text
    return None


def _tasks(manifest: Manifest, number: int) -> Iterator[str]:
    """Yield the words that ask for so many tasks: of a suite that makes as many as one likes, or of one that was not run whole."""
    suite = manifest.settings.suite
    if larger := with_size(suite, number):
        yield from ("--suite", larger)
    elif manifest.settings.tasks is not None:
        yield from ("--suite", suite, "--tasks", str(number))
