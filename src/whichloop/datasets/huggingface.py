"""Tasks of your own from Hugging Face: a data set on its hub, or one that was saved to a folder."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from whichloop._extras import missing

from .importing.columns import Cells, RowOptions, RowTable
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite


def hub_table(dataset: Any, source: str, name: str) -> RowTable:
    """Return one split of a data set, a `datasets.Dataset`, as a table; class labels are given by their names."""
    classes = {column: feature.names for column, feature in dataset.features.items() if type(feature).__name__ == "ClassLabel"}

    def rows(wanted: Collection[str] | None) -> Iterator[tuple[int, Cells]]:
        kept = [name for name in dataset.column_names if wanted is None or name in wanted]  # pictures are not decoded
        for number, cells in enumerate(dataset.select_columns(kept), 1):
            for column, names in classes.items():
                if isinstance(value := cells.get(column), int):
                    cells[column] = names[value] if 0 <= value < len(names) else None  # -1: no class
            yield number, cells

    return RowTable(source, name, rows, tuple(dataset.column_names))


def load(
    path: str, tools: OwnTools | None = None, name: str | None = None, split: str | None = None, **options: Unpack[RowOptions]
) -> Suite:
    """Read the suite of a data set of Hugging Face; see `whichloop.datasets.importing.columns` for what a column means.

    `path`: a data set's name on the hub, or a folder that `save_to_disk` wrote. `name`: its configuration. `split`: needed where
    there are several. `tools`: `--tools MODULE`. `options`: see `RowOptions`.

    Raises ValueError where the library is not installed, for a data set that cannot be had, and for what is wrong in it.
    """
    library = _library()
    source = f"huggingface {path}{f' {name}' if name else ''}{f', {split}' if split else ''}"
    dataset = _loaded(library, path, name, split, source)
    if isinstance(dataset, Mapping):
        if split is None and len(dataset) == 1:
            split = next(iter(dataset))
        if split not in dataset:
            raise ValueError(f"{source}: name one of its splits, {', '.join(dataset)}: huggingface(path=…, split=NAME)")
        dataset = dataset[split]
    table = hub_table(dataset, source, Path(path).name or "huggingface")
    return suite_of(table, "huggingface", tools, options)


def _library() -> object:
    try:
        library = importlib.import_module("datasets")
    except ModuleNotFoundError as error:
        if error.name != "datasets":
            raise ValueError(f"huggingface: the library `datasets` cannot be imported: {error}") from None
        raise missing("huggingface", "datasets") from None
    if not hasattr(library, "load_dataset"):  # a folder of that name: our own, at the root of the repository
        raise missing("huggingface", "datasets")
    return library


def _loaded(library: Any, path: str, name: str | None, split: str | None, source: str) -> object:
    """Load a `Dataset`, or a mapping of them by split. No code that comes with a data set is run."""
    try:
        if any((Path(path) / name).is_file() for name in ("state.json", "dataset_dict.json")):  # `save_to_disk` leaves one of them
            return library.load_from_disk(path)
        return library.load_dataset(path, name, split=split)
    except Exception as error:  # of the hub, the network, the disk, Arrow: whatever it is, there is no data set
        raise ValueError(f"{source}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from None


SUITE = load
