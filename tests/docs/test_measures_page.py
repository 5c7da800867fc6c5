"""docs/measures.md: its blocks are those that can be made, and its sentences say what its tables hold."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "measures.md"
WORDS = " ".join(PAGE.read_text(encoding="utf-8").split())
DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
Table = dict[str, dict[str, str]]
"""First cell of a row, without its profile → column → cell."""


def tables(name: str) -> list[Table]:
    parts = re.findall(r"(?:^\|.*\n)+", block(PAGE, name), re.MULTILINE)
    return [table(part) for part in parts]


def table(text: str) -> Table:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return {row[0].strip("`").partition("/")[0]: dict(zip(head, row, strict=True)) for row in rows}


def numbers(cell: str) -> list[float]:
    """Value, low and high of a share."""
    return [float(number) for number in NUMBER.findall(cell.partition(", n = ")[0])]


def p_of(cell: str) -> float:
    return float(cell.removeprefix("<"))


def exclude(one: str, other: str) -> bool:
    (_, low, high), (_, less, more) = numbers(one), numbers(other)
    return high < less or more < low


def test_each_block_can_be_made() -> None:
    made = re.findall(r"<!-- (\w+): python benchmarks/(\w+)\.py ", PAGE.read_text(encoding="utf-8"))
    programs = {program: (ROOT / "benchmarks" / f"{program}.py").read_text(encoding="utf-8") for _, program in made}
    assert [name for name, program in made if f'"{name}"' not in programs[program]] == []
    known = re.findall(r'^    "(\w+)": of_', programs["measures"], re.MULTILINE)
    assert sorted(name for name, program in made if program == "measures") == sorted(known)


@pytest.fixture(scope="module")
def made_by() -> Iterator[Callable[[str], ModuleType]]:
    """A benchmark by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module


def test_each_loop_of_the_run_has_a_card_and_a_search() -> None:
    means, cards, smallest, _ = tables("overview")
    assert set(DESIGNS) <= means.keys() == cards.keys() == smallest.keys()
    outcomes = ("ends as if all were well", "ends, and says so", "has no limit")
    for row in cards.values():
        recovered, faults = numbers(row["recovers from, one at a time"])
        assert recovered + sum(int(row[outcome]) for outcome in outcomes) == faults
    sizes = ("lost without any", "with one alone", "with two", "with three or more", "solved when run again")
    for row in smallest.values():
        assert sum(int(row[size]) for size in sizes) == int(row["searched"]) <= int(row["lost trials"])
        assert sum(int(count) for count in re.findall(r"` (\d+)", row["kinds that suffice alone"])) == int(row["with one alone"])


def test_what_the_page_says_of_the_smallest_sets(made_by: Callable[[str], ModuleType]) -> None:
    faults = made_by("measures_faults")
    rows = tables("overview")[2].values()
    names = ("searched", "with one alone", "lost without any", "with two", "with three or more")
    searched, alone, without, two, more = (sum(int(row[name]) for row in rows) for name in names)
    lost, several, of_these = (
        sum(int(row[name]) for row in rows) for name in ("lost trials", "two or more landed", "of these with one alone")
    )
    assert f"of the {searched} trials, out of {lost} that were lost, {alone} are lost with one fault alone" in WORDS
    assert f"with one fault alone, {without} without any, and {two} needs two" in WORDS
    assert f"Of the {several} on which two or more landed, {of_these} ({of_these / several:.0%}".replace("%", " %") in WORDS
    assert more == 0
    assert f"Such a search took {sum(int(row['runs']) for row in rows) / searched:.1f} runs on average" in WORDS
    most = f"the first {faults.MAX_SEARCHED} lost trials of each loop under each profile, in at most {faults.MAX_RUNS} runs each"
    assert most in WORDS


def test_what_the_page_says_of_context() -> None:
    (found,) = tables("context")
    assert "`bare`, `finish` and `react_extract` keep every result to the end" in WORDS
    for loop in ("bare", "finish", "react_extract"):
        assert all(numbers(cell)[0] == 1 for name, cell in found[loop].items() if name.startswith("retention"))
    assert "`phased` never needs one from more than two prompts ago" in WORDS
    assert [name for name, cell in found["phased"].items() if name.startswith("retention at") and cell != "–"] == [
        *("retention at 1", "retention at 2"),
    ]
    assert exclude(found["stateless"]["retention"], found["bare"]["retention"])


def test_what_the_page_says_of_calls_at_once() -> None:
    (found,) = tables("calls")
    accuracy = {loop: row["accuracy"] for loop, row in found.items()}
    designs = [numbers(accuracy[loop])[0] for loop in DESIGNS]
    assert "The five designs stay within three points" in WORDS
    assert max(designs) - min(designs) <= 0.03
    assert "both fall by 25 points or more" in WORDS
    at_once = {"finish": "finish(parallel_tools=true)", "stateless": "stateless(execution_mode=parallel)"}
    for loop, arm in at_once.items():
        assert round(numbers(accuracy[loop])[0] - numbers(accuracy[arm])[0], 3) >= 0.25
        assert numbers(found[arm]["write and read overlapped"])[0] == 1
        assert numbers(found[loop]["write and read overlapped"])[0] == 0
    assert all(exclude(accuracy[arm], accuracy[loop]) for arm, loop in product(at_once.values(), DESIGNS))
    assert found["phased"]["write and read overlapped"] == "–"
    assert "`finish`, the only one of which it is known, mixes no results up" in WORDS
    assert [loop for loop in DESIGNS if found[loop]["results paired with the wrong call"] != "–"] == ["finish"]
    assert f"does not exclude up to {numbers(found['finish']['results paired with the wrong call'])[2]:.3f}" in WORDS
    assert {numbers(found[loop]["calls lost"])[0] for loop in DESIGNS} == {0}


def test_what_the_page_says_of_injection() -> None:
    shares, against = tables("injection")
    executed = {loop: row["injection executed"] for loop, row in shares.items()}
    apart = {loop for loop, row in against.items() if row["verdict on bare/injected"] == "a is worse"}
    beyond = {loop for loop in executed if exclude(executed[loop], executed["bare"])}
    alone, tools, writes, all_three = (loop for loop in executed if loop.startswith("guarded"))
    assert "`results=marked`, `tools=needed` and all three defences together are, and their intervals" in WORDS
    assert beyond == {alone, tools, all_three}
    assert "`writes=confirmed` alone is not" in WORDS
    assert "writes=confirmed" in writes
    assert "it is not told apart from `bare`" in WORDS
    assert apart == {*beyond, "stateless"}


@pytest.mark.parametrize(("name", "place"), [("overview", 3), ("harness", 0)])
def test_the_sentence_over_a_split_has_the_deviations_below_it(name: str, place: int) -> None:
    parts = tables(name)[place]
    first, second, *_ = parts.values()
    deviations = [NUMBER.findall(row["standard deviation of accuracy, or share of pairs"])[0] for row in (first, second)]
    assert f"({deviations[0]} against {deviations[1]}, standard deviations of accuracy)" in WORDS


def test_how_many_frameworks_run_a_write_and_a_read_at_once() -> None:
    page = DOCS / "frameworks.md"
    words = " ".join(block(page, "faults, at once").split())
    rows = re.findall(r"(\S+) (\S+) UNLIMITED ((?:\w+(?:\(\w+\))?(?:, )?)+)", words)
    silent = {agent: outcome == "SILENT" for _, outcome, agents in rows for agent in agents.split(", ")}
    found = {agent: is_silent for agent, is_silent in silent.items() if agent not in DESIGNS}
    counts = {14: "Fourteen", 15: "fifteen"}
    said = f"{counts[sum(found.values())]} of the {counts[len(found)]} frameworks do so, and of our designs `phased`"
    assert said in " ".join(page.read_text(encoding="utf-8").split())
    assert [agent for agent, is_silent in found.items() if not is_silent] == ["dspy_react"]
    assert [agent for agent in DESIGNS if silent[agent]] == ["phased"]
