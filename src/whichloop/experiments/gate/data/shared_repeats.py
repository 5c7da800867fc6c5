"""The repeats that a run and a baseline of one seed have both, where their numbers of repeats differ."""

from __future__ import annotations

from dataclasses import dataclass

from whichloop.protocol.values import counted


@dataclass(frozen=True, slots=True)
class SharedRepeats:
    """How many repeats of each task the run and the baseline have; under one seed the first ones of both are the same trials."""

    run: int
    baseline: int

    @property
    def both(self) -> int:
        """The number of repeats that both have, by which the run is judged."""
        return min(self.run, self.baseline)

    @property
    def fewer_in_run(self) -> bool:
        """Whether trials of the baseline are left out."""
        return self.run < self.baseline

    @property
    def in_words(self) -> str:
        """What was compared, as the end of a sentence: `judged by the 2 repeats that both have (the run has 2, the baseline 3)`."""
        each = f"(the run has {self.run:,}, the baseline {self.baseline:,})"
        return f"judged by the {counted(self.both, 'repeat that both have', 'repeats that both have')} {each}"

    def to_json(self) -> dict[str, int]:
        """Return plain JSON."""
        return {"both": self.both, "run": self.run, "baseline": self.baseline}
