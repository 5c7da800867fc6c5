"""What can be done about a gate's outcome: what it follows from, in words and commands of whoever asked. `next_steps` says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Asker = Literal["shell", "test", "python"]
"""Who asked: a command line, a test with the fixture `loop_gate`, or a program that calls `whichloop.gate`."""
DRAWS = {"seed": "seed", "repeats": "number of repeats"}
"""Setting that draws other trials than the baseline's → what a sentence calls it."""


@dataclass(frozen=True, slots=True)
class Larger:
    """A larger baseline, which is likely to decide what a gate leaves open."""

    tasks: int
    """Number of tasks that decides with this chance; 0 where no feasible number is likely to decide anything."""
    chance: float
    cost_usd: float | None
    """US dollars of a run of so many tasks; None if no price is known."""
    whole: bool
    """Whether that is the case of all that is open; else some of it is left to no feasible number of tasks."""
    suite: str = ""
    """Name of the suite in this size; empty where the tasks are the user's, or nobody knows how to make so many."""
    supply: str = ""
    """Where the tasks have to come from, as a sentence; empty for a suite that makes them."""
    compare: tuple[str, ...] = ()
    """Words of the command that runs the baseline's configuration over them; empty where no command says all of it."""
    imported: bool = False
    """Whether the baseline was imported, so that nothing can be run."""
    repeats: str = ""
    """Whether more repeats of the same tasks would decide it, as a sentence; of the user's own tasks alone."""
    ran: int = 0
    """Number of tasks that the baseline ran."""
    out_of_proportion: bool = False
    """Whether no feasible number of tasks decides, or so many that nobody is to be told to write them."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What next steps follow from. Commands are words, without a shell's quotes."""

    asker: Asker = "shell"
    differs: tuple[tuple[str, Any, Any], ...] = ()
    """Setting that draws other trials than the baseline's, `seed` or `repeats`, with its value now and then."""
    imported: bool = False
    """Whether the baseline was imported, so that nothing can be run, and the agents are of another tool."""
    only_the_seed: bool = False
    """Whether the loops are the blessed ones, by code, options and model, and the seed alone is another."""
    again: tuple[str, ...] = ()
    """The command that runs this gate again, with every option that it had; empty where nothing can be run."""
    paired: tuple[str, ...] = ()
    """The same with the baseline's own seed and repeats."""
    other_cause: bool = False
    """Whether trials of a blessed loop differ, and not by chance, so that something beside its code has changed."""
    limited: tuple[str, ...] = ()
    """The same with the loops' new default limits as options, which a comparison then keeps."""
    limits_compared: tuple[str, ...] = ()
    """The command that compares the loops under their old default limits with the same under the new ones."""
    review: tuple[str, ...] = ()
    """The command that prints all of this judgement."""
    bless_latest: tuple[str, ...] = ()
    """The command that makes the next run the baseline."""
    let_through: str = ""
    """What lets this outcome count as a pass, in words of whoever asked; empty where nothing does."""
    larger: Larger | None = None
    """What is likely to decide what is open; None where nothing is."""
    unseen: tuple[tuple[str, str], ...] = ()
    """What no changed loop met, in words, with the built-in profile under which it does; of an outcome that passes."""

    def option(self, name: str, value: Any) -> str:
        """Return a setting of the gate as whoever asked would write it: `--seed 0`, or `seed=0`."""
        if self.asker == "shell":
            return f"--{name.replace('_', '-')} {value}"
        return f"{name}={json.dumps(value, ensure_ascii=False)}"

    def judging(self, metrics: Sequence[str], margin: float) -> str:
        """Return what has the gate judge these metrics, too."""
        if self.asker == "shell":
            return " ".join(f"--metric {name}={margin:g}" for name in metrics)
        return f"metrics={json.dumps(dict.fromkeys(metrics, margin))}"

    def with_words(self, change: Callable[[str], str]) -> Advice:
        """Return the same with each word of a command changed, such as the folder before a file."""

        def changed(words: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(map(change, words))

        return replace(
            self,
            again=changed(self.again),
            paired=changed(self.paired),
            limited=changed(self.limited),
            limits_compared=changed(self.limits_compared),
            review=changed(self.review),
            bless_latest=changed(self.bless_latest),
        )

    def with_flags(self, flags: Sequence[str]) -> Advice:
        """Return the same with more flags behind each command that gates."""
        return replace(
            self,
            again=(*self.again, *flags) if self.again else (),
            paired=(*self.paired, *flags) if self.paired else (),
            limited=(*self.limited, *flags) if self.limited else (),
            review=(*self.review, *flags),
        )
