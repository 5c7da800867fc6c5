"""Programs of benchmarks/ that other tests do not run: blocks of pages, planted faults, what tests cost."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pages import block, write_block
from benchmarks.planted_faults import PlantedFault, planted_faults
from benchmarks.slow_tests import COSTLY, ROOT, is_there

# --- blocks of pages ---

BLOCKS = st.sampled_from(["speed", "faults, at once", "a.b", "grid of one arm"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40).filter(
    lambda text: "<!--" not in text and text == text.strip("\n")
)


@given(BLOCKS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_what_is_written_is_read_and_nothing_else_moves(tmp_path_factory, name, before, old, new, after) -> None:
    page: Path = tmp_path_factory.getbasetemp() / "page.md"
    page.write_text(f"{before}\n<!-- {name}: how -->\n{old}\n<!-- /{name} -->\n{after}", encoding="utf-8", newline="")
    for _ in range(2):
        write_block(page, name, new)
        assert block(page, name) == f"\n{new}\n\n"
        assert page.read_bytes().decode() == f"{before}\n<!-- {name}: how -->\n\n{new}\n\n<!-- /{name} -->\n{after}"


# --- planted faults ---

FAULTS = planted_faults()


def test_there_are_enough_planted_faults_on_each_floor_and_no_two_are_the_same() -> None:
    floors = Counter(fault.file.partition("/")[0] for fault in FAULTS)
    assert len(set(FAULTS)) == len(FAULTS) >= 60
    assert floors.keys() == {"protocol", "loops", "models", "metrics", "runs"}
    assert min(floors.values()) >= 3


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_changes_one_line_that_is_there(fault: PlantedFault) -> None:
    assert fault.planted().count(fault.becomes) >= 1
    assert fault.becomes != fault.line
    assert (ROOT / fault.tests).is_file()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_fault_is_noticed() -> None:
    ended = subprocess.run([sys.executable, "benchmarks/planted_faults.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


# --- what tests cost: `make fast` leaves out those that cost much ---

NAMES = COSTLY.read_text(encoding="utf-8").splitlines()


def test_the_list_is_as_it_is_written_nearly_all_of_it_is_there_and_it_marks_tests(request: pytest.FixtureRequest) -> None:
    """A test that got another name since is run by `make fast` until the list is written anew, which does no harm for a few."""
    assert sorted(set(NAMES)) == NAMES
    there = [name for name in NAMES if is_there(name)]
    assert len(there) >= 0.9 * len(NAMES) > 0, "renew it: python benchmarks/slow_tests.py --forks auto --write"
    items = request.session.items
    marked = {item.nodeid.partition("[")[0] for item in items if "thorough" in item.keywords}
    assert {item.nodeid.partition("[")[0] for item in items} & set(NAMES) <= marked
