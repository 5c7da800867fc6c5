"""Tables, and the blocks of the docs that programs write: between `<!-- NAME: how it is made -->` and `<!-- /NAME -->`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*columns: str) -> list[str]:
    """Return the first two lines of a table."""
    return [row(*columns), "|---" * len(columns) + "|"]


def laid_out(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of text, in columns."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows laid out as text, in a fence."""
    yield from ("```text", *laid_out(rows), "```")


def block(page: Path, name: str) -> str:
    """Return the lines of a block, without those that mark it. Raises ValueError where the page has no such block."""
    return _found(page, name)[2]


def write_block(page: Path, name: str, text: str) -> None:
    """Put a text in the place of what stands in a block. Raises ValueError where the page has no such block."""
    found = _found(page, name)
    whole = found.string
    page.write_text(f"{whole[: found.start(2)]}\n{text}\n\n{whole[found.end(2) :]}", encoding="utf-8")


def _found(page: Path, name: str) -> re.Match[str]:
    mark = re.escape(name)
    found = re.search(rf"(<!-- {mark}: .*? -->\n)(.*?)(<!-- /{mark} -->)", page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise ValueError(f"{page}: there is no block {name!r}; it begins with <!-- {name}: how it is made -->")
    return found


def cells(page: Path, name: str) -> list[list[str]]:
    """Return the cells of the table in a block, heads first."""
    lines = [line for line in block(page, name).splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def arguments_of(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program that can write what it prints into a page."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the page")
    return parser


def make_tables(doc: str | None, page: Path, tables: Mapping[str, Callable[[float], Iterable[str]]]) -> None:
    """Run a program that makes these tables: the lines of each, of a share of its runs, by the block of the page it stands in."""
    parser = arguments_of(doc)
    parser.add_argument("--only", choices=tables, action="append", help="a table by its name [default: all]")
    parser.add_argument("--share", type=float, default=1.0, help="make this share of the runs")
    given = parser.parse_args()
    for name in given.only or tables:
        lines = []
        for line in tables[name](given.share):
            print(line, flush=True)
            lines.append(line)
        print()
        if given.write:
            write_block(page, name, "\n".join(lines))
