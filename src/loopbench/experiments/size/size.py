"""All that a pilot says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from loopbench.experiments.compare.results import Results
from loopbench.metrics.summary import PRIMARY

from .caveats import caveats
from .pilot import SizeRequest, read_pilot
from .sizes import PLANS, Noise, SizeOption, noise


@dataclass(frozen=True, slots=True)
class Sizing:
    """All that a pilot says."""

    run: str
    metric: str
    alpha: float
    power: float
    tasks: int
    """Scored in the pilot."""
    repeats: int
    suite: str
    suite_tasks: int | None
    """That the suite has, and that would be scored; None where it is not known."""
    noise: tuple[Noise, ...]
    plans: tuple[SizeOption, ...]
    caveats: tuple[str, ...]
    """What to keep in mind, a sentence each."""

    @property
    def is_ratio(self) -> bool:
        """Whether differences and margins are ratios."""
        return self.metric != PRIMARY

    def to_json(self) -> dict[str, Any]:
        """The object of `--json`: names stay stable."""
        return {
            "run": self.run,
            "metric": self.metric,
            "alpha": self.alpha,
            "power": self.power,
            "pilot": {"tasks": self.tasks, "repeats": self.repeats},
            "suite": {"name": self.suite, "tasks": self.suite_tasks},
            "noise": [asdict(noise) for noise in self.noise],
            "plans": [plan.to_json() for plan in self.plans],
            "doubts": list(self.caveats),
        }


def size(found: Results, request: SizeRequest, again: Results | None = None) -> Sizing:
    """Work out from a pilot what a run takes. `again`: a second run of the same configuration with another seed.

    Raises ValueError for bad arguments, for a pilot that knows nothing of the metric or has one task, and for runs that do not
    belong together.
    """
    pilot = read_pilot(found, request, again)
    return Sizing(
        run=str(found.folder),
        metric=request.metric,
        alpha=pilot.alpha,
        power=request.power,
        tasks=max(len(arm.values) for arm in pilot.values.values()),
        repeats=pilot.repeats,
        suite=found.manifest.suite.name,
        suite_tasks=pilot.supply.tasks,
        noise=tuple(noise(pilot, arm) for arm in pilot.loops),
        plans=tuple(PLANS[purpose](pilot) for purpose in request.purposes),
        caveats=tuple(caveats(pilot, found, again)),
    )
