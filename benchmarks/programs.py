"""The programs that benchmarks/run.py measures: three dependent sums by tools, over and over, so four model calls each.

cd benchmarks && python -m programs NAME TRIALS LATENCY_MS IN_FLIGHT

One line of JSON on stdout. Here: `hand`, the plainest asyncio loop that could do the job; `dspy_react`; a design of ours with all
that is recorded of it; and `reader`, which is `bare` before the model that the others have. benchmarks/peers.py has more. A program
imports what it needs and nothing else, before it is measured.
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


# --- what is measured ---


def peak_mb() -> float:
    """Most memory that this process has held at once.

    Linux's own count of it: getrusage hands the parent's peak on to the child.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _cpu_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(programs: Mapping[str, Prepare]) -> None:
    """Run one once, as the command line says, and print what it took."""
    name, trials, latency_ms, in_flight = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        run = programs[name](trials, latency_ms / 1000, in_flight, Path(folder))
        cpu, started = _cpu_s(), time.perf_counter()
        right, calls = run()
        wall, used = time.perf_counter() - started, _cpu_s() - cpu
    line = {
        "trials": trials,
        "right": right,
        "trials_per_s": trials / wall,
        "cpu_ms_per_trial": 1000 * used / trials,
        "cpu_ms_per_call": 1000 * used / calls,
        "share_of_ideal": calls * latency_ms / 1000 / in_flight / wall,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    from functools import partial

    designs = ("bare", "finish", "phased", "react_extract", "stateless", "reader")
    main({"hand": hand, "dspy_react": dspy_react} | {name: partial(ours, name) for name in designs})
