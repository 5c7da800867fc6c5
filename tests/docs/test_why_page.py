"""docs/why.md: its table has every cause."""

from __future__ import annotations

import re
from typing import get_args

from tests.docs.pages import DOCS
from whichloop.metrics.trajectory.causes import MEANINGS, Cause


def test_every_cause_has_its_row():
    table = (DOCS / "why.md").read_text("utf-8").partition("| cause | what it means |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == list(MEANINGS) == list(get_args(Cause))
