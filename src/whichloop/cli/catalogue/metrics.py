"""The list of metrics: measures of every arm, and scorers of tasks."""

from __future__ import annotations

from whichloop.metrics.measure import MEASURES, measures
from whichloop.metrics.scoring import SCORERS, scorer_names
from whichloop.protocol.modules import meaning_in

from .entry import CatalogueEntry


def entries() -> list[CatalogueEntry]:
    places = [*((MEASURES, name) for name in measures()), *((SCORERS, name) for name in scorer_names())]
    return [CatalogueEntry(name, meaning_in(place, name)) for place, name in places]
