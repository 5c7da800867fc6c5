"""docs/ablate.md: its options can be typed, and its table of fractions is true."""

from __future__ import annotations

import re
import shlex
from itertools import product

from tests.docs.pages import DOCS
from whichloop.metrics.factors.layout import GENERATORS, choose_cells
from whichloop.protocol.names import Spec, parse_spec, parse_values
from whichloop.runs.registry import make_loop

PAGE = DOCS / "ablate.md"


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_factors_on_the_page_can_be_typed():
    """Where a whole command is given the loop takes them too."""
    written = [shlex.split(span, comments=True) for span in re.findall(r"^whichloop (.*--vary .+)$", text(), re.MULTILINE)]
    assert len(written) > 3
    for words in written:
        factors = [words[place + 1] for place, word in enumerate(words) if word == "--vary"]
        values = {name: parse_values(rest) for name, _, rest in (factor.partition("=") for factor in factors)}
        assert all(len(found) > 1 for found in values.values())
        if "--loop" in words:
            spec = parse_spec(words[words.index("--loop") + 1])
            for chosen in product(*values.values()):
                make_loop(Spec(spec.name, {**spec.options, **dict(zip(values, chosen, strict=True))}))


def test_the_table_of_fractions_is_true():
    begins = ("| options |", "| all cells |", "| resolution")
    lines = [line.strip("|").split("|") for line in text().splitlines() if line.startswith(begins)]
    numbers = [int(cell) for cell in lines[0][1:]]
    assert numbers == sorted(GENERATORS)
    for k, whole, four, more in zip(numbers, *(line[1:] for line in lines[1:]), strict=True):
        assert int(whole) == 2**k
        sizes = [2 ** (k - len(words.split())) for words in GENERATORS[k]]
        found = {size: choose_cells([2] * k, size).resolution for size in sizes}
        assert [size for size, resolution in found.items() if resolution == 4] == [int(n) for n in re.findall(r"\d+", four)]
        assert [size for size, resolution in found.items() if resolution != 4] == [int(n) for n in re.findall(r"\d+", more)]
    assert len(choose_cells([3, 3, 3, 3], 64).cells) == 63
