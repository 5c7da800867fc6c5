"""The page of results that were imported: it speaks of agents, tells how files were read, and hides what they cannot tell."""

from __future__ import annotations

import re

import pytest

from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.reports.html import report_html

HIDDEN = (
    *("fault profile", "repeats, seed", "false success", "repeated calls", "wasted steps"),
    *("finish/flaky-tools", "a reply of the model to a request that asks"),
)
"""What is said of runs of whichloop's own only."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    rows = [f"{arm},t{task},{int(task % 4 > skill)},max_steps" for skill, arm in enumerate("xyz") for task in range(8)]
    (folder / "a.csv").write_text("\n".join(["agent,task,score,stop", *rows]) + "\n")
    return report_html(results(import_files([folder / "a.csv"], ImportRequest(), folder / "run").folder))


def test_an_imported_page_says_what_files_tell_and_nothing_of_faults(page: str) -> None:
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not [text for text in HIDDEN if text in shown]
    assert '<th scope="col">agent</th><th scope="col">imported</th>' in shown
    assert "columns read by their names: arm=agent, task=task, score=score, stop=stop" in shown
    assert "12 lost trials have no trace: the steps that lost them are not known." in shown
    assert all(f"{arm}: {lost} × max_steps" in shown for arm, lost in zip("xyz", (2, 4, 6), strict=True))
    assert "too hard for all arms, or their expected answers are wrong" in shown
