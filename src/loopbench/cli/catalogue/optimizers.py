"""The list of optimizers."""

from __future__ import annotations

from loopbench.experiments.optimize.optimizer import optimizers

from .entry import CatalogueEntry, OptionLine, plugins, shown


def entries() -> list[CatalogueEntry]:
    made = []
    for optimizer in optimizers():
        options = tuple(OptionLine(option.name, shown(option.default), option.doc) for option in optimizer.described.values())
        made.append(CatalogueEntry(optimizer.name, optimizer.summary, options))
    own = CatalogueEntry(
        "package.module:Name", "a teleprompter of your own: a class or function that gives an object with DSPy's compile"
    )
    return [*made, *plugins("optimizer"), own]
