"""The list of metrics: measures of every arm, and scorers of tasks."""

from __future__ import annotations

import inspect

from whichloop.metrics.measures import MEASURES
from whichloop.metrics.scorers import SCORERS

from .entry import CatalogueEntry


def entries() -> list[CatalogueEntry]:
    meanings = {name: measure.meaning for name, measure in MEASURES.items()}
    meanings |= {name: (inspect.getdoc(scorer) or "").partition("\n")[0] for name, scorer in sorted(SCORERS.items())}
    return [CatalogueEntry(name, meaning) for name, meaning in meanings.items()]
