"""Every sample of the docs runs, and prints what its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.samples import ROOT, is_run, is_shown, printed_by, samples

EACH_ALONE = True
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if any(map(is_run, samples(path.read_text("utf-8"))))]


def in_shell(page: Path) -> bool:
    return any(sample.language == "sh" for sample in samples(page.read_text("utf-8")))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page", [pytest.param(each, marks=[pytest.mark.thorough] * in_shell(each), id=each.name) for each in PAGES]
)
def test_the_samples_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for sample, printed in printed_by(page.read_text("utf-8"), tmp_path):
        if sample.expected:
            assert is_shown(sample.expected[3], printed), f"{page.name}: {sample.text}\nprints\n{printed}"


def test_more_lines_stand_for_any() -> None:
    assert is_shown("a\n…\nd\n", "a\nb\nc\nd\n")
    assert is_shown("a\n…\n", "a\n")
    assert not is_shown("a\n…\n", "b\na\n")
    assert not is_shown("a\n", "a\nb\n")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_code_that_is_not_run_compiles(page: Path) -> None:
    for sample in samples(page.read_text("utf-8")):
        if sample.language == "py" or (sample.language == "python" and sample.file):
            compile(sample.text, page.name, "exec")
