"""What covers a weakness: hints in the instructions, and demonstrations in every wire format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sealing import reseal
from whichloop.datasets.task import Suite, Task
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.phased.codecs import SELECT
from whichloop.loops.react_extract_codecs import ReactCodec, ReactStep
from whichloop.loops.stateless.signatures import AgentReasonerSignature, DecideCodec
from whichloop.metrics.record import Record
from whichloop.models.faults import answer_options
from whichloop.models.profiles import WEAKNESS_KINDS, load_profile
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.weaknesses import CURES, PromptParts, Slip, in_thousands, slips_of
from whichloop.protocol import Act, Codec, Inexpressible, Message, NativeCall, Plan, PlannedCall, Ref, ToolCall, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.protocol.predictor import EXAMPLES, in_own_format, own_prompt
from whichloop.protocol.program import Optimizable, Program
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import generated_suites, make_loop, make_suite
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial

from . import bench
from .weak_trials import KINDS, LAW, SPECS, TOOLS, noted, product, slip, told, weak

# --- what covers a weakness: instructions ---


PLANS: dict[str, Plan] = {
    "unit": product(),
    "date": Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1")),
    "step": product(),
    "answer": product(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", KINDS)
def test_a_hint_cures_its_own_kind_and_no_other(kind: str, hint: str) -> None:
    trial = told(bench.Bench(PLANS[kind], weak(kind), tools=TOOLS), f"Solve it.\n{CURES[hint].hint}\nTools follow.")
    answer = run_sync(trial.run())
    assert (answer == trial.expected) is (kind == hint)
    assert bool(noted(trial)) is (kind != hint)


def test_what_the_model_or_a_tool_says_covers_nothing() -> None:
    hint, slip = CURES["unit"].hint, Slip("unit")
    assert slip.is_covered(PromptParts((Message("user", hint),)))
    assert not slip.is_covered(PromptParts((Message("assistant", hint), Message("tool", hint, call_id="1"))))


def says_a_hint(texts: list[str]) -> list[str]:
    return [text for text in texts for cure in CURES.values() if cure.phrase.search(text)]


@pytest.mark.parametrize(
    "suite",
    [pytest.param(name, marks=() if name in ("arithmetic", "events") else pytest.mark.slow) for name in sorted(generated_suites())],
)
def test_no_suite_says_a_hint_by_chance(suite: str) -> None:
    loaded = generated_suites()[suite].suite(None, 0)
    environment = loaded.open(loaded.tasks[0])
    texts = [json.dumps([tool.name, tool.description, tool.parameters]) for tool in environment.tools]
    environment.close()
    texts += [task.query.full_text for task in loaded.tasks]
    texts += [call.goal for task in loaded.tasks if task.plan is not None for call in task.plan.calls]
    assert not says_a_hint(texts)


@pytest.mark.parametrize("loop", ["bare", "finish", "phased", "react_extract", "stateless", "bare(decision_format=native)"])
def test_no_design_says_a_hint_by_itself(loop: str) -> None:
    made: Any = make_loop(parse_spec(loop), 5)
    texts = [prompt.instructions for prompt in made.predictors.values()]
    assert texts
    assert not says_a_hint(texts)


def test_every_hint_holds_its_phrase() -> None:
    assert CURES.keys() == {kind.partition(".")[2] for kind in WEAKNESS_KINDS}
    for kind, cure in CURES.items():
        assert [other for other in CURES if CURES[other].phrase.search(cure.hint)] == [kind]


# --- what covers a weakness: demonstrations, in every wire format ---


WIRES: dict[str, Codec] = {
    "bare.json": FORMATS["json"],
    "bare.fields": FORMATS["fields"],
    "bare.native": FORMATS["native"],
    "native": NATIVE,
    "phased.select": SELECT,
    "react_extract": ReactCodec(ReactStep),
    "stateless": DecideCodec(AgentReasonerSignature),
}


LISTING = json.dumps([{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in TOOLS])
WORDS = "- times: The product. Arguments: " + json.dumps(SPECS["times"].parameters["properties"])


def turns(codec: Codec, call: ToolCall, question: str) -> list[Message]:
    """An example of a call in a loop's own format, after a list of tools."""
    reply = codec.render(Act("Next: find it.", (call,)))
    return [Message("user", f"{LISTING}\n{WORDS}\n\n{question}"), Message("assistant", reply.text, reply.calls)]


def covers(kind: str, examples: Sequence[Message]) -> bool:
    live = (Message("system", "Do it."), Message("user", "What is 7 times 9?"))
    return slip(kind).is_covered(PromptParts(live, examples))


each_wire = pytest.mark.parametrize("codec", WIRES.values(), ids=WIRES)


@each_wire
@LAW
@given(a=st.integers(1, 99), b=st.integers(1, 99) | st.floats(1, 99).map(lambda number: round(number, 2)), date=st.dates())
def test_a_call_as_it_was_asked_for_covers_its_kind_alone(codec: Codec, a: int, b: float, date: Any) -> None:
    asked, day = f"What is {a} times {b}?", f"What day is {date.isoformat()}?"
    spoiled = dict(slip("unit").spoiled(PlannedCall("x", "times", {"a": a, "b": b}, "x")).arguments)
    seats = ToolCall("seats", {"count": a})
    for kind, question, call, covered in (
        ("unit", asked, ToolCall("times", {"a": a, "b": b}), True),
        ("unit", asked, ToolCall("times", spoiled), False),
        ("unit", asked, seats, False),
        ("date", day, ToolCall("weekday", {"date": date.isoformat()}), True),
        ("date", day, ToolCall("weekday", {"date": date.strftime("%d/%m/%Y")}), False),
        ("date", day, ToolCall("times", {"a": 1, "b": 2}), False),
        ("step", asked, ToolCall("times", {"a": 1, "b": 2}), True),
        ("step", asked, seats, False),
    ):
        assert covers(kind, turns(codec, call, question)) is covered, (kind, call)


def test_a_list_of_tools_covers_nothing() -> None:
    listing = Message("user", f"{LISTING}\n{WORDS}\nWhat is 7 times 9 on 2026-05-03?")
    assert not any(covers(kind, [listing, Message("assistant", "63")]) for kind in ("unit", "date", "step"))


def test_a_result_that_happens_to_be_said_elsewhere_is_no_number_of_the_question() -> None:
    """0.5 * 0.06, both spoiled, gave 0.03, which stands in another question; the call of it shows nothing."""
    texts = [
        Message("user", "What is 50 times 6, and its square?"),
        Message("assistant", "", (NativeCall("1", "times", '{"a": 0.5, "b": 0.06}'),)),
        Message("tool", "[r:aaaaaa.bbbb] 0.03 [aaaaaa.bbbb:r]", call_id="1"),
        Message("assistant", "", (NativeCall("2", "times", '{"a": 0.03, "b": 0.03}'),)),
        Message("user", "What is 0.03 less than 2?"),
    ]
    assert not covers("unit", texts)


@pytest.mark.parametrize("codec", [codec for name, codec in WIRES.items() if name not in ("phased.select", "react_extract")])
def test_a_plain_answer_covers_answer_and_one_in_thousands_does_not(codec: Codec) -> None:
    def example(value: str) -> list[Message]:
        for move in answer_options("So.", value, 0.9):
            with suppress(Inexpressible):
                reply = codec.render(move)
                return [Message("user", "What?"), Message("assistant", reply.text, reply.calls)]
        raise AssertionError("no answer can be said")

    assert Slip("answer").is_covered(PromptParts((), example("42")))
    assert not Slip("answer").is_covered(PromptParts((), example("0.042 thousand")))
    assert not Slip("answer").is_covered(PromptParts(example("42")))  # the task's own messages are no examples
    tool_s = [Message("assistant", "", (NativeCall("1", "times", '{"a": 1, "b": 2}'),)), Message("tool", "42", call_id="1")]
    assert not Slip("answer").is_covered(PromptParts((), tool_s))


@LAW
@given(answer=st.integers(-(10**6), 10**6), query=st.text("What is 5 times 9?\n", max_size=20))
def test_labelled_examples_under_the_instructions_cover_the_answer_alone(answer: int, query: str) -> None:
    prompt = replace(own_prompt("Do it.", "reply"), demos=({"query": query, "answer": answer},))
    shown = PromptParts(
        (Message("system", f"{in_own_format(prompt).text}\nTools:\n{WORDS}"), Message("user", "What is 7 times 9?"))
    )
    assert Slip("answer").is_covered(shown)
    assert not any(slip(kind).is_covered(shown) for kind in ("unit", "date", "step"))
    assert EXAMPLES in shown.instructions
    in_words = replace(prompt, demos=({"query": query, "answer": in_thousands(answer or 1)},))
    assert not Slip("answer").is_covered(PromptParts((Message("system", in_own_format(in_words).text),)))


EXTREMES = ["[" * 5000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "1e999", "9" * 5000, "-."]


@LAW
@given(text=st.text() | st.text('{}[]"\\:,times 0123456789.', max_size=200) | st.sampled_from(EXTREMES))
def test_whatever_the_examples_hold_reading_them_never_fails(text: str) -> None:
    examples = [Message("user", text), Message("assistant", text, (NativeCall("1", "times", text),))]
    for kind in ("unit", "date", "step"):
        covers(kind, examples)
        assert text not in EXTREMES or not covers(kind, [Message("assistant", f"times {text}")])
    Slip("answer").is_covered(PromptParts((), examples))
    plan = Plan((PlannedCall("c1", "seats", {"count": 500}, "Count."),), Ref("c1"))
    (found,) = slips_of(plan, weak("unit").weaknesses, (0,), SPECS)  # a number beyond all bounds is passed over
    beyond = [Message("user", "Are there 1e999 seats? "), Message("assistant", 'seats({"count": 5})')]
    assert not found.is_covered(PromptParts((), beyond))


# --- the teachable profiles over the five designs ---


DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")
WHOLE = "stateless(history_as=messages, max_history_length=none)"
OTHER_FORMATS = ("bare(decision_format=native)", "bare(decision_format=fields)", WHOLE)
SLOW_FORMATS = tuple(pytest.param(design, marks=pytest.mark.slow) for design in OTHER_FORMATS)
DECIDES = {"bare": "decide", "finish": "decide", "phased": "select", "react_extract": "react", "stateless": "reasoner"}
"""Design → the predictor that decides on calls."""
STATES = DECIDES | {"phased": "answer", "react_extract": "extract"}
"""Design → the predictor that states the answer."""


def compared(folder: Path, suite: str, profile: str, *loops: str, **config: Any) -> list[float]:
    """Accuracy by loop."""
    made = CompareConfig(suite=suite, loops=loops, profiles=(profile,), runs=folder, mlflow=False, **config)
    experiment = prepare(made)
    assert run(experiment, Unwatched()) == ""
    arms = results(experiment.folder).to_json()["arms"]
    assert all(arm["scored"] == arm["trials"] for arm in arms)
    assert all(arm["faults"]["landed"] == arm["faults"]["scheduled"] for arm in arms)
    return [arm["accuracy"]["value"] for arm in arms]


def of(design: str) -> tuple[Any, Program]:
    loop: Any = make_loop(parse_spec(design), 12)
    return loop, cast(Optimizable, loop).predictors


def taught(design: str, *kinds: str, only: str | None = None) -> Any:
    """The design with hints under the instructions of one predictor, or of all."""
    loop, program = of(design)
    hints = "\n".join(CURES[kind].hint for kind in kinds)
    names = [only] if only is not None else list(program)
    return loop.with_predictors(
        {name: replace(program[name], instructions=f"{program[name].instructions}\n{hints}") for name in names}
    )


@cache
def suite_of(spec: str) -> Suite:
    return make_suite(parse_spec(spec))


def records(loop: Any, design: str, suite: Suite, tasks: list[Task], profile: str) -> list[Record]:
    arm = Arm(design, parse_spec(design), loop, "scripted", load_profile(profile))
    return [run_sync(run_trial(Trial(arm, task, 0, 0), TrialContext(suite))).record for task in tasks]


def accuracy(loop: Any, design: str, suite: Suite, tasks: list[Task], profile: str) -> float:
    made = records(loop, design, suite, tasks, profile)
    assert all(record.status == "scored" for record in made)
    return sum(record.accuracy for record in made) / len(made)


# --- through compare ---


@pytest.mark.parametrize(
    ("profile", "suite"), [("teachable", "arithmetic"), pytest.param("teachable-dates", "events", marks=pytest.mark.slow)]
)
@pytest.mark.thorough
def test_all_designs_fall_alike_and_instructions_lift_them_again(tmp_path: Path, profile: str, suite: str) -> None:
    designs = [WHOLE if design == "stateless" and suite == "events" else design for design in DESIGNS]
    files = []
    for design in designs:
        _, program = of(design)
        hints = "\n".join(CURES[weakness.kind].hint for weakness in load_profile(profile).weaknesses)
        file = tmp_path / f"{design[:9]}.json"
        state = {
            name: {"signature": {"instructions": f"{p.instructions}\n{hints}"}, "demos": list(p.demos)}
            for name, p in program.items()
        }
        file.write_text(json.dumps(state), encoding="utf-8")
        reseal(file)
        files.append(f"{design}@{file}")
    found = compared(tmp_path, suite, profile, *designs, *files, tasks=8)
    before, after = found[:5], found[5:]
    assert 0.35 <= before[0] <= 0.6
    assert before == [before[0]] * 5
    assert after == [1.0] * 5


# --- predictor by predictor ---


@pytest.mark.thorough
@pytest.mark.parametrize("design", [*DESIGNS, *SLOW_FORMATS])
def test_the_predictor_that_decides_needs_the_hint_about_calls(design: str) -> None:
    suite = suite_of("arithmetic(size=5)")
    tasks, name = list(suite.tasks), design.partition("(")[0]
    plain, _ = of(design)
    assert accuracy(plain, design, suite, tasks, "teachable") < 0.7
    calls = records(taught(design, "unit", only=DECIDES[name]), design, suite, tasks, "teachable")
    assert {fault.kind for record in calls for fault in record.faults} == {"weakness.answer"}
    answers = records(taught(design, "answer", only=STATES[name]), design, suite, tasks, "teachable")
    assert {fault.kind for record in answers for fault in record.faults} == {"weakness.unit"}
    assert accuracy(taught(design, "unit", "answer"), design, suite, tasks, "teachable") == 1.0
