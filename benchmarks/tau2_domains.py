"""Whether tau2's gold actions end in our tools' database as in its own, and what its tasks ask for; Markdown to stdout.

python benchmarks/tau2_domains.py CLONE --python PYTHON [--write]

CLONE is a clone of github.com/sierra-research/tau2-bench (docs/suites.md tells commit a2c0247), and PYTHON an interpreter in which
tau2's requirements are installed; its tools run there, in a process of their own. Of a domain's folder `db.json`, `tasks.json` and
`policy.md` are read. --write renews the table in docs/suites.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from pages import write_block
from whichloop.checks.suite.reference_agents import bench, passed, trial, without_calls
from whichloop.datasets import tau2
from whichloop.datasets.task import Suite
from whichloop.metrics.record import Record
from whichloop.text.numbers import interval

DOMAINS = ("retail", "airline")
PAGE = Path(__file__).parents[1] / "docs" / "suites.md"
THEIRS = """
import json, sys
from importlib import import_module
domain, folder = sys.argv[1:]
tools, models = (import_module(f"tau2.domains.{domain}.{name}") for name in ("tools", "data_model"))
kit, shape = {"retail": ("RetailTools", "RetailDB"), "airline": ("AirlineTools", "FlightDB")}[domain]
tables = json.load(open(folder + "/db.json"))
new = lambda: getattr(models, shape).model_validate(tables)
before, made = new().model_dump(mode="json"), {}
for task in json.load(open(folder + "/tasks.json")):
    own = getattr(tools, kit)(new())
    for action in task["evaluation_criteria"]["actions"] or []:
        try:
            getattr(own, action["name"])(**action["arguments"])
        except Exception:
            pass
    after = own.db.model_dump(mode="json")
    changed = {table: {key: row for key, row in rows.items() if row != before[table].get(key)} for table, rows in after.items()}
    made[task["id"]] = {table: rows for table, rows in changed.items() if rows}
json.dump(made, sys.stdout)
"""


def changed_by_theirs(domain: str, clone: Path, folder: Path, python: str) -> dict[str, Any]:
    """Task → the records that tau2's own tools change, by table and id."""
    environment = {**os.environ, "PYTHONPATH": str(clone / "src")}
    command = [python, "-c", THEIRS, domain, str(folder)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def same_form(value: Any) -> Any:
    """Without fields that are empty, which tau2 writes out, and without what floats add."""
    if isinstance(value, dict):
        return {key: same_form(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [same_form(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def passed_by_echo(suite: Suite) -> str:
    """The share of tasks, with its interval, that an agent passes who only repeats the question."""
    (echo,) = (agent for agent in without_calls(suite.tasks) if agent.name == "echo")

    async def each() -> list[Record]:
        setting = bench(suite, suite.tasks)
        return [(await trial(echo, task, setting)).record for task in suite.tasks]

    found = passed(echo, asyncio.run(each())).share
    return "–" if found is None else interval(found, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    columns = (
        *("domain", "tasks", "with several requests", "passed by who repeats the question"),
        *("the same database", "another one, in the tasks"),
    )
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for domain in DOMAINS:
        folder = given.clone / "data" / "tau2" / "domains" / domain
        theirs = changed_by_theirs(domain, given.clone, folder, given.python)
        suite = tau2.load(data=folder)
        several = sum(bool(task.world["further"]) for task in tau2.load(data=folder, wishes="in_turn").tasks)
        tasks = [task for task in suite.tasks if task.end_state is not None]
        other = [task.id for task in tasks if same_form(task.end_state["changed"]) != same_form(theirs[task.id])]
        beside = f"{len(tasks)} | {several} | {passed_by_echo(suite)}"
        lines.append(f"| {domain} | {beside} | {len(tasks) - len(other)} | {', '.join(other) or '–'} |")
    text = "\n".join(lines)
    print(text)
    if given.write:
        write_block(PAGE, "tau2", text)


if __name__ == "__main__":
    main()
