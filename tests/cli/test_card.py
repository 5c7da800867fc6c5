"""`whichloop card`: each value of a card is what the run, the requests and the check say."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.checks.program import FAULTS
from whichloop.experiments.card.card import IN_TEXT, NATIVELY, NOT_SHOWN, wire_uses
from whichloop.experiments.compare.results import results
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Message, Request, Role, ToolSpec

AGENTS = Path(__file__).parents[1] / "programs" / "light_agents.py"
TINY = ("-q", "--tasks", "3", "--profile", "clean", "--profile", "flaky-tools")


def test_the_values_are_those_of_the_run_and_the_check(whichloop, here):
    card = whichloop("card", "finish(parse_retries=1)", *TINY, "--json").json
    run = results(Path(card["measured_with"]["run"]))
    assert card["measured_with"]["digest"] == run.digest
    assert [figures["accuracy"] for figures in card["figures"]] == [arm.to_json()["accuracy"] for arm in run.comparison.arms]
    assert [figures["recovery"] for figures in card["figures"]] == [arm.to_json()["recovery"] for arm in run.comparison.arms]
    assert card["agent"]["options"]["parse_retries"]["value"] == 1
    assert card["agent"]["code"] == run.manifest.arms[0].code
    assert card["limits"]["tool_steps"] == run.manifest.suite.max_tool_steps
    some = ("cut_json", "never_finishes")
    checked = whichloop("check", "program", "finish(parse_retries=1)", "--json", "--fault", some[0], "--fault", some[1]).json
    assert [one for one in card["faults"] if one["fault"] in some] == checked["faults"]
    assert card["undisturbed_requests"] == checked["requests"]
    (wire,) = card["wire"]
    assert (wire["role"], wire["tools"], wire["requests"]) == ("decide", NATIVELY, checked["requests"])


def test_the_page_has_all_and_the_terminal_what_is_lost(whichloop, here):
    ended = whichloop("card", "bare", *TINY, "--out", "bare.md")
    assert ended.err.endswith("wrote bare.md\n")
    page = (here / "bare.md").read_text()
    for fault in FAULTS:
        assert page.count(f"| {fault.name.replace('_', chr(92) + '_')} |") == 1
    assert page.startswith("## Harness card: bare\n")
    for part in (IN_TEXT, "| max\\_consecutive\\_errors | 3 |", "| retention | 1.000 ", "| seed | 0 |"):
        assert part in page
        assert part not in ended.out
    assert "accuracy" in ended.out
    assert "tool_hangs" in ended.out


@pytest.mark.slow
@pytest.mark.thorough
def test_a_program_has_a_card_too(whichloop, here):
    card = whichloop("card", f"{AGENTS}:plain_function", *TINY, "--json").json
    assert card["agent"]["name"].endswith("agents.py:plain_function")
    assert card["wire"][0]["tools"] == NATIVELY
    assert len(card["faults"]) == len(FAULTS)


def test_what_cannot_have_a_card_is_told_in_one_line(whichloop, here):
    for arguments, code, message in (
        (("--url", "http://127.0.0.1:1/"), 2, "error: --url: a card needs a program"),
        (("nosuch",), 2, "there is no program, framework or design 'nosuch'"),
        (("bare", "--out", "."), 2, "error: --out .: cannot be written (Is a directory); nothing was run"),
    ):
        ended = whichloop("card", *arguments)
        assert (ended.code, ended.err.count("\n")) == (code, 1)
        assert message in ended.err
    assert not (here / "runs").exists()


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
