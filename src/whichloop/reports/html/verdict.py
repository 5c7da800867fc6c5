"""The first section: the matrix of loops and profiles, and which loop to adopt; of an ablation its effects."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.experiments.ablate.ablation import AblationResult
from whichloop.metrics.summary import METRICS

from .charts import effects
from .document import Banner, Block, Figure, Folded, Items, PageSection
from .grouping import group_by

WARNING = "Warning: "
BROKEN = ("This run is invalid", "The test is invalid")
"""Beginnings of notes that the page shows in a banner."""
# --- warnings and notes ---


def warning_banners(invalid: str, warnings: tuple[str, ...]) -> list[Banner]:
    """Return a banner with the warnings, if any. `invalid`: the title for an invalid run, empty for a valid one."""
    if invalid:
        return [Banner(invalid, warnings, "invalid")]
    return [Banner("Keep in mind", warnings)] if warnings else []


def how_to_read(notes: Sequence[str]) -> list[Folded]:
    """Return the notes that the page does not show in a banner, folded."""
    plain = tuple(note for note in notes if not note.startswith((WARNING, *BROKEN)))
    return [Folded("How to read these numbers", (Items(plain, "quiet"),))] if plain else []


def effects_section(ablation: AblationResult) -> PageSection:
    """Return the charts of the effects, that of accuracy first."""
    figures: list[Block] = []
    for metric, same in group_by(ablation.effects.effects, lambda effect: effect.metric).items():
        read = f"Change of {METRICS[metric].label} with its interval; for an interaction, what both changes do beyond their sum."
        figures.append(Figure(effects(same), read))
    folded = [Folded("Charts of the other metrics", tuple(figures[1:]))] if figures[1:] else []
    return PageSection("effects", "What each factor does", (*figures[:1], *folded))
