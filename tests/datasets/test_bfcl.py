"""The importer of BFCL: rows become tasks with stub tools, right calls become plans, and what is wrong with a file is said."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.datasets.test_tau2 import accuracy, planned
from whichloop.checks.suite import task_problems
from whichloop.datasets import bfcl
from whichloop.datasets.bfcl import tool_names
from whichloop.datasets.bfcl.files import NOTHING_FITS
from whichloop.datasets.bfcl.official import officially_right
from whichloop.datasets.importing import json_files
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import replay
from whichloop.protocol import run_sync

PUBLISHED = Path(__file__).parents[2] / "../shared/data/bfcl"


def function(name: str, required: list[str] | None = None, /, **parameters: Any) -> dict[str, Any]:
    kinds = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in parameters.items()}
    needed = list(kinds) if required is None else required
    return {"name": name, "description": f"It is {name}.", "parameters": {"type": "dict", "properties": kinds, "required": needed}}


def row(identifier: str, *functions: dict[str, Any], text: str = "Play jazz in the kitchen and in the hall.") -> dict[str, Any]:
    return {"id": identifier, "question": [[{"role": "user", "content": text}]], "function": list(functions)}


def right(identifier: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"id": identifier, "ground_truth": list(calls)}


PLAY = function("radio.play", ["genre", "room"], genre="string", room="string", volume="float")
PARALLEL = row("parallel_0", PLAY)
PARALLEL_RIGHT = right(
    "parallel_0",
    {"radio.play": {"genre": ["Jazz", "jazz music"], "room": ["kitchen"], "volume": ["", 0.5]}},
    {"radio.play": {"genre": ["Jazz"], "room": ["hall"], "volume": [1]}},
)


def write(folder: Path, questions: list[Any], answers: list[Any] | None = None, name: str = "BFCL_v4_parallel.json") -> Path:
    """A file of questions with its answers beside it; gives the file."""
    (folder / "possible_answer").mkdir(exist_ok=True)
    for path, rows in ((folder / name, questions), (folder / "possible_answer" / name, answers)):
        if rows is not None:
            path.write_text("\n".join(item if isinstance(item, str) else json.dumps(item) for item in rows), encoding="utf-8")
    return folder / name


def only(folder: Path, question: dict[str, Any], answer: dict[str, Any] | None = None) -> tuple[Suite, Task]:
    suite = bfcl.load(data=write(folder, [question], None if answer is None else [answer]))
    return suite, suite.tasks[0]


VALUES = {
    "string": st.text(max_size=5),
    "integer": st.integers(-99, 99),
    "float": st.floats(-9, 9) | st.integers(-9, 9),
    "boolean": st.booleans(),
    "any": st.integers() | st.text(max_size=3),
}


@st.composite
def functions_with_values(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A function as published, and arguments that fit it."""
    kinds = draw(
        st.dictionaries(st.sampled_from(["self", "x", "the value", "$ref", "name"]), st.sampled_from(sorted(VALUES)), max_size=4)
    )
    described: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for name, kind in kinds.items():
        value, inner = VALUES[kind], {"type": kind}
        shapes = {
            "plain": (inner, value),
            "dict": ({"type": "dict", "properties": {"k": inner}}, st.fixed_dictionaries({"k": value})),
            **{shape: ({"type": shape, "items": inner}, st.lists(value, max_size=3)) for shape in ("array", "tuple")},
        }
        described[name], values = shapes[draw(st.sampled_from(sorted(shapes)))]
        arguments[name] = draw(values)
    return function(draw(st.sampled_from(["f", "a.b", "a_b", "über.f"])), None, **described), arguments


def allowed(value: Any) -> Any:
    return {key: [item] for key, item in value.items()} if isinstance(value, dict) else value


@settings(deadline=None, max_examples=cases(12))
@given(functions_with_values(), st.data())
def test_a_plan_is_right_and_any_change_of_it_is_wrong(tmp_path_factory: Any, drawn: Any, data: Any) -> None:
    described, arguments = drawn
    calls = {described["name"]: {name: [allowed(value)] for name, value in arguments.items()}}
    suite, task = only(tmp_path_factory.mktemp("bfcl"), row("simple_0", described), right("simple_0", calls))
    if any(value == "" for value in arguments.values()):
        return  # "" says that a parameter may be left out
    assert not task.quarantined
    if task.plan is None:
        assert "$ref" in task.no_plan
        return
    assert task_problems(suite) == []
    (call,) = planned(task)
    assert accuracy(suite, task, call) == 1.0
    assert accuracy(suite, task) == accuracy(suite, task, call, call) == 0.0
    assert accuracy(suite, task, (call[0], {**call[1], "verbose": True})) == 0.0
    assert accuracy(suite, task, (call[0], {**call[1], "verbose": True}), call) == 1.0
    if arguments:
        missing = data.draw(st.sampled_from(sorted(arguments)))
        less = {name: value for name, value in call[1].items() if name != missing}
        assert accuracy(suite, task, (call[0], less)) == 0.0
        assert accuracy(suite, task, (call[0], less), call) == 1.0


@given(
    st.lists(
        st.text(max_size=70) | st.sampled_from(["a.b", "a_b", "a-b", "a b", "a_b_2", "x" * 64, "x" * 65]), unique=True, max_size=8
    )
)
def test_tool_names_are_legal_and_differ(names: list[str]) -> None:
    made = tool_names([name for name in names if name])
    assert len(set(made.values())) == len(made) == len([name for name in names if name])
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in made.values())
    assert all(made[name] == name for name in made if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name))


def test_a_row_becomes_a_task(tmp_path: Path) -> None:
    suite, task = only(tmp_path, PARALLEL, PARALLEL_RIGHT)
    assert (task.id, task.scorer, task.labels["category"]) == ("parallel_0", 'bfcl(checker = "official")', "parallel")
    assert (task.query.text, task.query.context) == ("Play jazz in the kitchen and in the hall.", "")
    assert task.expected == PARALLEL_RIGHT["ground_truth"]
    assert planned(task) == [
        ("radio_play", {"genre": "Jazz", "room": "kitchen"}),
        ("radio_play", {"genre": "Jazz", "room": "hall", "volume": 1}),
    ]
    assert task.plan is not None
    assert not any(task.plan.dependencies.values())
    assert task_problems(suite) == []
    assert suite.max_tool_steps == 9


KITCHEN, HALL = ("radio_play", {"genre": "Jazz", "room": "kitchen"}), ("radio_play", {"genre": "Jazz", "room": "hall", "volume": 1})
LOUD = ("radio_play", {"genre": "JAZZ", "room": "hall", "volume": 1.0})


@pytest.mark.parametrize(
    ("calls", "answer", "score"),
    [
        ([LOUD, KITCHEN], "Done.", 1),
        ([KITCHEN], "Done.", 0),
        ([KITCHEN, ("radio_play", {"genre": "Jazz", "room": "hall"})], "Done.", 0),  # its volume may not be left out
        ([KITCHEN, HALL, HALL], "Done.", 0),
        ([KITCHEN, HALL], None, 0),
    ],
)
def test_parallel_calls_are_right_in_any_order_and_each_only_once(tmp_path: Path, calls: Any, answer: Any, score: float) -> None:
    assert accuracy(*only(tmp_path, PARALLEL, PARALLEL_RIGHT), *calls, answer=answer) == score


def test_irrelevance_is_right_without_any_call(tmp_path: Path) -> None:
    suite = bfcl.load(data=write(tmp_path, [row("irrelevance_3", PLAY, text="Who wrote Faust?")], name="BFCL_v4_irrelevance.json"))
    (task,) = suite.tasks
    assert task.expected == []
    assert planned(task) == []
    for answer in (NOTHING_FITS, "Goethe", "I cannot answer this."):
        assert accuracy(suite, task, answer=answer) == 1.0
    assert accuracy(suite, task, answer=None) == 0.0
    assert accuracy(suite, task, ("radio_play", {"genre": "Faust", "room": "hall"})) == 0.0
    assert accuracy(suite, task, ("radio_play", {})) == 0.0
    assert task_problems(suite) == [
        "task 'irrelevance_3': the plan answers without any call: a loop that uses no tool would be right"
    ]


def test_a_file_that_would_fill_the_memory_is_refused_unless_only_its_first_rows_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_files, "MAX_FILE_BYTES", 2_000)
    path = write(tmp_path, [PARALLEL, " " * 2_000], [PARALLEL_RIGHT])
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 2: the file is longer than 2,000 bytes; take the first rows")):
        bfcl.load(data=path)
    assert len(bfcl.load(data=path, limit=1).tasks) == 1


JAZZ = {"radio.play": {"genre": ["Jazz"], "room": ["hall"]}}
SAME = "two of its calls are the same, and a model that follows a plan could not tell them apart"


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        (PARALLEL, right("parallel_0", {"radio.play": {"band": ["x"]}}), "call 1, 'radio.play': it has no parameter 'band'"),
        (PARALLEL, right("parallel_0", {"radio.play": {"genre": []}}), "call 1, 'radio.play': no value of 'genre' is allowed,"),
        (PARALLEL, right("parallel_0", JAZZ, JAZZ), SAME),
    ],
)  # fmt: skip
def test_right_calls_that_make_no_plan_are_told(tmp_path: Path, question: Any, answer: Any, reason: str) -> None:
    suite, task = only(tmp_path, question, answer)
    assert task.no_plan.removeprefix("possible_answer: ").startswith(reason)
    assert (task.plan, task.quarantined) == (None, "" if reason == SAME else task.no_plan)
    assert len(suite.digest) == 64
    if reason == SAME:
        call = ("radio_play", {"genre": "Jazz", "room": "hall"})
        assert (accuracy(suite, task, call), accuracy(suite, task, call, call)) == (0.0, 1.0)


def test_a_folder_is_read_as_far_as_it_is_supported(tmp_path: Path) -> None:
    write(tmp_path, [PARALLEL], [PARALLEL_RIGHT], "BFCL_v3_parallel.json")
    write(tmp_path, [row("irrelevance_0", PLAY), row("irrelevance_1", PLAY)], None, "BFCL_v4_irrelevance.json")
    write(tmp_path, ["not read"], None, "BFCL_v4_web_search.json")
    assert [task.id for task in bfcl.load(data=tmp_path).tasks] == ["parallel_0", "irrelevance_0", "irrelevance_1"]
    assert [task.id for task in bfcl.load(data=tmp_path, limit=1).tasks] == ["parallel_0", "irrelevance_0"]
    assert [task.id for task in bfcl.load(data=tmp_path, category="irrelevance", limit=1).tasks] == ["irrelevance_0"]
    with pytest.raises(ValueError, match="no row of category 'simple'"):
        bfcl.load(data=tmp_path, category="simple")
    for limit in (0, -1, True, "3"):
        with pytest.raises(ValueError, match="must be a whole number from 1 on"):
            bfcl.load(data=tmp_path, limit=limit)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="category is 'live', and must be one of simple, multiple"):
        bfcl.load(data=tmp_path, category="live")


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published files are not here")
def test_the_published_rows() -> None:
    suite = bfcl.load(data=PUBLISHED)
    counted = {"simple": 100, "multiple": 100, "parallel": 100, "irrelevance": 60}
    assert Counter(task.labels["category"] for task in suite.tasks) == counted
    assert [task.id for task in suite.tasks if task.plan is None] == []
    assert all(problem.endswith("a loop that uses no tool would be right") for problem in task_problems(suite))
    for task in suite.tasks[::7]:
        assert len(run_sync(replay(task, suite))) == len(planned(task))
        assert accuracy(suite, task, *planned(task)) == 1.0


def suite_of(folder: Path, kind: Any, allowed: list[Any]) -> Suite:
    question = row("parallel_0", function("f", [], x=kind))
    answer = right("parallel_0", *({"f": {"x": options}} for options in allowed))
    return bfcl.load(data=write(folder, [question], [answer]))


FLOATS, TEXTS = ({"type": "array", "items": {"type": kind}} for kind in ("float", "string"))
SIDES = {"type": "dict", "properties": {"w": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("kind", "allowed", "made", "score"),
    [
        ({"type": "string", "enum": ["Small", "Large"]}, [["Small"]], ["small."], 1),  # an enum goes by letters and digits
        (FLOATS, [[[1.0, 2.5]]], [[1, 2.5]], 0),  # an int does for a float, but not inside of a list
        (SIDES, [[{"w": [3]}]], [{"w": 3.0}], 1),  # types inside of an object are not looked at
        ({"type": "dict"}, [[{"k": [["Big Ben"]]}]], [{"k": ["big ben"]}], 0),  # nor are texts in a list inside of one
        (TEXTS, [["", ["a"]]], [[]], 1),  # an empty list where nothing need be given
        ({"type": "any"}, [[5, "Five"]], ["five"], 0),  # a text where the first allowed value is none
        ({"type": "integer"}, [[1, 2], [1]], [1, 2], 0),  # a call that fits two wanted ones takes the first
        ({"type": "string"}, [["", None]], [None], 1),  # null may be allowed
        ({"type": "string"}, [["", None]], ["null"], 0),
    ],
)
def test_the_oddities_of_the_published_checker(
    tmp_path: Path, kind: Any, allowed: list[Any], made: list[Any], score: float
) -> None:
    suite = suite_of(tmp_path, kind, allowed)
    assert accuracy(suite, suite.tasks[0], *(("f", {"x": value}) for value in made)) == score


SOMETHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("aB .'", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "float", "boolean", "any", "dict")),
        {"type": "string", "enum": ["a", "B."]},
        *(
            {"type": kind, "items": {"type": items}}
            for kind in ("array", "tuple")
            for items in ("string", "integer", "float", "dict")
        ),
    ]
)


@given(KINDS, st.lists(SOMETHING | st.just(""), min_size=1, max_size=3), SOMETHING, st.data())
def test_no_stub_refuses_what_the_published_checker_takes(
    tmp_path_factory: Any, kind: Any, options: list[Any], value: Any, data: Any
) -> None:
    value = data.draw(st.sampled_from([value, *options]))
    suite = suite_of(tmp_path_factory.mktemp("bfcl"), kind, [options])
    task = suite.tasks[0]
    call = {"function": "f", "arguments": {"x": value}}
    if officially_right(task.expected, [call], task.world["functions"]):
        assert accuracy(suite, task, ("f", {"x": value})) == 1
