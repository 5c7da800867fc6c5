"""What becomes of the calls that a model makes: are they lost, done twice, given another call's result, or run too early?

A reply may make several calls at once, and leaves the rest to the loop. Each number is a share of a trial's calls or results:

- *lost*: of the calls that replies asked for and that a tool could have run, those that did not run before the model was asked
  again, and those whose result the first prompt that needed it did not show. A call that a loop refuses by itself is lost as well.
- *doubled*: the runs of a call that had given its result, made more often than the model asked for, be they refused by the tool or
  not. A call that the loop altered runs in the place of the one that the model wrote, and is no double; nor is a run after one that
  failed, nor what the model asks for again, be it because its prompt no longer shows the result: `retention` counts that.
- *mispaired*: of the results that prompts give for calls of a reply with several, by the calls' ids, those that are another
  call's. Known of native calls, with a scripted model, whose receipts say whose a result is.
- *overlapped*: of the calls that a scripted model made beside what they need done (see `whichloop.models.at_once`), those that
  began before it was done.
"""

from __future__ import annotations

from typing import Final

from .record import Record

ASKED: Final = "asked"


def calls_share(record: Record, part: str, whole: str = ASKED) -> float | None:
    """Return the part of a trial's calls or results as a share of the whole; None where the whole is nothing."""
    counted = record.call_counts
    return min(1.0, counted.get(part, 0) / counted[whole]) if counted.get(whole) else None
