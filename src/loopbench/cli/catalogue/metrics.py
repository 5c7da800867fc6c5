"""The list of metrics: measures of every arm, and scorers of tasks."""

from __future__ import annotations

import inspect

from loopbench.metrics.measure import measures
from loopbench.metrics.scoring import SCORERS, scorer_names
from loopbench.protocol.modules import module_in

from .entry import CatalogueEntry


def entries() -> list[CatalogueEntry]:
    scorers = [CatalogueEntry(name, (inspect.getdoc(module_in(SCORERS, name)) or "").splitlines()[0]) for name in scorer_names()]
    return [CatalogueEntry(name, "of every arm and pair, with interval") for name in measures()] + scorers
