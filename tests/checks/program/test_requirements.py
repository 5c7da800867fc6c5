"""What a team demands, from text to a decision, the fixture `agent_checks` in its tests, and an agent that runs as a service."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI

from tests.programs.agents import conversation
from whichloop.checks.program import check_program
from whichloop.checks.program.agent_faults import BY_NAME, EITHER, OUTCOMES, RECOVERED, FaultFinding, parse_requirements
from whichloop.programs.program import Service

WORDS = st.sampled_from([*(name for name in OUTCOMES if name != "not applicable"), "recovered"])
DEMANDS = st.dictionaries(st.sampled_from(sorted(BY_NAME)), st.lists(WORDS, min_size=1, max_size=3, unique=True))


@given(DEMANDS)
def test_text_and_mapping_say_the_same(demands):
    said = {fault: "|".join(words) for fault, words in demands.items()}
    assert parse_requirements(",".join(f"{fault}={words}" for fault, words in said.items())) == parse_requirements(said)


@given(DEMANDS, st.sampled_from(sorted(OUTCOMES)))
def test_a_demand_is_met_by_the_outcomes_that_it_names_and_by_faults_that_cannot_happen(demands, outcome):
    for one in parse_requirements({fault: "|".join(words) for fault, words in demands.items()}):
        named = {word for words in (demands[one.fault],) for word in words}
        allowed = named | (RECOVERED if "recovered" in named else set()) | {"not applicable"}
        assert one.is_met(FaultFinding(one.fault, outcome, "")) == (outcome in allowed)


def read_or_refused(text):
    """The requirements in a text, or the words that refuse it."""
    try:
        return parse_requirements(text)
    except ValueError as error:
        return str(error)


PIECES = [*BY_NAME, *OUTCOMES, "=", "=", ",", EITHER, " "]


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_any_text_is_read_as_faults_with_outcomes_or_refused_in_one_line(text):
    found = read_or_refused(text)
    if isinstance(found, str):
        assert "\n" not in found
        return
    assert {each.fault for each in found} <= BY_NAME.keys()
    assert all(each.allowed and each.allowed <= set(OUTCOMES) for each in found)
    assert parse_requirements(", ".join(f"{each.fault}={each.text}" for each in found)) == found


TEST = """
def test_agent(agent_checks):
    agent_checks({agent}, {settings})
"""


def run(pytester: pytest.Pytester, agent: str, settings: str) -> pytest.RunResult:
    pytester.makepyfile(test_mine=TEST.format(agent=agent, settings=settings))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


def test_what_is_demanded_and_there_passes_and_is_told(pytester):
    ended = run(pytester, "'finish'", "require={'unknown_tool': 'told', 'empty': 'recovered'}")
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["*agent checks*", "test_mine.py::test_agent: finish: 2 told"])


def test_what_is_demanded_and_missing_fails(pytester):
    ended = run(pytester, "'react_extract'", "require='empty=told,tool_raises=told'")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["empty: demanded told, found error (stop parse_failed)"])
    ended.stdout.no_fnmatch_line("tool_raises: demanded*")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with urllib.request.urlopen(asked["tools_url"]) as answer:
            tools = json.load(answer)

        def call(name, arguments):
            body = json.dumps(arguments).encode()
            request = urllib.request.Request(f"{asked['tools_url']}/{name}", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["data"]

        client = OpenAI(base_url=asked["base_url"], api_key=asked["api_key"])
        try:
            status, said = 200, {"answer": conversation(asked["question"], tools, client, asked["model"], call)}
        except Exception as error:
            status, said = 500, {"error": str(error)}
        self.send_response(status)
        self.end_headers()
        text = json.dumps(said).encode()
        self.wfile.write(text[:4])
        time.sleep(0.05)  # an answer may come in pieces
        self.wfile.write(text[4:])

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/solve"
    server.shutdown()
    server.server_close()


def test_a_service_is_checked_as_any_agent(address):
    names = ("unknown_tool", "empty", "server_error_always", "rate_limit")
    found = check_program(Service(address), faults=[BY_NAME[name] for name in names])
    assert {one.fault: one.outcome for one in found.findings} == dict(
        zip(names, ("told", "silent", "error", "handled"), strict=True)
    )


def test_a_service_that_is_not_there_is_told():
    with pytest.raises(OSError, match=r"nothing answers at http://127.0.0.1:9/"):
        check_program(Service("http://127.0.0.1:9/"))
