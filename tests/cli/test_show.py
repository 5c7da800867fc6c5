"""`whichloop show` of a trial whose loop altered a call: both forms say what the model wrote, what ran, and why it was lost."""

from __future__ import annotations

import re

import pytest

from whichloop.checks.loop.scaffold import new_loop

CALL = "await tools.call(move.calls[0])"
ONE_MORE = "{name: value + 1 if isinstance(value, (int, float)) else value for name, value in move.calls[0].arguments.items()}"
QUIET = ("--quiet", "--json")
ALTERED = f"await tools.call(ToolCall(move.calls[0].name, {ONE_MORE}))"


@pytest.fixture
def altered(here, whichloop, monkeypatch):
    """A run of a loop that adds one to each number which the model passes to a tool; gives the name of a lost trial."""
    made = new_loop("alters", here)
    source = made.loop.read_text()
    assert source.count(CALL) == 1
    made.loop.write_text(source.replace(CALL, ALTERED))
    monkeypatch.syspath_prepend(here)
    run = whichloop("compare", "--loop", made.target, "--suite", "arithmetic(size=2)", "--profile", "clean", *QUIET)
    assert run.code == 0, run.err
    return f"{run.json['arms'][0]['arm']}/arithmetic-0001/0"


def test_what_ran_stands_beside_its_result_and_the_cause_below(altered, whichloop):
    brief, whole = (whichloop("show", "latest", altered, *more).out for more in ((), ("-v",)))
    (cause,) = re.findall(r"^Cause +(.*)$", brief, re.MULTILINE)
    assert cause.startswith("altered call, step 1: the loop called ")
    assert f"{cause}\n" in whole
    found = re.search(r"── act\s+(\S+ \{.*\})\s+── run as\s+(\S+ \{.*\})\s+── \S+ \(success\)", whole)
    assert found is not None
    wrote, ran = found.groups()
    assert wrote != ran
    assert wrote.partition(" ")[0] == ran.partition(" ")[0]
