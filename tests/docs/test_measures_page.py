"""docs/measures.md: its blocks are those that can be made, and its sentences say what its tables hold."""

from __future__ import annotations

import re

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

MEASURES = load_benchmark("measures")
DESIGNS = set(MEASURES.DESIGNS)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
Table = dict[str, dict[str, str]]
"""First cell of a row, without its profile → column → cell."""


def tables(name: str) -> list[Table]:
    return [table(part) for part in re.findall(r"(?:^\|.*\n)+", block(MEASURES.PAGE, name), re.MULTILINE)]


def table(text: str) -> Table:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return {row[0].strip("`").partition("/")[0]: dict(zip(head, row, strict=True)) for row in rows}


def numbers(cell: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(cell)]


def test_each_block_can_be_made() -> None:
    made = re.findall(r"<!-- (\w+): python benchmarks/measures\.py ", MEASURES.PAGE.read_text("utf-8"))
    assert sorted(made) == sorted(MEASURES.BLOCKS)


def test_each_loop_of_the_run_is_struck_and_searched() -> None:
    means, faults = tables("overview")
    assert DESIGNS <= means.keys() == faults.keys()
    for row in faults.values():
        recovered, possible = numbers(row["recovers from, one at a time"])
        outcomes = ("ends as if all were well", "ends, and says so", "has no limit")
        assert recovered + sum(int(row[outcome]) for outcome in outcomes) == possible
        without, alone, searched, lost = (
            int(row[name]) for name in ("lost without any fault", "with one alone", "searched", "lost trials")
        )
        assert without + alone <= searched <= lost


def test_what_the_page_says_of_context_and_of_calls_at_once() -> None:
    (context,), (calls,) = tables("context"), tables("calls")
    kept = {loop: numbers(row["retention"])[0] for loop, row in context.items()}
    assert {loop for loop, share in kept.items() if share < 1} == {"stateless", "microcompact(loop=bare)"}
    for loop, at_once in zip(("finish", "stateless"), MEASURES.AT_ONCE, strict=True):
        overlapped = [numbers(calls[each]["write and read overlapped"])[0] for each in (loop, at_once)]
        assert overlapped == [0, 1]
        assert numbers(calls[at_once]["accuracy"])[2] < numbers(calls[loop]["accuracy"])[1]
    assert {calls[loop]["write and read overlapped"] for loop in ("bare", "phased", "react_extract")} == {"–"}


def test_what_the_page_says_of_injection() -> None:
    (found,) = tables("injection")
    apart = {loop for loop, row in found.items() if row["p (Holm, all pairs)"] == "<0.001"}
    assert all(f"guarded(loop=bare, {options})" in apart for options in MEASURES.DEFENCES if "writes" not in options)
    marked, *plain = (found[f"guarded(loop=bare, {options})"] for options in MEASURES.DEFENCES[:3])
    assert numbers(marked["injection attempted"])[0] < numbers(found["bare"]["injection attempted"])[0]
    assert {row["injection attempted"] for row in plain} == {found["bare"]["injection attempted"]}
