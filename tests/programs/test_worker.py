"""Programs in a worker: what they do to it, and what is left of them."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import is_alive
from tests.programs.bench import TOOLS, answering, run, seen
from whichloop.models.fake import FakeModel
from whichloop.programs.loop import ProgramLoop
from whichloop.programs.program import Program
from whichloop.programs.worker import MANY_JOBS, MAX_WORKERS, Solver, SolverFailed, framework_environment
from whichloop.protocol import Act, Query, StopReason, ToolCall

TOYS = Path(__file__).with_name("toy_solvers.py")
AT = "at tests/programs/toy_solvers.py:\\d+"

pytestmark = pytest.mark.thorough  # each starts a process


@dataclass(frozen=True, slots=True)
class Toy(ProgramLoop):
    solve: str = "while_loop"
    python: str = sys.executable

    @property
    def name(self):
        return "toy"

    def solver(self):
        return Solver(self.python, f"{TOYS}:{self.solve}")


def test_a_program_calls_tools_and_answers():
    model = answering(Act("", (ToolCall("double", {"n": 4}),)), Act("", (ToolCall("fail", {}),)))
    outcome = run(Toy(), model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("42", StopReason.FINISHED, 3)
    assert seen(model.requests[-1]) == ["8", "Error: ValueError: the pump is dry"]


@pytest.mark.parametrize(("solve", "question", "answer"), [("prints", "?", "42"), ("gives", "long", "x" * 3_000_000)])
def test_what_is_odd_is_still_an_answer(solve, question, answer):
    assert run(Toy(solve=solve), question=question).answer == answer


@pytest.mark.parametrize(
    ("solve", "question", "said"),
    [
        ("raises", "raise", f"LookupError: where is it\\? {AT}"),
        ("raises", "exit", f"SystemExit: 3 {AT}"),
        ("gives", "keys", "TypeError: its answer is not JSON: .*"),
        ("gives", "flood", "flood: its answer is longer than .*"),
    ],
)
def test_what_leaves_a_program_is_named(solve, question, said):
    with pytest.raises(SolverFailed, match=f"^{said}$"):
        run(Toy(solve=solve), question=question)


def test_a_function_in_a_file_imports_what_lies_beside_the_file(tmp_path):
    (tmp_path / "runner.py").write_text("ANSWER = 'mine'\n")  # no file of ours hides it
    (tmp_path / "agent.py").write_text("from runner import ANSWER\n\n\ndef solve(question, tools):\n    return ANSWER\n")
    assert run(Program(f"{tmp_path / 'agent.py'}:solve")).answer == "mine"


def test_a_program_is_stopped_one_request_after_its_limit_unless_it_answers_there():
    model = FakeModel(then=Act("", (ToolCall("double", {"n": 1}),)))
    outcome = run(Toy(max_steps=3), model)
    assert (outcome.stop, outcome.answer, len(model.requests)) == (StopReason.MAX_STEPS, None, 3)
    outcome = run(Toy(solve="answers_at_the_limit"))
    assert (outcome.answer, outcome.stop) == ("the best so far", StopReason.FORCED)


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (Toy(solve="dies"), "the process of the solver ended: out of luck$"),
        (Toy(python="/no/such/python"), "^/no/such/python: No such file or directory"),
        (Toy(python="/bin/true"), "^it did not start"),
    ],
)
def test_a_process_that_does_not_start_or_dies_says_why(loop, said):
    with pytest.raises(SolverFailed, match=said):
        run(loop)


def test_a_killed_worker_is_replaced(tmp_path):
    async def twice():
        loop, query = Toy(solve="dies"), Query(f"Remember {tmp_path / 'marker'}")
        with pytest.raises(SolverFailed):
            await loop.run(query, TOOLS, answering())
        return (await loop.run(query, TOOLS, answering())).answer

    assert not is_alive(asyncio.run(twice()))


def test_trials_share_few_processes_which_end_with_the_event_loop():
    async def many():
        loop = Toy(solve="own_pid")
        ended = await asyncio.gather(*(loop.run(Query("?"), TOOLS, answering()) for _ in range(10 * MANY_JOBS)))
        return {outcome.answer for outcome in ended}

    pids = asyncio.run(many())
    assert 1 <= len(pids) <= MAX_WORKERS
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize("solve", ["blocks", "blocks_on_a_thread"])
def test_a_program_that_blocks_for_ever_loses_its_process_and_later_trials_get_another(solve):
    async def blocked():
        loop = Toy(solve=solve)
        first = (await loop.run(Query("?"), TOOLS, answering())).answer
        running = asyncio.create_task(loop.run(Query("block"), TOOLS, answering()))
        await asyncio.sleep(0.3)
        running.cancel()
        await asyncio.wait({running})
        while is_alive(first):
            await asyncio.sleep(0.05)
        return first, (await loop.run(Query("?"), TOOLS, answering())).answer

    first, second = asyncio.run(blocked())
    assert first != second


def test_a_worker_gets_no_keys_and_no_path_of_ours(monkeypatch):
    for name, value in {"SOME_API_KEY": "sk-secret", "HF_TOKEN": "secret", "PYTHONPATH": "/here"}.items():
        monkeypatch.setenv(name, value)
    assert not {"SOME_API_KEY", "HF_TOKEN", "PYTHONPATH"} & framework_environment().keys()
