"""Speed side by side: `make bench`. Each line is a process of its own; rounds are interleaved, medians and ratios are shown.

python benchmarks/run.py [--rounds N] [--wide] [--growth]      --wide: 512 in flight too; --growth: only CPU per call by length
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OURS = ("bare", "finish", "phased", "react_extract", "stateless")
LENGTHS = (2, 4, 8, 16, 32)


def once(name: str, trials: int, latency_ms: int, in_flight: int, *length: int) -> dict[str, float]:
    script = {"hand-written": "hand.py", "dspy.ReAct": "dspy_react.py"}.get(name, "ours.py")
    before = [name] if script == "ours.py" else []
    command = [sys.executable, str(HERE / script), *before, str(trials), str(latency_ms), str(in_flight), *map(str, length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    line: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if line["right"] != trials:
        sys.exit(f"{name}: {line['right']} of {trials} right; a benchmark of wrong answers measures nothing")
    return line


def medians(plan: dict[str, int], latency_ms: int, in_flight: int, rounds: int) -> dict[str, dict[str, float]]:
    """`plan`: name → trials."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in plan}
    for _ in range(rounds):
        for name, trials in plan.items():
            found[name].append(once(name, trials, latency_ms, in_flight))
    keys = ("trials_per_s", "cpu_ms_per_trial", "cpu_ms_per_call", "share_of_ideal", "peak_mb")
    return {
        name: {key: statistics.median(line[key] for line in lines) for key in keys if lines[0][key] is not None}
        for name, lines in found.items()
    }


def cost(rounds: int) -> None:
    found = medians({"hand-written": 20_000, **dict.fromkeys(OURS, 2_000), "dspy.ReAct": 200}, 0, 1, rounds)
    reference = found["dspy.ReAct"]["cpu_ms_per_trial"]
    print(f"\nNo latency, one in flight, everything recorded; medians of {rounds} rounds\n")
    print("| loop | trials/s | CPU ms per trial | CPU ms per model call | CPU of dspy.ReAct / CPU of this | peak MB |")
    print("|---|---|---|---|---|---|")
    for name, line in found.items():
        print(
            f"| {name} | {line['trials_per_s']:.0f} | {line['cpu_ms_per_trial']:.2f} | {line['cpu_ms_per_call']:.3f} "
            f"| {reference / line['cpu_ms_per_trial']:.1f} | {line['peak_mb']:.0f} |"
        )


def growth(rounds: int) -> None:
    print(f"\nCPU ms per model call by tool calls per task; medians of {rounds} rounds. The prompt itself grows with them.\n")
    print(f"| loop | {' | '.join(map(str, LENGTHS))} |")
    print(f"|---|{'---|' * len(LENGTHS)}")
    for name in OURS:
        costs = []
        for length in LENGTHS:
            lines = [once(name, 3_200 // length, 0, 1, length) for _ in range(rounds)]
            costs.append(statistics.median(line["cpu_ms_per_call"] for line in lines))
        print(f"| {name} | {' | '.join(f'{cost:.3f}' for cost in costs)} |", flush=True)


def latency(in_flight: int, trials: int, rounds: int) -> None:
    found = medians(dict.fromkeys(("hand-written", *OURS, "dspy.ReAct"), trials), 200, in_flight, rounds)
    limit = found["hand-written"]["share_of_ideal"]
    print(f"\n{trials} trials, 200 ms per model call, {in_flight} in flight; medians of {rounds} rounds\n")
    print("| loop | share of ideal | of the hand-written loop |")
    print("|---|---|---|")
    for name, line in found.items():
        print(f"| {name} | {line['share_of_ideal']:.3f} | {line['share_of_ideal'] / limit:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of loopbench's loops beside a hand-written loop and dspy.ReAct.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wide", action="store_true", help="512 in flight too")
    parser.add_argument("--growth", action="store_true", help="only CPU per model call by the length of tasks")
    options = parser.parse_args()
    if options.growth:
        growth(options.rounds)
        return
    cost(options.rounds)
    latency(64, 400, 1)
    if options.wide:
        latency(512, 2048, 1)


if __name__ == "__main__":
    main()
