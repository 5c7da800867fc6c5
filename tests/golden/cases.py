"""What the golden values are made of, in the order in which `python -m tests.golden` makes them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
import sys
import tempfile
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from tests.golden.imported import imports
from tests.prepared import start_command
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops import Bare, Finish, Phased, ReactExtract, Stateless
from whichloop.metrics.record import records_digest
from whichloop.models.profiles import load_profile
from whichloop.protocol import (
    SILENT,
    Model,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    Toolbox,
    WrappedLoop,
    WrappedModel,
    run_sync,
)
from whichloop.protocol.names import Spec, parse_spec
from whichloop.protocol.receipts import strip_receipts
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.store.trials import read_records
from whichloop.runs.trial.trial import TrialContext, run_trial

FOLDER = Path(__file__).parent
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
Case = tuple[str, Any]
"""The name of a case, and the plain JSON that was made for it."""


# --- kept values ---


def kept(name: str, case: str) -> Any:
    """What the golden file has of a case; None where it has nothing."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text("utf-8")).get(case) if path.exists() else None


def write(name: str, case: str, made: Any) -> None:
    path = FOLDER / f"{name}.json"
    every = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(f"{in_lines(every | {case: made})}\n", "utf-8")


def in_lines(value: Any, depth: int = 2) -> str:
    """JSON in which a case, and each part of it, has a line of its own."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(name, ensure_ascii=False)}: {in_lines(value[name], depth - 1)}" for name in sorted(value))
        + "\n}"
    )


def differences(name: str, case: str, made: Any) -> list[str]:
    """The values of a case that are not the golden ones, a line each."""
    was, now = flat(kept(name, case)), flat(made)
    places = sorted(was.keys() | now.keys())
    return [f"  {place}: {was.get(place)} -> {now.get(place)}" for place in places if was.get(place) != now.get(place)]


def flat(value: Any, place: str = "") -> dict[str, Any]:
    """The leaves of plain JSON by their place."""
    if isinstance(value, dict) and value:
        return {k: v for name, part in value.items() for k, v in flat(part, f"{place}/{name}").items()}
    return {place: value}


# --- runs ---


def run_of(folder: Path, **settings: Any) -> Path:
    """Run a comparison, and return its directory."""
    experiment = prepare(CompareConfig.model_validate({"runs": folder, "mlflow": False, **settings}))
    run(experiment, Unwatched())
    return experiment.folder


DIGEST_PROFILES = ("clean", "flaky-format", "flaky-tools", "teachable")
DIGESTS: Mapping[str, dict[str, Any]] = {
    **{
        suite: {"loops": LOOPS, "profiles": DIGEST_PROFILES, "suite": suite, "tasks": 40}
        for suite in ("arithmetic", "events", "library", "typed", "errands")
    },
    "repeats 3": {"loops": LOOPS, "profiles": ("flaky-tools",), "suite": "arithmetic", "tasks": 40, "repeats": 3},
    "workers 2": {"loops": LOOPS, "profiles": ("flaky-format",), "suite": "events", "tasks": 40, "workers": 2},
}


FEW = {f"{case}, few tasks": settings | {"tasks": 6} for case, settings in DIGESTS.items()}
"""Those that `make test` makes."""


def digest_case(case: str) -> Any:
    """Digests of the records, of the whole run and of each arm."""
    with tempfile.TemporaryDirectory() as folder:
        every, arms = read_records(run_of(Path(folder), **{**DIGESTS, **FEW}[case])), dict[str, list[Any]]()
        for record in every:
            arms.setdefault(record.arm, []).append(record)
        return {"run": records_digest(every), **{arm: records_digest(records) for arm, records in arms.items()}}


def digests() -> Iterator[Case]:
    yield from ((case, digest_case(case)) for case in (*DIGESTS, *FEW))


# --- prompts ---

DESIGNS: Mapping[str, type] = {
    "bare": Bare,
    "finish": Finish,
    "phased": Phased,
    "react_extract": ReactExtract,
    "stateless": Stateless,
}
HOOKS = {
    "tool_threads", "on_step", "on_stream", "program", "callbacks", "cancellation_token", "executor",
    "select_model", "context_manager", "manager", "cancel_grace_s",
}  # fmt: skip
"""Options that hold code or prompts of the user's, or that no prompt can show."""
VALUES: Mapping[str, Sequence[object]] = {
    "tool_timeout_s": (5.0,),
    "tool_max_chars": (12,),
    "max_steps": (1, 3),
    "max_consecutive_errors": (1, None),
    "instructions": (None, "Work step by step."),
    "system_prompt": (None, "Work step by step."),
    "answer_retries": (0,),
    "parse_retries": (0, 1),
    "temperature": (0.5,),
    "max_tokens": (500,),
    "max_rounds": (1, 2),
    "max_tool_tasks": (1, 3),
    "max_iterations": (1, 3),
    "overflow_attempts": (1,),
    "include_confidence": (None, True, False),
    "told_max_iterations": (3,),
    "max_empty_decisions": (1, None),
    "max_recovery_rounds": (0, 1),
    "max_history_length": (1, None),
}
"""Values of the options that are numbers or texts; of the others each value is taken."""
PROMPT_TASKS = (("arithmetic(size=3)", "flaky-format"), ("arithmetic(size=3)", "flaky-tools"), ("typed(size=2)", "flaky-format"))
READABLE, READ = ("bare", "finish", "phased"), "arithmetic-0001 under flaky-format"
"""The designs and the task whose prompts are kept as text, too."""


def values_of(design: str) -> Iterator[tuple[str, object]]:
    """Each option of a design with each of its values."""
    loop = DESIGNS[design]
    hints = typing.get_type_hints(loop)
    for option in dataclasses.fields(loop):
        if option.name not in HOOKS:
            kind = hints[option.name]
            parts = (kind, *get_args(kind))
            literal = next((get_args(part) for part in parts if get_origin(part) is typing.Literal), ())
            found = literal or ((True, False) if kind is bool else VALUES[option.name])
            yield from ((option.name, value) for value in (*found, *((None,) if literal and type(None) in parts else ())))


@dataclasses.dataclass(frozen=True, slots=True)
class _Watched(WrappedLoop):
    """A loop whose requests are kept."""

    asked: list[Request] = dataclasses.field(default_factory=list, compare=False)

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        return await self.loop.run(query, tools, _WatchedModel(model, self.asked), observer)


class _WatchedModel(WrappedModel):
    def __init__(self, model: Model, asked: list[Request]) -> None:
        super().__init__(model)
        self.asked = asked

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        return await self.model.complete(request)

    def stream(self, request: Request) -> Any:
        self.asked.append(request)
        return self.model.stream(request)


def requests(design: str, options: Mapping[str, Any]) -> Iterator[tuple[str, list[Request]]]:
    """The requests of each task, by its name."""
    for suite_spec, profile in PROMPT_TASKS:
        suite = make_suite(parse_spec(suite_spec))
        for task in suite.tasks:
            spec = Spec(design, dict(options))
            loop = _Watched(make_loop(spec, None if "max_" in "".join(options) else 8))
            arm = Arm(design, spec, loop, "scripted", load_profile(profile))
            run_sync(run_trial(Trial(arm, task, 0, 0), TrialContext(suite)))
            yield f"{task.id} under {profile}", loop.asked


def as_json(request: Request) -> dict[str, Any]:
    data = request.as_dict()
    plain = json.loads(strip_receipts(json.dumps(data["messages"], ensure_ascii=False)))
    return {"role": str(request.role), "scope": request.scope, **data, "messages": plain}


def prompt_case(design: str) -> Any:
    """A hash of all prompts of each value of each option; those of the defaults can be read in a file, for three designs."""
    made: dict[str, str] = {}
    texts: list[str] = []
    for option, value in [("", None), *values_of(design)]:
        sha = hashlib.sha256()
        for task, asked in requests(design, {option: value} if option else {}):
            sha.update(json.dumps([task, [as_json(each) for each in asked]], sort_keys=True).encode())
            if not option and design in READABLE and task == READ:
                texts += [f"##### {task}\n", *(readable(as_json(each)) for each in asked)]
        made[f"{option}={value}" if option else "defaults"] = sha.hexdigest()[:16]
    if texts:
        made["text"] = hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
        prompt_text(design, "".join(texts))
    return made


def prompt_text(design: str, text: str) -> None:
    """Keep the readable prompts where they are new: the hash beside them tells whether they are the golden ones."""
    path = FOLDER / "prompts" / f"{design}.txt"
    if "--write" in sys.argv:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


def readable(request: dict[str, Any]) -> str:
    lines = [f"=== {request.pop('role')} {request.pop('scope')}".rstrip()]
    for message in request.pop("messages"):
        lines += [f"{message['role']}:", *(f"  {line}".rstrip() for line in str(message.get("content", "")).splitlines())]
        lines += [f"  {key}: {json.dumps(value)}" for key, value in sorted(message.items()) if key not in ("role", "content")]
    return "\n".join([*lines, *(f"{key}: {json.dumps(value)}" for key, value in sorted(request.items()))]) + "\n"


def prompts() -> Iterator[Case]:
    yield from ((design, prompt_case(design)) for design in LOOPS)


# --- verdicts ---

STRESS = ("flaky-format", "flaky-tools")
SEPARATION = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn")
SUITES = ("agriculture", "arithmetic", "ecommerce", "errands", "events", "library", "long_haul", "repairs", "tables", "typed")
VERDICTS: Mapping[str, dict[str, Any]] = {
    "why.md": {"loops": ("bare", "stateless"), "profiles": ("flaky-tools",), "suite": "events", "tasks": 60},
    "size.md": {"loops": ("bare", "react_extract"), "profiles": ("flaky-format",), "repeats": 2},
    "notebooks.md": {"loops": ("bare", "react_extract", "finish"), "profiles": ("flaky-format",)},
    "gate.md": {"loops": ("finish", "finish(parse_retries=0)"), "profiles": ("flaky-format",)},
    "few tasks": {"loops": ("bare", "finish"), "profiles": ("clean",), "tasks": 5},
    **{
        f"results.md, seed {seed}": {"loops": LOOPS, "profiles": STRESS, "suite": "arithmetic(size=300)", "seed": seed}
        for seed in range(5)
    },
    **{f"suites.md, {suite}": {"loops": LOOPS, "profiles": SEPARATION, "suite": suite} for suite in SUITES},
}
COMMANDS: Mapping[str, Sequence[str]] = {
    "start.md": ("init", "compare --config whichloop.toml --quiet --json"),
    "ablate.md": (
        "compare --loop react_extract --vary on_parse_error=finish,observe --vary extract=true,false --vary parse_retries=0,2 "
        "--suite events --profile flaky-format --repeats 2 --quiet --json",
    ),
}
"""Of what stands in files, or is no comparison: the commands, the last of which prints it."""
QUICK_VERDICTS = ("why.md", "gate.md", "few tasks")
"""Those that `make test` makes, too."""


def rounded(values: Mapping[str, float | None], *names: str) -> list[float | None]:
    return [None if (value := values[name]) is None else float(f"{value:.6g}") for name in names]


def verdict_case(case: str) -> Any:
    """The loops to adopt, the arms and pairs on accuracy, and which warnings there are."""
    with tempfile.TemporaryDirectory() as folder:
        if case in COMMANDS:
            for words in COMMANDS[case]:
                code, said = command(Path(folder), *shlex.split(words))
                assert not code, words
            return facts(json.loads(said))
        found = results(run_of(Path(folder), **VERDICTS[case]))
        return facts(found.to_json())


def facts(said: dict[str, Any]) -> Any:
    """Of what `--json` prints: what is decided, and by which numbers."""
    made = {
        "digest": said["digest"],
        "invalid": bool(said["invalid"]),
        "verdict": [said["answer"][name] for name in ("outcome", "loops", "tasks")],
        "arms": {
            arm["arm"]: {
                name: rounded(arm[name], "value", "low", "high", "n") for name in ("accuracy", "tokens", "steps") if arm[name]
            }
            for arm in said["arms"]
        },
        "pairs": {
            f"{pair['a']} - {pair['b']}": [
                pair["verdict"],
                *rounded(pair["difference"] | pair, *pair["difference"], "p_holm"),  # with clusters where tasks share them
            ]
            for pair in (*said["pairs"], *said["pooled"])
            if pair["metric"] == "accuracy"
        },
        "warnings": dict.fromkeys((warning["code"] for warning in said["warnings"]), 1),
    }
    if "effects" in said:
        made["choices"] = {choice["factor"]: choice["value"] for choice in said["answer"]["choices"]}
        made["effects"] = {
            f"{each['term']} {each['metric']}": [
                each["verdict"],
                *rounded(each["difference"] | each, "value", "low", "high", "p_holm"),
            ]
            for each in said["effects"]
        }
    return made


def verdicts() -> Iterator[Case]:
    yield from ((case, verdict_case(case)) for case in (*VERDICTS, *COMMANDS))


# --- gates ---


@dataclasses.dataclass(frozen=True, slots=True)
class GateCase:
    """A run that is blessed, what changes then, and how the gate is called."""

    blessed: str
    gate: str = ""
    edit: tuple[str, str] | None = None
    """Of `my_loop.py`: a text, and what takes its place."""


FINISH = "--loop finish --profile flaky-format"
MINE = "--loop my_loop:MyLoop --profile flaky-format --tasks 24"
GATES: Mapping[str, GateCase] = {
    "the same loop": GateCase(FINISH),
    "parse_retries 2 -> 0": GateCase(FINISH, "--loop finish(parse_retries=0) --metric tokens"),
    "parse_retries 0 -> 2": GateCase("--loop finish(parse_retries=0) --profile flaky-format", "--loop finish"),
    "few tasks, some worse": GateCase(FINISH + " --tasks 24", "--loop finish(parse_retries=0)"),
    "few tasks, some worse, accepted": GateCase(FINISH + " --tasks 24", "--loop finish(parse_retries=0) --accept tasks_lost"),
    "another seed": GateCase(FINISH + " --tasks 24", "--seed 1"),
    "another seed, undecided passes": GateCase(FINISH + " --tasks 24", "--seed 1 --accept undecided"),
    "more tokens": GateCase(FINISH + " --tasks 24", "--loop stateless --metric tokens=0.1"),
    "wide margin": GateCase(FINISH, "--loop finish(parse_retries=0) --metric accuracy=0.5"),
    "own loop, a comment": GateCase(MINE, edit=("import json", "# a comment\nimport json")),
    "own loop, a crash": GateCase(MINE, edit=("except WireError as error:", "except ZeroDivisionError as error:")),
    "own loop, another default limit": GateCase(MINE, edit=("max_steps: int = 10", "max_steps: int = 4")),
    "no baseline": GateCase("", "--seed 1"),
}


QUICK_GATES = ("few tasks, some worse", "own loop, a crash", "no baseline")
"""Those that `make test` makes, too."""


def gate_cases(names: Sequence[str] = tuple(GATES)) -> Iterator[Case]:
    """Exit code and outcome of the gate, with the outcome of each line."""
    blessed: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            yield name, gated(GATES[name], blessed, Path(home))


def gated(case: GateCase, blessed: dict[str, Path], home: Path) -> Any:
    folder = blessed.get(case.blessed)
    if folder is None:
        folder = blessed[case.blessed] = home / str(len(blessed))
        folder.mkdir()
        if "my_loop" in case.blessed:
            command(folder, "init", "--loop", "my_loop")
        if case.blessed:
            command(folder, "compare", *case.blessed.split(), "--quiet")
            command(folder, "gate", "latest", "--bless", "--output", "baseline.json")
            kept = folder / "baseline.json"
            held = json.loads(kept.read_text("utf-8"))
            held["gate"]["metrics"] = {"accuracy": 0.02}  # and what the gate is asked for
            kept.write_text(json.dumps(held), "utf-8")
    mine = folder / "my_loop.py"
    before = mine.read_text("utf-8") if case.edit else ""
    if case.edit:
        assert case.edit[0] in before, case
        mine.write_text(before.replace(*case.edit, 1), "utf-8")
    code, said = command(
        folder,
        "gate",
        "--baseline",
        "baseline.json",
        *case.gate.split(),
        "--json",
        *(["--allow", "my_loop:MyLoop"] if case.edit else []),
    )
    if case.edit:
        mine.write_text(before, "utf-8")
    if not said:
        return {"exit code": code}
    data = json.loads(said)
    lines = {f"{line['arm']} {line['metric']}": f"{line['result']}: {line['reason']}" for line in data["lines"]}
    return {
        "exit code": code,
        "outcome": data["outcome"],
        "reasons": [reason["code"] for reason in data["reasons"]],
        "lines": lines,
        "tasks": Counter(task["became"] for task in data["tasks"]),
    }


def command(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parents[1] / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with start_command(words, folder, environment) as process:
        said, _ = process.communicate(timeout=240)
    return process.returncode, said


MAKERS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "digests": digests,
    "prompts": prompts,
    "verdicts": verdicts,
    "gates": gate_cases,
    "imports": imports,
}
