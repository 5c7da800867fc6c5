"""A page is left as it is only if it is the one that was made from the same files by the same code, for the same user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from whichloop.reports import known_pages
from whichloop.reports.known_pages import is_known, remember, source_of

PAGE = "<p>a page</p>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory with a page that is known."""
    monkeypatch.setenv("WHICHLOOP_HOME", str(tmp_path / "home"))
    made = tmp_path / "run"
    (made / "validity").mkdir(parents=True)
    for name in ("manifest.json", "trials.jsonl", "traces.zst", "validity/validity.json"):
        (made / name).write_text(name)
    remember(source_of(made), PAGE)
    (made / "report.html").write_text(PAGE)
    return made


def stays_known(folder: Path) -> bool:
    return is_known(source_of(folder), folder)


def test_a_page_that_was_made_from_the_same_is_known(folder):
    assert stays_known(folder)
    assert stays_known(folder.rename(folder.parent / "elsewhere").rename(folder))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a record more": lambda folder: (folder / "trials.jsonl").write_text("trials.jsonl more"),
    "another manifest": lambda folder: (folder / "manifest.json").write_text("manifest.JSON"),
    "another validation": lambda folder: (folder / "validity" / "validity.json").write_text("other"),
    "a file more": lambda folder: (folder / "other").write_text(""),
    "a file less": lambda folder: (folder / "traces.zst").unlink(),
    "files change names": lambda folder: (folder / "trials.jsonl").rename(folder / "trials.index"),
    "another page": lambda folder: (folder / "report.html").write_text("<script>alert(1)</script>"),
    "no page": lambda folder: (folder / "report.html").unlink(),
    "a folder for a page": lambda folder: (folder / "report.html").rename(folder / "page").parent.joinpath("report.html").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_page_is_not_known_after_any_change(folder, change):
    CHANGES[change](folder)
    assert not stays_known(folder)


def test_a_run_of_another_name_has_another_page(folder):
    assert not stays_known(folder.rename(folder.parent / "other"))


def test_another_code_makes_another_page(folder, monkeypatch, tmp_path):
    package = tmp_path / "package"
    (package / "html").mkdir(parents=True)
    (package / "html" / "page.css").write_text("p {}")
    monkeypatch.setattr(known_pages, "PACKAGE", package)
    assert not stays_known(folder)
    remember(source_of(folder), PAGE)
    assert stays_known(folder)
    (package / "__pycache__").mkdir()
    assert stays_known(folder)
    os.utime(package / "html" / "page.css", (1, 1))
    assert stays_known(folder)  # by what this process has imported
    known_pages._code.cache_clear()  # as in another process
    assert not stays_known(folder)


def test_another_user_knows_nothing_of_it(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("WHICHLOOP_HOME", str(tmp_path / "other home"))
    assert not stays_known(folder)


def test_where_the_users_folder_cannot_be_written_nothing_is_known(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHICHLOOP_HOME", str(tmp_path / "file"))
    remember(source_of(folder), PAGE)
    assert not stays_known(folder)


def test_the_oldest_are_forgotten(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(known_pages, "MAX_KNOWN", 3)
    monkeypatch.setattr(known_pages, "KEPT", 2)
    for entry in (tmp_path / "home" / "pages").iterdir():
        os.utime(entry, (0, 0))
    sources = ("first", "second", "third", "fourth", "fifth")
    for number, source in enumerate(sources):
        remember(source, PAGE)
        os.utime(tmp_path / "home" / "pages" / source, (number, number))
    assert [is_known(source, folder) for source in sources] == [False, False, False, True, True]
