"""The page on real models states numbers that the code has."""

from __future__ import annotations

import importlib.util
import re

import pytest

from whichloop.models.local.model import MAX_ITEMS, MAX_TEXT_CHARS
from whichloop.models.local.server import CONTEXT_TOKENS, PACKAGE, SLOTS, find_weights
from whichloop.models.real import DEFAULTS
from whichloop.runs.config import CompareConfig

from .pages import DOCS, ROOT

PAGE = " ".join((DOCS / "real-models.md").read_text(encoding="utf-8").split())
WORDS = {2: "two", 6: "six"}
SIZE = re.compile(r"\b(\d+) MB\b")


@pytest.mark.parametrize(
    "stated",
    [
        f"texts of {MAX_TEXT_CHARS} characters and lists of {WORDS[MAX_ITEMS]} items at most",
        f"{WORDS[SLOTS].capitalize()} trials run at once unless `concurrency` says otherwise",
        f"a context of {CONTEXT_TOKENS:,} tokens, or of `provider.context_tokens`",
        f"at most {DEFAULTS.attempts} times in all",
        f"An attempt may take {DEFAULTS.call_timeout_s:.0f} s (`provider.call_timeout_s`)",
        f"all attempts with their pauses {DEFAULTS.patience_s:.0f} s",
    ],
)
def test_a_number_on_the_page_is_that_of_the_code(stated):
    assert stated in PAGE


def test_as_many_trials_as_the_server_answers_run_at_once():
    assert CompareConfig(models=["local"]).in_flight == SLOTS


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the package of the weights is not installed")
def test_the_size_of_the_weights_is_that_of_the_installed_file():
    megabytes = round(find_weights("local").file.stat().st_size / 1e6)
    code = (ROOT / "src" / "whichloop" / "models" / "local" / "weights.py").read_text(encoding="utf-8")
    assert {int(size) for text in (PAGE, code) for size in SIZE.findall(text)} == {megabytes}
