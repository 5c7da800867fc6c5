"""Programs in a worker: what they do to it, and what is left of them."""

import asyncio
import sys
import time
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.processes import is_alive
from whichloop.models.fake import FakeModel
from whichloop.programs import worker
from whichloop.programs.loop import ProgramLoop
from whichloop.programs.outside import runner
from whichloop.programs.program import Program
from whichloop.programs.worker import MANY_JOBS, MAX_WORKERS, Solver, SolverFailed, WorkerGone, framework_environment
from whichloop.protocol import Act, Answer, BudgetExceeded, Query, StopReason, Tool, Toolbox, ToolCall

TOYS = Path(__file__).with_name("toy_solvers.py")

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


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def fail() -> int:
    """Fails."""
    raise ValueError("the pump is dry")


TOOLS = Toolbox((Tool.from_function(double), Tool.from_function(fail)))


def answering(*items):
    return FakeModel(*items, then=Answer("", "42"))


def run(loop, model=None, question="What is it?"):
    return asyncio.run(loop.run(Query(question), TOOLS, model or answering()))


# --- what a program does ---


def test_a_program_calls_tools_and_answers():
    model = answering(Act("", (ToolCall("double", {"n": 4}),)))
    outcome = run(Toy(), model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("42", StopReason.FINISHED, 2)
    assert model.requests[-1].messages[-1].content == "8"


def test_a_failing_tool_raises_its_message_in_the_program():
    model = answering(Act("", (ToolCall("fail", {}),)))
    assert run(Toy(), model).answer == "42"
    assert "ValueError: the pump is dry" in model.requests[-1].messages[-1].content


@pytest.mark.parametrize("solve", ["prints", pytest.param("floods_errors", marks=pytest.mark.slow)])
def test_what_a_program_prints_gets_between_no_lines(solve):
    assert run(Toy(solve=solve)).answer == "42"


def test_a_long_answer_arrives_whole():
    assert len(run(Toy(solve="floods_the_answer")).answer) == 3_000_000


def test_an_answer_that_is_no_json_arrives_as_text():
    assert run(Toy(solve="gives_a_set")).answer == "{1}"


@pytest.mark.parametrize(
    ("solve", "said"),
    [
        ("raises", "LookupError: where is it\\? at tests/programs/toy_solvers.py:\\d+"),
        pytest.param("exits", "SystemExit: 3 at tests/programs/toy_solvers.py:\\d+", marks=pytest.mark.slow),
        ("raises_the_unsayable", "Unsayable: its text cannot be made: ValueError at tests/programs/toy_solvers.py:\\d+"),
        ("gives_odd_keys", "TypeError: its answer is not JSON: .*"),
        pytest.param("gives_itself", "ValueError: its answer is not JSON: .*", marks=pytest.mark.slow),
        ("bursts", "flood: its answer is longer than .*"),
    ],
)
def test_what_leaves_a_program_is_named(solve, said):
    with pytest.raises(SolverFailed, match=f"^{said}$"):
        run(Toy(solve=solve))


def test_what_a_program_has_started_ends_with_its_process():
    child = run(Toy(solve="leaves_a_child")).answer
    for _ in range(100):
        if not is_alive(child) or Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


def test_a_function_in_a_file_imports_what_lies_beside_the_file(tmp_path):
    (tmp_path / "runner.py").write_text("ANSWER = 'mine'\n")  # no file of ours hides it
    (tmp_path / "agent.py").write_text("from runner import ANSWER\n\n\ndef solve(question, tools):\n    return ANSWER\n")
    assert run(Program(f"{tmp_path / 'agent.py'}:solve")).answer == "mine"


def test_a_program_that_answers_at_its_limit_is_forced():
    outcome = run(Toy(solve="answers_at_the_limit"))
    assert (outcome.answer, outcome.stop) == ("the best so far", StopReason.FORCED)


def test_a_program_that_knows_no_limit_is_stopped_one_request_after_it():
    model = FakeModel(then=Act("", (ToolCall("double", {"n": 1}),)))
    outcome = run(Toy(max_steps=3), model)
    assert (outcome.stop, outcome.answer, len(model.requests)) == (StopReason.MAX_STEPS, None, 3)


@pytest.mark.parametrize(("solve", "answer"), [("plain", "What is it? 2 v1 none scripted"), ("short", "double fail")])
def test_a_plain_function_gets_what_its_parameters_name(solve, answer):
    assert run(Toy(solve=solve)).answer == answer


def test_a_used_up_budget_leaves_the_run_whatever_the_program_makes_of_it():
    with pytest.raises(BudgetExceeded):
        run(Toy(), FakeModel(BudgetExceeded("no more"), then=Answer("", "42")))


# --- what becomes of the process ---


def test_a_process_that_dies_is_told_with_its_last_words():
    with pytest.raises(WorkerGone, match=r"ended: out of luck$"):
        run(Toy(solve="dies"))


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (Toy(python="/no/such/python"), "/no/such/python: No such file or directory"),
        (Toy(solve="no_such_function"), "has no function 'no_such_function'"),
    ],
)
def test_a_program_that_does_not_start_says_why(loop, said):
    with pytest.raises(WorkerGone, match=said):
        run(loop)


def test_a_killed_worker_is_replaced(tmp_path):
    async def twice():
        loop, query = Toy(solve="dies_once"), Query(f"Remember {tmp_path / 'marker'}")
        with pytest.raises(WorkerGone):
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


@pytest.mark.parametrize("solve", ["hangs_in_the_model", pytest.param("hangs", marks=pytest.mark.slow)])
def test_a_cancelled_run_ends_and_its_worker_goes_on(solve):
    async def cancelled():
        asked = asyncio.Event()

        async def never(request):
            asked.set()
            await asyncio.Event().wait()

        model = FakeModel(then=never)
        running = asyncio.create_task(Toy(solve=solve).run(Query("?"), TOOLS, model))
        if solve == "hangs":
            await asyncio.sleep(0.5)
        else:
            await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return (await Toy(solve="own_pid").run(Query("?"), TOOLS, answering())).answer

    assert not is_alive(asyncio.run(cancelled()))


@pytest.mark.parametrize("solve", ["blocks", pytest.param("blocks_on_a_thread", marks=pytest.mark.slow)])
def test_a_program_that_blocks_for_ever_loses_its_process_and_later_trials_get_another(solve, monkeypatch):
    monkeypatch.setattr(worker, "GRACE_S", 0.1)

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


def test_a_trial_that_is_over_takes_its_requests_with_it():
    async def left_over():
        cancelled = asyncio.Event()
        asked = asyncio.Event()

        async def never(request):
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        running = asyncio.create_task(Toy(solve="hangs_in_the_model").run(Query("?"), TOOLS, FakeModel(then=never)))
        await asked.wait()
        running.cancel()
        await asyncio.wait({running})
        await asyncio.wait_for(cancelled.wait(), 10)

    asyncio.run(left_over())


def test_a_worker_gets_no_keys_and_no_path_of_ours(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/here")
    assert not {"SOME_API_KEY", "HF_TOKEN", "PYTHONPATH"} & framework_environment().keys()


def test_the_packages_that_it_tells_are_those_that_are_installed(tmp_path, monkeypatch):
    """As `importlib.metadata` reads them, which parses all of each package's description."""
    described = "Metadata-Version: 2.1\r\nname: First\r\nNAME: second\r\nVersion:  1.0+a\r\n\r\nVersion: 9\r\nName: none\r\n"
    for folder, file, text in (
        ("first-1.0.dist-info", "METADATA", described),
        ("old.egg-info", "PKG-INFO", "Name: old\nVersion: 0.1\n"),
        ("empty-1.dist-info", "METADATA", ""),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(text, newline="")
    monkeypatch.syspath_prepend(tmp_path)
    found = runner.packages()
    assert found == {each["Name"]: each["Version"] for item in distributions() if (each := item.metadata) and each["Name"]}
    assert (found["First"], found["old"]) == ("1.0+a", "0.1")
