"""The programs that benchmarks/run.py measures: three dependent sums by tools, over and over, so four model calls each.

cd benchmarks && python -m programs NAME TRIALS LATENCY_MS IN_FLIGHT

One line of JSON on stdout. `hand` is the plainest asyncio loop that could do the job. A design of ours comes with all that is
recorded of it; `reader` is `bare` before the model that the others have. No peer writes what ours writes: `langgraph` is
create_agent of LangChain under `abatch`, without a log, `pydantic_evals` a pydantic-ai agent with a report in memory, `inspect_ai`
the react agent with the mock model and its log. A program imports what it needs and nothing else, before it is measured.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whichloop.datasets.task import Suite

Run = Callable[[], tuple[int, int]]
"""Gives the number of right answers and of model calls."""
Prepare = Callable[[int, float, int, Path], Run]
"""Of trials, seconds of latency, trials in flight, and an empty folder."""

# --- the task ---


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: the first
        b: the second
    """
    return a * b


def numbers(i: int) -> tuple[int, int, int, int]:
    """The numbers of task i."""
    return i % 97 + 1, i % 89 + 2, i % 7 + 2, i % 83 + 3


def question(i: int) -> str:
    a, b, c, d = numbers(i)
    return f"Compute ({a} + {b}) * {c} + {d} with the tools."


def expected(i: int) -> int:
    a, b, c, d = numbers(i)
    return (a + b) * c + d


def next_call(asked: str, results: Sequence[int]) -> tuple[str, dict[str, int]] | None:
    """The scripted model: the next tool and its arguments, read off the question and the results so far; None at the end."""
    found = re.search(r"\((\d+) \+ (\d+)\) \* (\d+) \+ (\d+)", asked)
    if found is None:
        raise ValueError(f"not one of ours: {asked!r}")
    a, b, c, d = map(int, found.groups())
    if not results:
        return "add", {"a": a, "b": b}
    if len(results) == 1:
        return "multiply", {"a": results[0], "b": c}
    return ("add", {"a": results[1], "b": d}) if len(results) == 2 else None


# --- programs ---


def hand(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    tools = {"add": add, "multiply": multiply}

    def scripted(messages: list[dict[str, str]]) -> str:
        results = [int(message["content"]) for message in messages if message["role"] == "tool"]
        call = next_call(messages[0]["content"], results)
        return json.dumps({"final_answer": results[-1]} if call is None else {"tool_name": call[0], "arguments": call[1]})

    async def solve(i: int) -> tuple[int, list[dict[str, str]]]:
        messages = [{"role": "user", "content": question(i)}]
        while True:
            if latency_s:
                await asyncio.sleep(latency_s)
            reply = scripted(messages)
            messages.append({"role": "assistant", "content": reply})
            data = json.loads(reply)
            if "final_answer" in data:
                return data["final_answer"], messages
            messages.append({"role": "tool", "content": str(tools[data["tool_name"]](**data["arguments"]))})

    async def run() -> int:
        todo, right = iter(range(trials)), 0

        async def worker() -> None:
            nonlocal right
            for i in todo:
                answer, messages = await solve(i)
                right += answer == expected(i)
                log.write(json.dumps({"task": i, "answer": answer, "messages": messages}) + "\n")

        with (folder / "log").open("w") as log:
            await asyncio.gather(*(worker() for _ in range(in_flight)))
        return right

    return lambda: (asyncio.run(run()), 4 * trials)


def dspy_react(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    """Four calls that decide and one that extracts."""
    import dspy
    from dspy.lm15 import Message, Response, TextPart, Usage

    class Engine:
        """Reads the sums and the observations off the prompt."""

        def complete(self, request: Any) -> Any:
            time.sleep(latency_s)
            prompt = request.messages[-1].text
            observed = re.findall(r"\[\[ ## observation_\d+ ## \]\]\n(.*)", prompt)
            seen = [int(value) for value in observed[:3]]  # behind them: that of `finish`
            call = next_call(prompt, seen)
            if "[[ ## reasoning ## ]]" in prompt:
                fields = {"reasoning": "done", "answer": str(seen[-1])}
            else:
                tool, arguments = call or ("finish", {})
                fields = {"next_thought": "use a tool", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
            text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()) + "[[ ## completed ## ]]"
            said, usage = Message.assistant([TextPart(text)]), Usage(input_tokens=100, output_tokens=10)
            return Response(id=None, model="scripted", message=said, finish_reason="stop", usage=usage)

    def run() -> tuple[int, int]:
        dspy.configure(lm=dspy.LM("scripted/sums", engine=Engine(), cache=False, num_retries=0))
        rows = [dspy.Example(question=question(i), answer=str(expected(i))).with_inputs("question") for i in range(trials)]
        agent = dspy.ReAct("question -> answer", tools=[add, multiply], max_iters=5)
        is_right = lambda row, got: row.answer == got.answer  # noqa: E731  # as it is written in dspy's own tutorials
        found = dspy.Evaluate(devset=rows, metric=is_right, num_threads=in_flight, display_progress=False)(agent)
        return int(sum(score for *_, score in found.results)), 5 * trials

    return run


REPEATS = 4
"""Of each task, as a run has them that is to show anything: its plan is replayed once, for what the scripted model goes by."""


def load(size: int = 1000) -> Suite:
    """The task as a suite of ours; task i is the same for any size."""
    from whichloop.datasets.task import StatelessEnvironment, Suite, Task
    from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool

    def task(i: int) -> Task:
        a, b, c, d = numbers(i)
        calls = (
            PlannedCall("c1", "add", {"a": a, "b": b}, "Find the sum in brackets"),
            PlannedCall("c2", "multiply", {"a": Ref("c1"), "b": c}, "Find the product"),
            PlannedCall("c3", "add", {"a": Ref("c2"), "b": d}, "Find the total"),
        )
        return Task(f"sum-{i:06}", Query(question(i)), expected(i), "numeric", Plan(calls, Ref("c3")))

    tools = (Tool.from_function(add, blocking=False), Tool.from_function(multiply, blocking=False))
    return Suite("sums", "1", tuple(task(i) for i in range(size)), lambda task: StatelessEnvironment(tools))


def ours(loop: str, trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    """With everything recorded: schedule, metering, traces, journal on disk. `trials`: a multiple of REPEATS."""
    from dataclasses import replace

    from whichloop.experiments.compare.run import prepare, run
    from whichloop.metrics.record import Record
    from whichloop.protocol import Capabilities, Reply, Request, Usage
    from whichloop.protocol.model import StreamsWhole
    from whichloop.runs.config import CompareConfig
    from whichloop.runs.engine.runner import Unwatched
    from whichloop.runs.trial_models import TrialModels

    class Counting(Unwatched):
        right = calls = 0

        def finished(self, record: Record) -> None:
            self.right += record.accuracy == 1
            self.calls += record.lm_calls

    class Reader(StreamsWhole):
        """Reads the sums and the tools' results off the messages: no plan, no receipts."""

        name = "reader"
        capabilities = Capabilities()

        async def complete(self, request: Request) -> Reply:
            if latency_s:
                await asyncio.sleep(latency_s)
            shown = "\n".join([message.content for message in request.messages])
            results = [int(data) for data in re.findall(r'"data": "(\d+)"', shown)]
            call = next_call(shown, results)
            move = {"final_answer": str(results[-1])} if call is None else {"tool_name": call[0], "arguments": call[1]}
            return Reply(json.dumps(move), usage=Usage(100, 10))

    profile = folder / "slow.toml"
    profile.write_text(f'name = "slow"\nlatency_s = {latency_s}\n')
    reads = loop == "reader"
    settings: dict[str, Any] = {
        "loops": ("bare" if reads else loop,),
        "profiles": ("clean" if reads else str(profile),),
        "suite": f"programs:load(size={trials // REPEATS})",
        "repeats": REPEATS,
        "concurrency": in_flight,
        "real_time": not reads,
        "mlflow": False,
        "runs": folder / "runs",
    }
    ready, counts = prepare(CompareConfig(**settings)), Counting()
    if reads:  # no scripted one: its requests are metered as a provider's are
        arms = tuple(replace(arm, model=Reader.name) for arm in ready.arms)
        ready = replace(ready, arms=arms, trial_models=TrialModels(real={Reader.name: Reader()}))

    def counted() -> tuple[int, int]:
        run(ready, counts)
        return counts.right, counts.calls

    return counted


# --- peers ---


def langgraph(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **given: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *given: Any, **more: Any) -> ChatResult:
            asked = next(str(message.content) for message in messages if message.type == "human")
            results = [int(message.content) for message in messages if message.type == "tool"]
            call = next_call(asked, results)
            calls = [] if call is None else [{"name": call[0], "args": call[1], "id": f"c{len(results)}"}]
            text = str(results[-1]) if call is None else ""
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])

        async def _agenerate(self, messages: list[Any], *given: Any, **more: Any) -> ChatResult:
            if latency_s:
                await asyncio.sleep(latency_s)
            return self._generate(messages)

    async def run() -> int:
        agent = create_agent(Scripted(), tools=[add, multiply])
        asked: Any = [{"messages": [{"role": "user", "content": question(i)}]} for i in range(trials)]
        given = await agent.abatch(asked, config={"max_concurrency": in_flight})
        return sum(one["messages"][-1].content == str(expected(i)) for i, one in enumerate(given))

    return lambda: (asyncio.run(run()), 4 * trials)


def pydantic_evals(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected

    async def reply(messages: list[ModelMessage], info: Any) -> ModelResponse:
        if latency_s:
            await asyncio.sleep(latency_s)
        parts = [part for message in messages for part in message.parts]
        asked = next(str(part.content) for part in parts if part.part_kind == "user-prompt")
        results = [int(str(part.content)) for part in parts if part.part_kind == "tool-return"]
        call = next_call(asked, results)
        part = TextPart(str(results[-1])) if call is None else ToolCallPart(*call)
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=100, output_tokens=10))

    agent = Agent(FunctionModel(reply), tools=[add, multiply])

    async def run() -> int:
        async def solve(asked: str) -> str:
            return str((await agent.run(asked)).output)

        cases = [Case(name=str(i), inputs=question(i), expected_output=str(expected(i))) for i in range(trials)]
        data = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected()])
        report = await data.evaluate(solve, max_concurrency=in_flight, progress=False)
        return sum(all(made.value for made in case.assertions.values()) for case in report.cases)

    return lambda: (asyncio.run(run()), 4 * trials)


def inspect_ai(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.agent import react
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.tool import tool

    def as_tool(function: Any) -> Any:
        async def execute(a: int, b: int) -> int:
            return int(function(a, b))

        execute.__doc__ = function.__doc__
        return tool(name=function.__name__)(lambda: execute)()

    async def reply(messages: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        if latency_s:
            await asyncio.sleep(latency_s)
        asked = next(message.text for message in messages if message.role == "user")
        results = [int(message.text) for message in messages if message.role == "tool"]
        call: tuple[str, Any] = next_call(asked, results) or ("submit", {"answer": str(results[-1])})
        made = ModelOutput.for_tool_call("mockllm", *call)
        made.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return made

    def run() -> tuple[int, int]:
        samples = [Sample(id=i, input=question(i), target=str(expected(i))) for i in range(trials)]
        solver = react(tools=[as_tool(add), as_tool(multiply)])
        task = Task(dataset=MemoryDataset(samples), solver=solver, scorer=includes())
        model = get_model("mockllm/model", custom_outputs=reply)
        limits = {"max_samples": in_flight, "max_connections": in_flight}
        [log] = evaluate(task, model=model, log_dir=str(folder), display="none", **limits)
        if log.status != "success" or log.results is None:
            raise SystemExit(f"Inspect's run failed: {log.error}")
        return round(log.results.scores[0].metrics["accuracy"].value * trials), 4 * trials

    return run


def main() -> None:
    """Run one once, as the command line says, and print what it took."""
    name, trials, latency_ms, in_flight = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        run = PROGRAMS[name](trials, latency_ms / 1000, in_flight, Path(folder))
        cpu, started = time.process_time(), time.perf_counter()
        right, calls = run()
        wall, used = time.perf_counter() - started, time.process_time() - cpu
    line = {
        "trials": trials,
        "right": right,
        "trials_per_s": trials / wall,
        "cpu_ms_per_trial": 1000 * used / trials,
        "cpu_ms_per_call": 1000 * used / calls,
        "share_of_ideal": calls * latency_ms / 1000 / in_flight / wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024),
    }
    print(json.dumps(line), flush=True)


PROGRAMS: Mapping[str, Prepare] = {
    **{each.__name__: each for each in (hand, dspy_react, langgraph, pydantic_evals, inspect_ai)},
    **{name: partial(ours, name) for name in ("bare", "finish", "phased", "react_extract", "stateless", "reader")},
}

if __name__ == "__main__":
    main()
