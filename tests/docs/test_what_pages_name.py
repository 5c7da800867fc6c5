"""Pages name what the code has: all of it, and nothing else. `python -m tests.docs.blocks --write` renews whole blocks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

import whichloop
from tests.designs import DESIGNS
from tests.docs.blocks import BLOCKS, is_renewed
from tests.docs.pages import DOCS, ROOT
from tests.docs.samples import samples
from tests.prepared import said_by
from whichloop.checks.program import OUTCOMES
from whichloop.experiments.gate.baseline import Accepted
from whichloop.experiments.gate.reasons import TEXTS
from whichloop.experiments.optimize.optimizer import BUILT_IN
from whichloop.loops import ApprovalRequired, Bare, Checkpoint, Observer, ProviderRetry, Query, Resumable, StopReason, Toolbox
from whichloop.metrics.trajectory.causes import MEANINGS, Cause
from whichloop.models.fake import FakeModel
from whichloop.programs.program import Program
from whichloop.programs.worker import trial_environment
from whichloop.protocol import Act, Answer, Optimizable, ProviderError, RunEvent, ToolCall
from whichloop.protocol.events import EventOf
from whichloop.protocol.names import Spec, parse_spec, parse_values
from whichloop.runs.built_in import options_of
from whichloop.runs.registry import make_loop


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def rows(name: str, *heads: str) -> dict[str, list[str]]:
    """The table of a page below a row of headings: first cell → the others."""
    _, found, below = page(name).partition(f"\n| {' | '.join(heads)} |")
    assert found
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in below.split("\n\n")[0].splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}


def words(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_a_block_is_as_the_code_has_it(name: str, block: str) -> None:
    assert is_renewed(name, block), "renew it: python -m tests.docs.blocks --write"


def test_every_cause_of_a_loss_has_its_row() -> None:
    assert [*rows("why", "cause", "what it means")] == list(MEANINGS) == list(get_args(Cause))


def test_every_reason_of_the_gate_has_its_row_and_what_can_be_accepted_is_listed() -> None:
    cells = re.findall(r"^\| (`[^|]*`[^|]*) \|", page("gate").partition("| reason |")[2].partition("\n\n")[0], re.MULTILINE)
    assert set(words("".join(cells))) == TEXTS.keys() - {"dead"}, "dead: only for blessing"
    (cell,) = re.findall(r"^\| `--accept CODE,…` \| (.*) \|$", page("gate"), re.MULTILINE)
    assert tuple(words(cell)) == get_args(Accepted)


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_an_undecided_gate_alone_passes_the_step_on_github(code: int, passes: bool) -> None:
    """As GitHub runs a step: `bash -e`."""
    (recipe,) = (each.text for each in samples(page("gate")) if each.language == "yaml")
    steps = yaml.safe_load(recipe)["jobs"]["gate"]["steps"]
    (step,) = (each["run"] for each in steps if "whichloop gate" in each.get("run", ""))
    assert (subprocess.run(["bash", "-e", "-c", f"whichloop() {{ return {code}; }}\n{step}"]).returncode == 0) == passes


def test_every_optimizer_has_its_row_and_every_design_its_predictors() -> None:
    assert [words(name)[0] for name in rows("optimize", "name", "changes", "proposes")] == [*BUILT_IN]
    found: dict[str, list[str]] = {}
    for names, (predictors,) in rows("optimize", "loop", "predictors").items():
        found |= dict.fromkeys(re.findall(r"\w+", names), re.findall(r"\w+", predictors))
    loops = {name: make_loop(parse_spec(name)) for name in DESIGNS}
    assert found == {name: [*loop.predictors] for name, loop in loops.items() if isinstance(loop, Optimizable)}


def test_the_factors_of_an_ablation_can_be_typed() -> None:
    """Where a whole command is given the loop takes them too."""
    written = [shlex.split(span, comments=True) for span in re.findall(r"^whichloop (.*--vary .+)$", page("ablate"), re.MULTILINE)]
    assert len(written) > 3
    for typed in written:
        factors = [typed[place + 1] for place, word in enumerate(typed) if word == "--vary"]
        values = {name: parse_values(rest) for name, _, rest in (factor.partition("=") for factor in factors)}
        assert all(len(found) > 1 for found in values.values())
        if "--loop" in typed:
            spec = parse_spec(typed[typed.index("--loop") + 1])
            for chosen in product(*values.values()):
                make_loop(Spec(spec.name, {**spec.options, **dict(zip(values, chosen, strict=True))}))


def test_what_the_page_on_python_names_of_a_run_is_there(tmp_path: Path) -> None:
    run = whichloop.compare(
        "bare", vary={"max_consecutive_errors": [1, 3]}, tasks=6, profiles="flaky-format", progress=False, runs=tmp_path
    )
    named = dict(re.findall(r"^\| `run\.(\w+)`[^|]*\|[^|]*\|(.*)\|$", page("python"), re.MULTILINE))
    tables = ("trials", "arms", "pairs", "tasks", "effects")
    assert named.keys() >= {*tables}
    for name in tables:
        assert {each for each in words(named[name]) if each.islower()} - {"vary"} <= set(getattr(run, name).columns), name
    assert all(hasattr(run, name) for name in re.findall(r"`run\.(\w+)", page("python")))


# --- an agent of one's own, and a loop in a product ---


def test_every_outcome_variable_and_option_of_an_agent_is_on_the_page() -> None:
    text = page("your-agent")
    assert all(f"| `{outcome}` |" in text for outcome in OUTCOMES)
    told = trial_environment("http://127.0.0.1:1/t/x", "?", "m", 1)
    assert not [name for name in told if f"`{name}`" not in text and name != "OPENAI_API_BASE"]
    own = [name for name in options_of(Program) if name not in ("command", "max_steps")]
    assert not [name for name in own if f"`{name}=" not in text]


@pytest.mark.slow
def test_the_agent_for_node_runs(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("it is not installed")
    for sample in samples(page("your-agent")):
        if sample.file:
            (tmp_path / sample.file).write_text(sample.text)
    agent, suite = ["--program", "node my_agent.mjs"], ["--profile", "flaky-tools", "--suite", "arithmetic(size=2)"]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (*sys.path, str(tmp_path))))}
    (arm,) = json.loads(said_by(tmp_path, os.environ | path, "-m", "whichloop", "compare", *agent, *suite, "-q", "--json"))["arms"]
    assert arm["errored"] == 0
    assert arm["accuracy"]["value"] > 0.3


class Heard(Observer):
    streams = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def on_event(self, event: RunEvent) -> None:
        self.sent.append(event.as_dict())


def price(item: str) -> float:
    """What an item costs."""
    return 1.5


def heard() -> list[dict[str, Any]]:
    """The events of a run in which all goes wrong that can, and of one whose calls wait for a person."""
    observer, query, tools = Heard(), Query("What does tea cost?"), Toolbox([price])
    call = Act("Look.", (ToolCall("price", {"item": "tea"}),))
    wandering = FakeModel(ProviderError("busy", "rate_limit"), call, Act("", (ToolCall("cost", {}),)), "Well.", Answer("", "2"))
    ProviderRetry(Bare(), delay_s=0).run_sync(query, tools, wandering, observer)
    checkpoint, model = Checkpoint(needs_approval=["price"]), FakeModel(call, call, call, Answer("", "2"))
    decisions: list[tuple[Any, dict[str, Any]]] = [
        (checkpoint.approve, {"arguments": {"item": 3}}),
        (checkpoint.approve, {"arguments": {"item": "milk"}}),
        (checkpoint.reject, {"reason": "too dear"}),
        (checkpoint.answer, {"result": "2"}),
    ]
    for decide, given in decisions:
        with pytest.raises(ApprovalRequired):
            Resumable(Bare(), checkpoint).run_sync(query, tools, model, observer)
        decide(checkpoint.pending[0], **given)
    assert Resumable(Bare(), checkpoint).run_sync(query, tools, model, observer).ok
    return observer.sent


def test_the_tables_of_a_product_name_every_event_with_its_fields_and_every_stop() -> None:
    def section(heading: str) -> str:
        return page("product").partition(f"\n{heading}\n\n")[2].partition("\n##")[0]

    told = dict(re.findall(r"^\| `([A-Z]\w+)` \|[^|\n]*\|([^|\n]*)\|$", section("### Events"), re.MULTILINE))
    assert set(told) == {event.__name__ for event in get_args(EventOf)}
    sent = heard()
    for name, cell in told.items():
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        fields = {field for event in sent if event["event"] == kind for field in event}
        assert fields, name
        assert fields - {"event"} <= set(words(cell))
    stops = " ".join(line.split("|")[1] for line in section("### How a run ends").split("\n\n")[1].splitlines())
    assert {each for each in words(stops) if each.islower()} == {str(stop) for stop in StopReason}


# --- whoever joins ---


def test_the_tour_has_every_package_once_and_what_it_names_exists() -> None:
    source = ROOT / "src" / "whichloop"
    packages = [path.name for path in sorted(source.iterdir()) if any(path.glob("*.py")) or path.name == "datasets"]
    assert sorted(re.findall(r"^\| `(\w+)` \| ", page("tour"), re.MULTILINE)) == packages
    for name in re.findall(r"(?:`|[ └├] )([\w/]+(?:/|\.py))(?:`| )", page("tour")):
        exists = Path.is_dir if name.endswith("/") else Path.is_file
        assert any(exists(base / name) for base in (source, ROOT, ROOT / "src")), name
    assert all("](docs/tour.md)" in (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md"))
