"""The list of optimizers."""

from __future__ import annotations

from whichloop.experiments.optimize.optimizer import optimizers

from .entry import CatalogueEntry, OptionLine, plugins, shown_default


def entries() -> list[CatalogueEntry]:
    optimizer_entries = []
    for optimizer in optimizers():
        options = tuple(
            OptionLine(option.name, shown_default(option.default), option.doc) for option in optimizer.described.values()
        )
        optimizer_entries.append(CatalogueEntry(optimizer.name, optimizer.summary, options))
    own = CatalogueEntry(
        "package.module:Name", "a teleprompter of your own: a class or function that gives an object with DSPy's compile"
    )
    return [*optimizer_entries, *plugins("optimizer"), own]
