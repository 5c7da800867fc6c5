"""`whichloop report --card`: each value of a card is what the run, the requests and the check say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whichloop.checks.program import FAULTS
from whichloop.experiments.card.card import IN_TEXT, NATIVELY, NOT_SHOWN, wire_uses
from whichloop.experiments.compare.results import results
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Message, Request, Role, ToolSpec
from whichloop.runs.manifest import read_manifest, write_manifest

AGENTS = Path(__file__).parents[1] / "programs" / "light_agents.py"
TINY = ("-q", "--tasks", "3", "--profile", "clean", "--profile", "flaky-tools")


def test_the_values_are_those_of_the_run_and_the_check(whichloop, compared_once):
    run = results(compared_once("--loop", "finish(parse_retries=1)", "--loop", "bare", *TINY))
    card = whichloop("report", "--card", "--arm", "finish(parse_retries=1)", "--json").json
    assert card["measured_with"]["digest"] != run.digest  # of its own trials alone
    arms = [arm.to_json() for arm in run.comparison.arms if arm.info.loop == "finish"]
    assert [figures["accuracy"] for figures in card["figures"]] == [arm["accuracy"] for arm in arms]
    assert [figures["recovery"] for figures in card["figures"]] == [arm["recovery"] for arm in arms]
    assert card["agent"]["options"]["parse_retries"]["value"] == 1
    assert card["agent"]["code"] == run.manifest.arms[0].code
    assert card["limits"]["tool_steps"] == run.manifest.suite.max_tool_steps
    some = ("cut_json", "never_finishes")
    checked = whichloop("check", "program", "finish(parse_retries=1)", "--json", "--fault", some[0], "--fault", some[1]).json
    assert [one for one in card["faults"] if one["name"] in some] == checked["findings"]
    assert card["undisturbed_requests"] == checked["requests"]
    (wire,) = card["wire"]
    assert (wire["role"], wire["tools"], wire["requests"]) == ("decide", NATIVELY, checked["requests"])
    refused = whichloop("report", "--card")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a card is of one loop: --arm finish(parse_retries=1) or bare" in refused.err


def test_the_page_has_all_and_the_terminal_what_is_lost(whichloop, compared_once, here):
    compared_once("--loop", "bare", *TINY)
    ended = whichloop("report", "--card", "--format", "md", "-o", "bare.md")
    assert (ended.out, ended.err) == ("", "wrote bare.md\n")
    page = (here / "bare.md").read_text()
    shown = whichloop("report", "--card").out
    for fault in FAULTS:
        assert page.count(f"| {fault.name.replace('_', chr(92) + '_')} |") == 1
    assert page.startswith("## Harness card: bare\n")
    for part in (IN_TEXT, "| max\\_consecutive\\_errors | 3 |", "| retention | 1.000 ", "| seed | 0 |"):
        assert part in page
        assert part not in shown
    assert "accuracy" in shown
    assert "tool_hangs" in shown


@pytest.mark.slow
@pytest.mark.thorough
def test_a_program_has_a_card_too_where_it_is_allowed(whichloop, here):
    assert whichloop("compare", "--program", f"{AGENTS}:plain_function", *TINY).code == 0
    refused = whichloop("report", "--card")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    (name,) = re.findall(r"--allow (\S+)", refused.err)
    card = whichloop("report", "--card", "--allow", name, "--json").json
    assert card["agent"]["name"].endswith("agents.py:plain_function")
    assert card["wire"][0]["tools"] == NATIVELY
    assert len(card["faults"]) == len(FAULTS)


def test_a_loop_that_has_changed_since_has_no_card(whichloop, compared_once):
    run = compared_once("--loop", "bare", *TINY)
    manifest = read_manifest(run)
    arms = tuple(arm.model_copy(update={"code": "0" * 64}) for arm in manifest.arms)
    write_manifest(run, manifest.model_copy(update={"arms": arms}))
    ended = whichloop("report", "--card")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "its code has changed since this run" in ended.err


def test_how_tools_are_shown_is_read_from_the_requests():
    tool = ToolSpec("add", "Adds.", {"type": "object"})
    natively = Request((Message("user", "Add."),), (tool,), tool_choice="required", codec=NATIVE)
    text = Request((Message("system", "You work."), Message("user", "Tools: add(a, b): Adds.\n?")), role=Role.PLAN)
    named = Request((Message("system", "You work."), Message("user", "Please add 1 and 2.")), role=Role.REFLECT)
    hidden = Request((Message("user", "What is the address?"),), role=Role.ANSWER, response_schema={"type": "object"})
    uses = wire_uses((natively, natively, text, named, hidden), {"add": "Adds."})
    assert [(use.role, use.requests, use.tools) for use in uses] == [
        ("decide", 2, NATIVELY), ("plan", 1, IN_TEXT), ("reflect", 1, NOT_SHOWN), ("answer", 1, NOT_SHOWN)
    ]  # fmt: skip
    assert [(use.tool_choice, use.response_schema, use.messages) for use in uses] == [
        ("required", False, (1, 1)), ("", False, (2, 2)), ("", False, (2, 2)), ("", True, (1, 1))
    ]  # fmt: skip
    assert uses[0].format == NATIVE.name
