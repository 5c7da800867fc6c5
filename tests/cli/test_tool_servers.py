"""`--tools mcp:…` through the command line: a comparison, what its manifest holds, and when it goes on."""

import json
import shlex
import sys
from pathlib import Path

import pytest

SHOP = Path(__file__).parents[1] / "datasets" / "mcp_shop.py"
QUESTIONS = """question,answer,plan
"What does a lamp cost, in euros?",39.9,price(item='lamp')
"What does a chair cost, in euros?",120,price(item='chair')
"""
QUIET = ("-q", "--json")


@pytest.fixture
def server(here):
    (here / "questions.csv").write_text(QUESTIONS)
    return f"mcp:{shlex.join([sys.executable, str(SHOP), 'drifts', str(here)])}"


def suite(server):
    return ("--suite", "csv", "--data", "questions.csv", "--tools", server)


@pytest.mark.thorough
def test_a_comparison_asks_the_server_and_goes_on_only_with_what_it_asked(whichloop, here, server):
    made = whichloop("compare", *suite(server), "--loop", "bare", "--loop", "finish", "--profile", "clean", *QUIET).json
    assert [arm["accuracy"]["value"] for arm in made["arms"]] == [1.0, 1.0]
    [file] = here.glob("runs/*/manifest.json")
    manifest = json.loads(file.read_text())
    entry = manifest["suite"]["tool_server"]
    assert (entry["name"], entry["version"], len(entry["tools"])) == ("shop", "2", 64)
    assert "code" not in manifest["suite"]

    run = str(file.parent)
    refused = whichloop("resume", run)
    assert refused.code == 2
    assert f"--allow {shlex.quote(server)}" in refused.err
    assert whichloop("resume", run, "--allow", server).code == 0
    (here / "changed").touch()
    refused = whichloop("resume", run, "--allow", server, "--repeats", "2")
    assert refused.code == 2
    assert "the list of tools of the server shop" in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.thorough
def test_the_same_digest_at_any_concurrency_and_in_workers(whichloop, server):
    flags = ("compare", *suite(server), "--loop", "bare", "--profile", "flaky-mcp", "--repeats", "4", *QUIET)
    ways = (("-s", "concurrency=1"), ("-s", "concurrency=4", "--workers", "2"))  # each worker has several trials at once
    digests = {whichloop(*flags, *more).json["digest"] for more in ways}
    assert len(digests) == 1


def test_plans_are_checked_against_the_server(whichloop, here, server):
    assert "2 of 2" in whichloop("check", "plans", "questions.csv", "--tools", server, "--run-tools").out
    (here / "questions.csv").write_text(QUESTIONS.replace("price(item='lamp')", "price(itm='lamp')"))
    found = whichloop("check", "plans", "questions.csv", "--tools", server)
    assert found.code == 1
    assert "price" in found.out


def test_a_server_that_dies_is_told_and_no_loop_is_scored_for_it(whichloop, server):
    dying = server.replace(" drifts ", " ends ")
    checked = whichloop("check", "plans", "questions.csv", "--tools", dying, "--run-tools").out
    told = "call 'call1': McpServerGone: its server has ended: the shop is closed"
    assert f"questions.csv, line 3: task 'questions-0002', {told}" in checked
    made = whichloop("compare", *suite(dying), "--loop", "bare", "--profile", "clean", "-q")
    assert made.code == 4
    assert "the shop is closed" in made.err + made.out


def test_a_suite_with_tools_of_its_own_takes_no_server(whichloop, server):
    refused = whichloop("compare", "--suite", "arithmetic", "--tools", server, "--loop", "bare")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "leave --tools out" in refused.err
