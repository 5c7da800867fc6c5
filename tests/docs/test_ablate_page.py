"""docs/ablate.md: its example is what the command prints, and says what is read from it.

`--write` renews the example.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from itertools import product
from pathlib import Path

import pytest

from benchmarks.pages import block
from tests.docs.pages import DOCS, commands, output_of, preformatted, write_output
from whichloop.metrics.factors.layout import GENERATORS, choose_cells
from whichloop.protocol.names import Spec, parse_spec, parse_values
from whichloop.runs.registry import make_loop

PAGE = DOCS / "ablate.md"


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def printed(folder: Path) -> str:
    """Return what the page's command prints, without the size of its traces, which hold times."""
    return "\n".join(line for line in output_of(commands(PAGE), folder).splitlines() if not line.startswith("traces: ")).strip()


@pytest.mark.slow
def test_the_example_is_what_the_command_prints(tmp_path):
    assert printed(tmp_path) == preformatted(PAGE, "example")


def test_what_the_page_reads_from_the_example_stands_there():
    lines = block(PAGE, "example").splitlines()
    rows = [re.match(r"(\w+), (\w+), (\d) .*? \.(\d\d) \[", line) for line in lines]
    accuracy = {match.groups()[:3]: int(match[4]) for match in rows if match}
    assert len(accuracy) == 8
    seen, unseen = ([value for cell, value in accuracy.items() if cell[0] == word] for word in ("observe", "finish"))
    assert min(seen) > max(unseen)
    shown = " ".join(" ".join(lines).split())
    assert "on_parse_error: finish → observe .35 [" in shown
    assert "extract: true → false: -.08 with on_parse_error=finish, +.02 with on_parse_error=observe" in shown
    assert re.search(r"extract: true → false -\.03 \[\S+ \S+ \S+ undecided -887 ", shown)
    assert "Use react_extract(extract=false, on_parse_error=observe, parse_retries=2)" in shown


def test_the_factors_on_the_page_can_be_typed():
    """Where a whole command is given the loop takes them too."""
    written = [shlex.split(span) for span in re.findall(r"`([^`\n]*--vary [^`\n]+)`", text())]
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
    lines = [line.strip().strip("|").split("|") for line in text().splitlines() if line.startswith("  |")]
    numbers = [int(cell) for cell in lines[0][1:]]
    assert numbers == sorted(GENERATORS)
    for k, whole, four, more in zip(numbers, *(line[1:] for line in lines[2:]), strict=True):
        assert int(whole) == 2**k
        sizes = [2 ** (k - len(words.split())) for words in GENERATORS[k]]
        found = {size: choose_cells([2] * k, size).resolution for size in sizes}
        assert [size for size, resolution in found.items() if resolution == 4] == [int(n) for n in re.findall(r"\d+", four)]
        assert [size for size, resolution in found.items() if resolution != 4] == [int(n) for n in re.findall(r"\d+", more)]
    assert len(choose_cells([3, 3, 3, 3], 64).cells) == 63


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        write_output(PAGE, "example", printed(Path(made_in)))
