"""Weaknesses: they show until the prompt covers them, in any loop's wire format, and nothing happens that is not noted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopbench.loops.bare_formats import FORMATS
from loopbench.loops.phased.codecs import SELECT
from loopbench.loops.react_extract import ReactCodec, ReactStep
from loopbench.loops.stateless.signatures import AgentReasonerSignature, decide_codec
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.scorers import scorer_named
from loopbench.models.faults import NOT_DETERMINED
from loopbench.models.native import NATIVE
from loopbench.models.profiles import WEAKNESS_KINDS, Profile, Weakness, built_in_profiles, load_profile
from loopbench.models.weaknesses import CURES, PlanWithSlips, ShownExample, Slip, in_thousands, shown_by, slips_of
from loopbench.protocol import (
    Act,
    Answer,
    Chunk,
    Codec,
    Message,
    NativeCall,
    Plan,
    PlannedCall,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    ToolCall,
    WrappedModel,
    run_sync,
)
from loopbench.protocol.names import parse_spec
from loopbench.protocol.program import EXAMPLES, in_own_format, own_prompt
from loopbench.runs.registry import generated_suites, make_loop

LAW = settings(max_examples=40, deadline=None)
KINDS = tuple(CURES)
ALL_HINTS = "\n".join(cure.hint for cure in CURES.values())
CODECS: dict[str, Codec | None] = {"native": None, "bare": FORMATS["json"]}


def times(a: float, b: float) -> float:
    """The product."""
    return round(a * b, 9)


def seats(count: int) -> int:
    """How many seats are left."""
    return 1000 - count


def weekday(date: str) -> str:
    """The day of the week."""
    if date.count("-") != 2:
        raise ValueError(f"{date!r} is no date")
    return f"day {date[-2:]}"


TOOLS = tuple(Tool.from_function(function, blocking=False) for function in (times, seats, weekday))
SPECS = {tool.name: tool.spec for tool in TOOLS}


def weak(*kinds: str, rate: float = 1.0, **more: Any) -> Profile:
    return Profile(name="weak", weaknesses=tuple(Weakness(kind=kind, rate=rate) for kind in kinds), bluff=0.0, **more)


class Told(WrappedModel):
    """A model whose every request begins with a system text and demonstrations."""

    def __init__(self, model: Any, text: str, examples: Sequence[Message] = ()) -> None:
        super().__init__(model)
        self.before = (Message("system", text), *examples)

    def _told(self, request: Request) -> Request:
        return replace(request, messages=(*self.before, *request.messages), examples=len(self.before) - 1)

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._told(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._told(request))


def told(wind: Any, text: str, examples: Sequence[Message] = ()) -> Any:
    wind.model = Told(wind.model, text, examples)
    return wind


def noted(wind: Any) -> list[tuple[str, str]]:
    """(kind, point) of each fault."""
    return [(fault.kind, str(fault.point)) for fault in wind.tunnel.disturbances]


def said(wind: Any) -> list[tuple[str, Any]]:
    return [(reply.text, reply.calls) for reply in wind.ear.replies]


def product(*, answer: Any = None, bench: Any) -> Plan:
    """200 * 3, and half of that."""
    first = bench.planned("c1", "times", a=200, b=3)
    second = bench.planned("c2", "times", a=Ref("c1"), b=0.5)
    return Plan((first, second), Ref("c2") if answer is None else answer)


# --- laws over any plan ---


@LAW
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_where_the_instructions_hold_every_hint_nothing_is_different(bench, data: st.DataObject, seed: int) -> None:
    plan, codec = data.draw(bench.plans()), data.draw(st.sampled_from(list(CODECS.values())))
    clean = told(bench.Bench(plan, Profile(name="c", bluff=0.0), seed=seed), ALL_HINTS)
    wind = told(bench.Bench(plan, weak(*KINDS), seed=seed), ALL_HINTS)
    assert run_sync(wind.run(codec=codec)) == run_sync(clean.run(codec=codec))
    assert said(wind) == said(clean)
    assert noted(wind) == []


@LAW
@given(data=st.data(), seed=st.integers(0, 10**6), kinds=st.sets(st.sampled_from(KINDS), min_size=1))
def test_what_is_not_noted_did_not_happen(bench, data: st.DataObject, seed: int, kinds: set[str]) -> None:
    plan, codec = data.draw(bench.plans()), data.draw(st.sampled_from(list(CODECS.values())))
    clean = bench.Bench(plan, Profile(name="c", bluff=0.0), seed=seed)
    wind = bench.Bench(plan, weak(*sorted(kinds)), seed=seed)
    answers = [run_sync(each.run(codec=codec)) for each in (wind, clean)]
    faults = noted(wind)
    assert len(faults) == len(set(faults))
    assert {kind for kind, _ in faults} <= {f"weakness.{kind}" for kind in kinds} <= WEAKNESS_KINDS.keys()
    assert all(fault.landed and not fault.absorbed and not fault.recovered for fault in wind.tunnel.disturbances)
    if not faults:
        assert answers[0] == answers[1]
        assert said(wind) == said(clean)


@LAW
@given(
    factors=st.lists(st.integers(1, 10**4), min_size=1, max_size=5, unique=True), linked=st.booleans(), seed=st.integers(0, 10**6)
)
def test_the_same_slips_whatever_the_format_and_scope(bench, factors: list[int], linked: bool, seed: int) -> None:
    calls = [
        bench.planned(f"c{place}", "times", a=factor, b=Ref(f"c{place - 1}") if linked and place else factor)
        for place, factor in enumerate(factors)
    ]
    slips = []
    for codec, scope in ((None, "x"), (None, ""), (FORMATS["json"], "")):
        plan = Plan(tuple(calls), Ref(calls[-1].id))
        wind = bench.Bench(plan, weak(*KINDS, rate=0.5), seed=seed, tools=TOOLS)
        run_sync(wind.run(codec=codec, scope=scope))
        slips.append(sorted(noted(wind)))
    assert slips[0] == slips[1] == slips[2]


@LAW
@given(data=st.data())
def test_demonstrations_are_not_the_task_at_hand(bench, data: st.DataObject) -> None:
    """Neither results, even with receipts of this very trial, nor goals nor the question count where they stand in an example."""
    plan = data.draw(bench.plans())
    plain, shown = bench.Bench(plan), bench.Bench(plan)
    results = [shown.results(name)[name] for name in plan_names(shown)]
    plain.results(*plan_names(plain))
    goals = [call.goal for call in plan.calls]
    texts = data.draw(st.permutations([*results, *goals, bench.QUESTION]))
    examples = tuple(Message(data.draw(st.sampled_from(("user", "assistant"))), text) for text in texts)
    live = data.draw(st.lists(st.sampled_from(results), unique=True)) if results else []
    role = data.draw(st.sampled_from((Role.DECIDE, Role.PLAN, Role.SELECT, Role.REASON, Role.REFLECT, Role.ANSWER)))
    codec = Saying(role)
    system = data.draw(st.sampled_from(((), (Message("system", "Do it."),))))
    asked = plain.request(*live, role=role, codec=codec)
    without = replace(asked, messages=(*system, *asked.messages))
    withal = replace(asked, messages=(*system, *examples, *asked.messages), examples=len(examples))
    assert run_sync(plain.scripted.complete(without)).text == run_sync(shown.scripted.complete(withal)).text


def plan_names(wind: Any) -> list[str]:
    return [call.id for call in wind.plan.calls]


class Saying:
    """A codec of any role whose reply is the move in Python's words."""

    name = "saying"
    max_calls = 8

    def __init__(self, role: Role) -> None:
        self.role = role

    def render(self, move: Any) -> Reply:
        return Reply(repr(move))

    def parse(self, reply: Reply) -> Any:
        raise AssertionError("nobody reads these")


def test_a_question_that_only_an_example_shows_is_not_asked(bench) -> None:
    wind = bench.Bench(bench.chain(1))
    example = Message("user", bench.QUESTION)
    request = Request(
        (Message("system", "Do it."), example, Message("user", "Well?")), wind.toolbox.specs, codec=Saying(Role.DECIDE)
    )
    at_a_loss = replace(request, examples=1)
    wind.scripted.script = replace(wind.scripted.script, question=bench.QUESTION)
    assert "Act" in run_sync(wind.scripted.complete(request)).text
    assert NOT_DETERMINED in run_sync(wind.scripted.complete(at_a_loss)).text


ROLES = st.sampled_from(("user", "assistant", "system"))


@given(examples=st.lists(ROLES, max_size=4), after=st.lists(ROLES, max_size=3), system=st.booleans())
def test_examples_stand_behind_the_system_message_that_begins_the_request_or_first(
    examples: list[Any], after: list[Any], system: bool
) -> None:
    """A system message further down, of a demonstration or of the user's history, moves nothing."""
    assume(system or (examples + after)[:1] != ["system"])
    head = [Message("system", "text")] if system else []
    shown = [Message(role, f"example {number}") for number, role in enumerate(examples)]
    rest = [Message(role, f"live {number}") for number, role in enumerate(after)]
    split = shown_by(Request((*head, *shown, *rest), examples=len(shown)))
    assert list(split.examples) == shown
    assert list(split.live) == [*head, *rest]


# --- what each kind does ---


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_unit_numbers_are_a_hundredth_and_the_result_is_believed(bench, codec: Codec | None) -> None:
    wind = bench.Bench(product(bench=bench), weak("unit"), tools=TOOLS)
    assert float(run_sync(wind.run(codec=codec))) == pytest.approx(2 * 0.03 * 0.005)
    assert [dict(call.arguments) for call, _, _ in wind.ear.tool_calls] == [{"a": 2, "b": 0.03}, {"a": 0.06, "b": 0.005}]
    assert noted(wind) == [("weakness.unit", "decide:c1"), ("weakness.unit", "decide:c2")]


def test_unit_leaves_a_whole_number_whole(bench) -> None:
    plan = Plan((bench.planned("c1", "seats", count=550), bench.planned("c2", "seats", count=7)), Ref("c1"))
    wind = bench.Bench(plan, weak("unit"), tools=TOOLS)
    assert run_sync(wind.run()) == "995"
    assert [dict(call.arguments) for call, _, _ in wind.ear.tool_calls] == [{"count": 5}, {"count": 0}]


def test_unit_of_one_tool_leaves_the_others_alone(bench) -> None:
    plan = Plan((bench.planned("c1", "seats", count=500), bench.planned("c2", "times", a=Ref("c1"), b=2)), Ref("c2"))
    profile = Profile(name="weak", weaknesses=(Weakness(kind="unit", rate=1, tool="times"),))
    wind = bench.Bench(plan, profile, tools=TOOLS)
    assert run_sync(wind.run()) == "10.0"
    assert noted(wind) == [("weakness.unit", "decide:c2")]


def test_date_has_the_day_first_and_no_error_message_cures_it(bench) -> None:
    plan = Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1"))
    wind = bench.Bench(plan, weak("date"), tools=TOOLS)
    assert run_sync(wind.run()) == NOT_DETERMINED
    assert {call.arguments["date"] for call, _, _ in wind.ear.tool_calls} == {"03/05/2026"}
    assert noted(wind) == [("weakness.date", "decide:c1")]


def test_step_the_last_call_is_forgotten_and_its_result_made_up(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("step"), tools=TOOLS)
    assert run_sync(wind.run()) == "4711"
    assert [call.arguments["a"] for call, _, _ in wind.ear.tool_calls] == [200]
    assert noted(wind) == [("weakness.step", "decide:c2")]


def test_step_of_a_tool_that_others_build_on(bench) -> None:
    plan = Plan((bench.planned("c1", "seats", count=1), bench.planned("c2", "times", a=Ref("c1"), b=2)), Ref("c2"))
    wind = bench.Bench(plan, Profile(name="weak", weaknesses=(Weakness(kind="step", rate=1, tool="seats"),)), tools=TOOLS)
    assert run_sync(wind.run()) == "9422.0"
    assert noted(wind) == [("weakness.step", "decide:c1")]


def test_step_is_forgotten_by_who_chooses_the_calls_and_by_no_planner(bench) -> None:
    plan = Plan((bench.planned("c1", "times", a=1, b=2), bench.planned("c2", "seats", count=3)), Ref("c2"))
    wind = bench.Bench(plan, Profile(name="weak", weaknesses=(Weakness(kind="step", rate=1, tool="seats"),)), tools=TOOLS)
    planned, chosen, forgotten = (
        ask(wind, "", *goal, role=role).text
        for role, goal in ((Role.PLAN, ()), (Role.SELECT, ("Find c1.",)), (Role.SELECT, ("Find c2.",)))
    )
    assert "Find c1." in planned
    assert "Find c2." in planned
    assert "times" in chosen
    assert "calls=()" in forgotten
    assert "done=True" in ask(wind, "", *wind.results("c1").values(), role=Role.REFLECT).text


def test_step_is_noted_where_an_answer_is_stated_without_it(bench) -> None:
    """As by a predictor that only states answers."""
    wind = bench.Bench(product(bench=bench), weak("step"), tools=TOOLS)
    assert "4711" in ask(wind, "", *wind.results("c1").values(), role=Role.ANSWER).text
    assert noted(wind) == [("weakness.step", "answer:c2")]
    unasked = bench.Bench(product(bench=bench), weak("step"), tools=TOOLS)
    assert NOT_DETERMINED in ask(unasked, "", role=Role.ANSWER).text
    assert noted(unasked) == []


def test_step_is_noted_as_soon_as_the_call_is_left_out(bench) -> None:
    """Of several calls that could be made at once one is missing."""
    plan = Plan((bench.planned("c1", "seats", count=1), bench.planned("c2", "times", a=2, b=3)), Ref("c2"))
    wind = bench.Bench(plan, weak("step"), tools=TOOLS)
    assert "times" not in ask(wind, "").text
    assert noted(wind) == [("weakness.step", "decide:c2")]


def test_step_an_answer_that_names_no_result_comes_out_wrong_too(bench) -> None:
    wind = bench.Bench(product(bench=bench, answer=300), weak("step"), tools=TOOLS)
    assert run_sync(wind.run()) not in ("300", NOT_DETERMINED)


def test_answer_is_stated_in_thousands(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("answer"), tools=TOOLS)
    assert run_sync(wind.run()) == "0.3 thousand"
    assert noted(wind) == [("weakness.answer", "decide:answer")]


@given(number=st.integers(-(10**12), 10**12) | st.floats(-1e12, 1e12))
def test_a_number_in_thousands_is_wrong_to_a_scorer(number: float) -> None:
    assume(abs(number) > 1e-6)
    task: Any = type("T", (), {"expected": number})
    assert scorer_named("numeric")(Judgement(task, str(number), "finished")) == 1
    assert scorer_named("numeric")(Judgement(task, in_thousands(number), "finished")) == 0


@pytest.mark.parametrize("value", [0, True, "12 eggs", None, [5], {"a": 5}])
def test_what_is_no_number_is_stated_as_it_is(value: Any) -> None:
    assert in_thousands(value) is value


def test_an_answer_of_a_prescribed_form_does_not_slip(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("answer"), tools=TOOLS)
    free = replace(wind.scripted.script, words=False)
    assert [slip.kind for slip in type(wind.scripted)(free)._course.slips] == []
    assert [slip.kind for slip in wind.scripted._course.slips] == ["answer"]


def test_a_weakness_with_nothing_to_spoil_never_shows(bench) -> None:
    plan = Plan((bench.planned("c1", "weekday", date="today"),), Ref("c1"))
    weaknesses = weak("unit", "date").weaknesses
    assert slips_of(plan, weaknesses, (0, "t", 0), SPECS) == ()
    assert slips_of(Plan((), 5), weak("step").weaknesses, (0, "t", 0), SPECS) == ()
    assert slips_of(plan, (Weakness(kind="step", rate=1, tool="times"),), (0, "t", 0), SPECS) == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8, 1.0])
def test_the_rate_is_the_share_of_trials(bench, kind: str, rate: float) -> None:
    plan = Plan((bench.planned("c1", "weekday", date="2026-05-03"), bench.planned("c2", "times", a=2, b=3)), Ref("c2"))
    weaknesses = weak(kind, rate=rate).weaknesses
    shown = sum(bool(slips_of(plan, weaknesses, (1, f"task {number % 100}", number // 100), SPECS)) for number in range(2000))
    assert shown / 2000 == pytest.approx(rate, abs=0.04)


# --- what covers a weakness: instructions ---

PLANS: dict[str, Callable[[Any], Plan]] = {
    "unit": lambda bench: product(bench=bench),
    "date": lambda bench: Plan((bench.planned("c1", "weekday", date="2026-05-03"),), Ref("c1")),
    "step": lambda bench: product(bench=bench),
    "answer": lambda bench: product(bench=bench),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", KINDS)
def test_a_hint_cures_its_own_kind_and_no_other(bench, kind: str, hint: str) -> None:
    wind = told(bench.Bench(PLANS[kind](bench), weak(kind), tools=TOOLS), f"Solve it.\n{CURES[hint].hint}\nTools follow.")
    answer = run_sync(wind.run())
    assert (answer == wind.expected) is (kind == hint)
    assert bool(noted(wind)) is (kind != hint)


def test_what_the_model_or_a_tool_says_covers_nothing(bench) -> None:
    hint = CURES["unit"].hint
    slip = Slip("unit")
    assert slip.is_covered(ShownExample((Message("user", hint),)))
    assert not slip.is_covered(ShownExample((Message("assistant", hint), Message("tool", hint, call_id="1"))))


@pytest.mark.parametrize("suite", sorted(generated_suites()))
def test_no_suite_says_a_hint_by_chance(suite: str) -> None:
    loaded = generated_suites()[suite].suite(None, 0)
    environment = loaded.open(loaded.tasks[0])
    texts = [json.dumps([tool.name, tool.description, tool.parameters]) for tool in environment.tools]
    environment.close()
    texts += [task.query.full_text for task in loaded.tasks]
    texts += [call.goal for task in loaded.tasks if task.plan is not None for call in task.plan.calls]
    assert not [text for text in texts for cure in CURES.values() if cure.phrase.search(text)]


@pytest.mark.parametrize("loop", ["bare", "finish", "phased", "react_extract", "stateless", "bare(decision_format=native)"])
def test_no_design_says_a_hint_by_itself(bench, loop: str) -> None:
    made: Any = make_loop(parse_spec(loop), 5)
    texts = [prompt.instructions for prompt in made.predictors.values()]
    assert texts
    assert not [text for text in texts for cure in CURES.values() if cure.phrase.search(text)]


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
    "stateless": decide_codec(AgentReasonerSignature),
}
LISTING = json.dumps([{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in TOOLS])
WORDS = "- times: The product. Arguments: " + json.dumps(SPECS["times"].parameters["properties"])


def turns(codec: Codec, call: ToolCall, question: str) -> list[Message]:
    """An example of a call in a loop's own format, after a list of tools."""
    reply = codec.render(Act("Next: find it.", (call,)))
    return [Message("user", f"{LISTING}\n{WORDS}\n\n{question}"), Message("assistant", reply.text, reply.calls)]


def nested(codec: Codec, call: ToolCall, question: str) -> list[Message]:
    """The same as a conversation in JSON, as a field of an example of another format."""
    own = own_prompt("Do it.", "reply")
    reply = codec.render(Act("Next: find it.", (call,)))
    said = json.dumps({"text": reply.text, "calls": [{"name": c.name, "arguments": c.arguments} for c in reply.calls]})
    text = json.dumps([{"role": "user", "content": f"{LISTING}\n{WORDS}\n\n{question}"}])
    prompt = replace(own, demos=({"conversation": json.dumps([{"role": "user", "content": f"{text} {said}"}]), "reply": "So."},))
    return list(in_own_format(prompt).turns)


def slip(kind: str) -> Slip:
    plan = Plan(
        (
            PlannedCall("c1", "times", {"a": 7, "b": 9}, "Multiply."),
            PlannedCall("c2", "weekday", {"date": "2020-01-02"}, "Find the day."),
        ),
        Ref("c1"),
    )
    tool = "weekday" if kind == "date" else "times"
    (found,) = slips_of(plan, (Weakness(kind=kind, rate=1, tool=tool),), (0,), SPECS)
    return found


def covers(kind: str, examples: Sequence[Message]) -> bool:
    return slip(kind).is_covered(ShownExample((Message("system", "Do it."), Message("user", "What is 7 times 9?")), examples))


@pytest.mark.parametrize("made", [turns, nested])
@pytest.mark.parametrize("wire", WIRES)
@LAW
@given(a=st.integers(1, 99), b=st.integers(1, 99) | st.floats(1, 99).map(lambda number: round(number, 2)))
def test_numbers_as_they_were_said_cover_unit_and_a_hundredth_does_not(made: Any, wire: str, a: int, b: float) -> None:
    question = f"What is {a} times {b}?"
    assert covers("unit", made(WIRES[wire], ToolCall("times", {"a": a, "b": b}), question))
    spoiled = dict(slip("unit").spoiled(PlannedCall("x", "times", {"a": a, "b": b}, "x")).arguments)
    assert not covers("unit", made(WIRES[wire], ToolCall("times", spoiled), question))
    assert not covers("unit", made(WIRES[wire], ToolCall("seats", {"count": a}), question))


@pytest.mark.parametrize("made", [turns, nested])
@pytest.mark.parametrize("wire", WIRES)
@LAW
@given(date=st.dates())
def test_dates_with_the_year_first_cover_date_and_others_do_not(made: Any, wire: str, date: Any) -> None:
    question = f"What day is {date.isoformat()}?"
    assert covers("date", made(WIRES[wire], ToolCall("weekday", {"date": date.isoformat()}), question))
    assert not covers("date", made(WIRES[wire], ToolCall("weekday", {"date": date.strftime("%d/%m/%Y")}), question))
    assert not covers("date", made(WIRES[wire], ToolCall("times", {"a": 1, "b": 2}), question))


@pytest.mark.parametrize("made", [turns, nested])
@pytest.mark.parametrize("wire", WIRES)
def test_any_call_of_the_tool_covers_step_and_a_list_of_tools_none(made: Any, wire: str) -> None:
    assert covers("step", made(WIRES[wire], ToolCall("times", {"a": 1, "b": 2}), "So?"))
    assert not covers("step", made(WIRES[wire], ToolCall("seats", {"count": 1}), "So?"))
    for kind in ("unit", "date", "step"):
        assert not covers(
            kind, [Message("user", f"{LISTING}\n{WORDS}\nWhat is 7 times 9 on 2026-05-03?"), Message("assistant", "63")]
        )


@pytest.mark.parametrize(
    "text",
    [
        'times({"a": 7, "b": 9})',
        '<next_tool_name>times</next_tool_name>\n<next_tool_args>{"a": 7, "b": 9}</next_tool_args>',
        '{"arguments": {"a": 7, "b": 9}, "name": "times"}',
        'Tool: times\nInput: {"a": 7, "b": 9}',
    ],
)
def test_other_ways_to_write_a_call(text: str) -> None:
    for kind in ("unit", "step"):
        assert covers(kind, [Message("user", "What is 7 times 9?"), Message("assistant", text)])


def test_a_result_that_happens_to_be_said_elsewhere_is_no_number_of_the_question(bench) -> None:
    """0.5 * 0.06, both spoiled, gave 0.03, which stands in another question; the call of it shows nothing."""
    texts = [
        Message("user", "What is 50 times 6, and its square?"),
        Message("assistant", "", (NativeCall("1", "times", '{"a": 0.5, "b": 0.06}'),)),
        Message("tool", "0.03 [r:aaaaaa.bbbb]", call_id="1"),
        Message("assistant", "", (NativeCall("2", "times", '{"a": 0.03, "b": 0.03}'),)),
        Message("user", "What is 0.03 less than 2?"),
    ]
    assert not covers("unit", texts)


ANSWERS = {
    "labelled": [
        Message("user", "[[ ## query ## ]]\nWhat?"),
        Message("assistant", "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"),
    ],
    "bare": [Message("user", "What?"), Message("assistant", '{"final_answer": "42"}')],
    "fields": [Message("user", "What?"), Message("assistant", "Thought: so\nAnswer: 42")],
    "finish": [Message("user", "What?"), Message("assistant", "", (NativeCall("1", "__finish__", '{"answer": 42}'),))],
    "xml": [Message("user", "What?"), Message("assistant", "<output><answer>42</answer></output>")],
    "stateless": [Message("assistant", '[[ ## reasoning_output ## ]]\n{"final_response": "42", "confidence": 0.9}')],
    "text": [Message("user", "What?"), Message("assistant", "42")],
}


@pytest.mark.parametrize("form", ANSWERS)
def test_a_plain_answer_covers_answer_and_one_in_thousands_does_not(form: str) -> None:
    def changed(text: str) -> str:
        quoted = '"0.042 thousand"' if '"answer": 42' in text else "0.042 thousand"
        return text.replace("42", quoted)

    assert Slip("answer").is_covered(ShownExample((), ANSWERS[form]))
    spoiled = [
        Message(m.role, changed(m.content), tuple(NativeCall(c.id, c.name, changed(c.arguments)) for c in m.calls))
        for m in ANSWERS[form]
    ]
    assert not Slip("answer").is_covered(ShownExample((), spoiled))
    assert not Slip("answer").is_covered(ShownExample(ANSWERS[form]))  # the task's own messages are no examples


def test_a_tool_s_number_is_no_answer() -> None:
    example = [Message("assistant", "", (NativeCall("1", "times", '{"a": 1, "b": 2}'),)), Message("tool", "42", call_id="1")]
    assert not Slip("answer").is_covered(ShownExample((), example))


@LAW
@given(answer=st.integers(-(10**6), 10**6), query=st.text("What is 5 times 9?\n", max_size=20))
def test_labelled_examples_under_the_instructions_cover_the_answer_alone(answer: int, query: str) -> None:
    prompt = replace(own_prompt("Do it.", "reply"), demos=({"query": query, "answer": answer},))
    shown = ShownExample(
        (Message("system", f"{in_own_format(prompt).text}\nTools:\n{WORDS}"), Message("user", "What is 7 times 9?"))
    )
    assert Slip("answer").is_covered(shown)
    assert not any(slip(kind).is_covered(shown) for kind in ("unit", "date", "step"))
    assert EXAMPLES in shown.told
    in_words = replace(prompt, demos=({"query": query, "answer": in_thousands(answer or 1)},))
    assert not Slip("answer").is_covered(ShownExample((Message("system", in_own_format(in_words).text),)))


@LAW
@given(text=st.text() | st.text('{}[]"\\:,times 0123456789.', max_size=200))
def test_whatever_the_examples_hold_reading_them_never_fails(text: str) -> None:
    examples = [Message("user", text), Message("assistant", text, (NativeCall("1", "times", text),))]
    for kind in ("unit", "date", "step"):
        covers(kind, examples)
    Slip("answer").is_covered(ShownExample((), examples))


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "1e999", "9" * 5000, "-."])
def test_reading_examples_copes_with_extremes(text: str) -> None:
    for kind in ("unit", "date", "step"):
        assert not covers(kind, [Message("assistant", f"times {text}")])


def test_a_number_beyond_all_bounds_is_passed_over() -> None:
    plan = Plan((PlannedCall("c1", "seats", {"count": 500}, "Count."),), Ref("c1"))
    (found,) = slips_of(plan, weak("unit").weaknesses, (0,), SPECS)
    examples = [Message("user", "Are there 1e999 seats? "), Message("assistant", 'seats({"count": 5})')]
    assert not found.is_covered(ShownExample((), examples))


# --- several predictors in one trial ---


def ask(wind: Any, text: str, *results: str, role: Role = Role.DECIDE) -> Reply:
    request = wind.request(*results, role=role, codec=Saying(role))
    return run_sync(Told(wind.model, text).complete(request))


def test_a_request_without_the_hint_goes_on_with_what_another_has_made_right(bench) -> None:
    """One predictor decides with the hint, another states the answer without it."""
    wind = bench.Bench(product(bench=bench), weak("unit", "step"), tools=TOOLS)
    results = wind.results()
    shown = tuple(results.values())
    assert "300.0" in ask(wind, "", *shown, role=Role.ANSWER).text
    assert noted(wind) == []


def test_a_call_s_slip_is_recovered_when_the_right_call_is_made_later(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("unit"), tools=TOOLS)
    assert "'a': 2" in ask(wind, "").text
    ask(wind, CURES["unit"].hint)
    wind.results("c1")
    wind.tunnel.settle(wind.oracle)
    assert [(fault.kind, fault.landed, fault.recovered) for fault in wind.tunnel.disturbances] == [("weakness.unit", True, True)]


def test_an_answer_s_slip_is_recovered_when_the_answer_is_stated_right(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("answer"), tools=TOOLS)
    shown = tuple(wind.results().values())
    recovered = []
    for text in ("", CURES["answer"].hint, ""):
        ask(wind, text, *shown, role=Role.ANSWER)
        recovered.append([fault.recovered for fault in wind.tunnel.disturbances])
    assert recovered == [[False], [True], [False]]


def test_a_reply_that_the_provider_lost_has_not_slipped(bench) -> None:
    profile = weak("unit", rates={"provider.server": 1.0}, clears={"feedback": 0, "after": 1, "never": 0, "attempts": 1})
    wind = bench.Bench(Plan((bench.planned("c1", "times", a=200, b=3),), Ref("c1")), profile, tools=TOOLS)
    kinds = []
    original = wind.model.complete

    async def complete(request: Request) -> Reply:
        try:
            reply: Reply = await original(request)
            return reply
        finally:
            kinds.append(sorted(kind for kind, _ in noted(wind)))

    wind.model.complete = complete
    run_sync(wind.run())
    assert kinds[0] == ["provider.server"]
    assert "weakness.unit" in kinds[1]


def test_a_course_keeps_its_planned_calls(bench) -> None:
    """They are known by identity, so one request must not see other objects than the next."""
    plan = product(bench=bench)
    course = PlanWithSlips(plan, slips_of(plan, weak("unit").weaknesses, (0,), SPECS))
    shown = ShownExample((Message("user", "What?"),))
    assert course.at(shown, {}) is course.at(shown, {})
    assert course.at(ShownExample((Message("system", CURES["unit"].hint),)), {}).plan is plan
    assert PlanWithSlips(plan, ()).at(shown, {}).plan is plan


def test_the_reply_is_marked_with_the_slip(bench) -> None:
    wind = bench.Bench(product(bench=bench), weak("unit"), tools=TOOLS)
    run_sync(wind.run())
    assert [fault for _, _, _, fault in wind.ear.exchanges] == ["weakness.unit", "weakness.unit", None]


def test_an_answer_move_without_a_value_is_no_slip_of_form(bench) -> None:
    plan = product(bench=bench)
    course = PlanWithSlips(plan, slips_of(plan, weak("answer").weaknesses, (0,), SPECS))
    followed = course.at(ShownExample((Message("user", "What?"),)), {})
    assert followed.slipped((), Answer("done", None), is_informed=True) == set()
    assert followed.slipped((), Answer("done", "0.3 thousand"), is_informed=True) == {("answer", "answer")}


# --- profiles ---


def test_the_built_in_profiles_with_weaknesses_say_that_they_simulate() -> None:
    with_weaknesses = [name for name in built_in_profiles() if load_profile(name).weaknesses]
    assert with_weaknesses == ["teachable", "teachable-dates", "teachable-flaky"]
    for name in with_weaknesses:
        profile = load_profile(name)
        assert profile.description.startswith("A simulation")
        assert not profile.is_clean
        assert bool(profile.rates) is (name == "teachable-flaky")
