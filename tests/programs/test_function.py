"""Functions of this process as loops: vendors' clients without a socket, and the same trials as in a process."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.checks.loop.altered_loops import FEW, findings
from tests.programs import agents
from tests.programs.bench import answering, run, seen
from whichloop import compare, tunnel
from whichloop.api.objects import loop_name
from whichloop.models.fake import FakeModel
from whichloop.programs.function import FunctionLoop
from whichloop.programs.program import Program
from whichloop.programs.worker import SolverFailed
from whichloop.protocol import Act, BudgetExceeded, ContextOverflow, ForeignLoop, ProviderError, StopReason, ToolCall
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

AGENTS = Path(agents.__file__)
MESSAGES: Any = [{"role": "user", "content": "?"}]


@pytest.mark.parametrize("agent", [agents.in_the_event_loop, agents.on_a_thread])
def test_an_agent_calls_tools_answers_and_keeps_to_limits(agent):
    model = answering(Act("", (ToolCall("double", {"n": 4}),)), Act("", (ToolCall("fail", {}),)))
    outcome = run(agent, model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("42", StopReason.FINISHED, 3)
    assert seen(model.requests[-1]) == ["8", "Error: ValueError: the pump is dry"]
    model = FakeModel(then=Act("", (ToolCall("double", {"n": 1}),)))
    assert (run(agent.with_step_limit(2), model).stop, len(model.requests)) == (StopReason.MAX_STEPS, 3)
    with pytest.raises(BudgetExceeded):
        run(agent, FakeModel(BudgetExceeded("no more")))


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (ProviderError("busy", "rate_limit", status=429), openai.RateLimitError),
        (ProviderError("broken", "server", status=500), openai.InternalServerError),
        (ProviderError("gone", "connection"), openai.APIConnectionError),
        (ContextOverflow("too long"), openai.BadRequestError),
    ],
)
def test_a_failure_reaches_the_client_as_it_would_over_the_wire(failure, raised):
    def solve(question, tools):
        tunnel.OpenAI(max_retries=0).chat.completions.create(model="any", messages=MESSAGES)

    async def solve_async(question, tools):
        await tunnel.AsyncOpenAI(max_retries=0).chat.completions.create(model="any", messages=MESSAGES)

    for solver in (solve, solve_async):
        assert run(tunnel.loop(solver), FakeModel(failure)).details["error"].startswith(raised.__name__)


def test_anthropics_clients_reach_the_same_model():
    anthropic = pytest.importorskip("anthropic")
    asked = {"model": "any", "max_tokens": 9, "messages": MESSAGES}

    async def solve(question, tools, *, url):
        client = tunnel.AsyncAnthropic(base_url=url)
        counted = await client.messages.count_tokens(model="any", messages=MESSAGES)
        async with client.messages.stream(**asked) as stream:
            return [counted.input_tokens, *[piece async for piece in stream.text_stream]]

    def solve_blocking(question, tools):
        with pytest.raises(anthropic.OverloadedError):
            tunnel.Anthropic(max_retries=0).messages.create(**asked)
        return tunnel.Anthropic(max_retries=0).messages.create(**asked).content[0].text

    assert run(tunnel.loop(solve)).answer == [5, "42"]
    assert run(tunnel.loop(solve_blocking), answering(ProviderError("busy", "overloaded"))).answer == "42"


def test_google_s_client_reaches_the_same_model():
    genai = pytest.importorskip("google.genai")
    asked = {"model": "any", "contents": "?"}

    async def solve(question, tools):
        return [chunk.text async for chunk in await tunnel.Gemini().aio.models.generate_content_stream(**asked)]

    def solve_blocking(question, tools):
        client = tunnel.Gemini(http_options={"timeout": 5_000})
        with pytest.raises(genai.errors.ServerError, match="UNAVAILABLE"):
            client.models.generate_content(**asked)
        return client.models.generate_content(**asked).text

    assert run(tunnel.loop(solve)).answer == ["42"]
    assert run(tunnel.loop(solve_blocking), answering(ProviderError("busy", "overloaded"))).answer == "42"


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_transport_is_for_any_client_of_its_library(library):
    http = pytest.importorskip(library)
    body = {"model": "any", "messages": MESSAGES}

    async def solve(question, tools, *, base_url):
        async with http.AsyncClient(transport=tunnel.transport(library)) as client:
            missing = await client.get(f"{base_url}/nothing")
            garbage = await client.post(f"{base_url}/chat/completions", content=b"{")
            answer = await client.post(f"{base_url}/chat/completions", json=body)
        return [missing.status_code, garbage.status_code, answer.json()["choices"][0]["message"]["content"]]

    def solve_blocking(question, tools, *, base_url):
        with http.Client(transport=tunnel.transport(library)) as client:
            return client.post(f"{base_url}/chat/completions", json=body).json()["choices"][0]["message"]["content"]

    assert run(tunnel.loop(solve)).answer == [404, 400, "42"]
    assert run(tunnel.loop(solve_blocking)).answer == "42"


def test_what_a_function_asks_for_by_name_is_what_it_gets_and_its_tools_are_typed_functions():
    def solve(question, tools, api_key, max_steps, http_client, other=7):
        return [question, len(tools), api_key, max_steps, type(http_client) is httpx.Client, other]

    async def solve_async(question, tools):
        return [await tools["double"](4), [function.__name__ for function in tools]]

    assert run(tunnel.loop(solve)).answer == ["What is it?", 2, "none", 10, True, 7]
    assert run(tunnel.loop(solve_async)).answer == ["8", ["double", "fail"]]
    for value in ("text", None, {"n": [1, 2]}, 3.5):
        assert run(tunnel.loop(lambda question, tools, value=value: value)).answer == value


def test_a_blocking_call_in_a_coroutine_is_refused_instead_of_waiting_for_ever():
    async def solve(question, tools):
        tunnel.OpenAI(max_retries=0).chat.completions.create(model="any", messages=MESSAGES)

    with pytest.raises(SolverFailed, match=r"Connection error|would wait for itself"):
        run(tunnel.loop(solve))
    with pytest.raises(RuntimeError, match="no trial is under way"):
        tunnel.OpenAI()


def test_it_is_a_foreign_loop_that_its_name_finds_again():
    assert isinstance(agents.in_the_event_loop, ForeignLoop)
    assert agents.in_the_event_loop() is agents.in_the_event_loop
    sys.modules.setdefault("agents_of_mine", agents)
    loop = make_loop(parse_spec("agents_of_mine:on_a_thread"), 4)
    assert loop == FunctionLoop(agents.on_a_thread.function, max_steps=5)
    assert AGENTS in loop.sources
    assert loop_name(tunnel.loop(lambda question, tools: "42")).startswith("whichloop.session:")
    assert loop_name(agents.on_a_thread) == f"{agents.__name__}:on_a_thread"
    program = Program("python my_agent.py", keys=("A",))
    assert loop_name(program) == 'program(command="python my_agent.py", keys=["A"])'
    assert make_loop(parse_spec(loop_name(program))) == program


@pytest.mark.slow
def test_every_law_of_loops_holds():
    assert [finding for finding in findings(agents.in_the_event_loop, draws=FEW) if finding.status == "failed"] == []


@pytest.mark.thorough
@pytest.mark.parametrize("profile", ["flaky-tools", pytest.param("provider-trouble", marks=pytest.mark.slow)])
def test_here_and_in_a_process_trials_are_the_same_at_any_concurrency(tmp_path, monkeypatch, profile):
    """The law of the seam: model, tools and faults do not depend on where a program runs, nor on how many run beside it."""
    monkeypatch.chdir(tmp_path)
    light = AGENTS.with_name("light_agents.py")
    loops: list[Any] = [agents.in_the_event_loop, agents.on_a_thread, f'program(command="{light}:plain_function")']
    tasks, concurrencies = 3, [1, 6]
    if profile == "flaky-tools":  # a process per trial
        loops.append(f'program(command="python {light}")')
        tasks, concurrencies = 1, [4]
    digests = []
    for concurrency in concurrencies:
        found = compare(loops, f"arithmetic(size={tasks})", [profile], concurrency=concurrency, mlflow=False, progress=False)
        by_task: dict[str, set[str]] = {}
        for record in found.results.records:
            assert record.status == "scored", record.reason
            by_task.setdefault(record.task, set()).add(json.dumps([record.trace_digest, record.stop, record.answer]))
        assert [kinds for kinds in by_task.values() if len(kinds) > 1] == []
        digests.append(by_task)
    assert digests[0] == digests[-1]
