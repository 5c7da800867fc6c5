"""The scripted proposal model: DSPy's own optimizers understand what it says, and it reads what they tell of failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
import pytest
from dspy.teleprompt.copro_optimizer import BasicGenerateInstruction, GenerateInstructionGivenAttempts
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.dspy_seam import lm_of
from whichloop.models.proposer import HINTS, ScriptedProposer, symptoms
from whichloop.models.weaknesses import CURES
from whichloop.protocol import Message, Request, Sampling, run_sync

CURRENT = "You solve tasks step by step with tools.\nReply with one JSON object and nothing else.\n\n    Keep this line's place."
FEEDBACK = {
    "unit": "Argument b of times was 0.03; the plan has 3.",
    "date": 'Argument date of book seats was "03/05/2026"; the plan has "2026-05-03".',
    "step": 'The plan\'s call times({"a": 1, "b": "<result of add>"}) was never made.',
    "answer": 'The answer was "1.2 thousand", expected 1200.',
}
LAW = settings(max_examples=cases(25), deadline=None)


@contextmanager
def asking(proposer: ScriptedProposer, adapter: Any = None) -> Iterator[None]:
    with dspy.context(lm=lm_of(proposer), adapter=adapter or dspy.ChatAdapter(), disable_history=True):
        yield


def named(text: str) -> set[str]:
    """The hints in a text."""
    return {name for name, hint in HINTS.items() if hint in text}


def request(text: str, system: str = "", **more: Any) -> Request:
    return Request((*([Message("system", system)] if system else []), Message("user", text)), **more)


def ask(proposer: ScriptedProposer, asked: Request) -> str:
    return run_sync(proposer.complete(asked)).text


@LAW
@given(
    texts=st.lists(st.text() | st.sampled_from([CURRENT, "Your output fields are:", "1. `x` (str): ", '[[ ## x ## ]]\n{"a": 1}'])),
    roles=st.lists(st.sampled_from(("system", "user", "assistant"))),
    temperature=st.none() | st.floats(),
    schema=st.none() | st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(), st.lists)),
)
def test_it_answers_whatever_it_is_asked(texts: list[str], roles: list[Any], temperature: float | None, schema: Any) -> None:
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))
    asked = Request(messages, response_schema=schema, sampling=Sampling(temperature))
    reply = run_sync(ScriptedProposer().complete(asked))
    assert reply.usage is not None
    assert reply.usage.estimated
    assert not reply.calls


@LAW
@given(name=st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True), body=st.text(max_size=50), schema=st.none() | st.booleans())
def test_a_request_of_dspy_s_form_gets_every_field(name: str, body: str, schema: Any) -> None:
    system = f"Your input fields are:\n1. `x` (str):\nYour output fields are:\n1. `{name}` (str): {body}"
    system += f"\nAll interactions will be structured\n\n[[ ## {name} ## ]]\n{{{name}}}\n\n[[ ## completed ## ]]"
    text = ask(ScriptedProposer(), request(f"[[ ## x ## ]]\n{body}", system))
    assert text.startswith(f"[[ ## {name} ## ]]\n")
    assert text.endswith("[[ ## completed ## ]]")


@LAW
@given(seed=st.integers(), bodies=st.lists(st.sampled_from(["one", "two", "three"]), max_size=12))
def test_equal_seed_and_history_give_equal_replies(seed: int, bodies: list[str]) -> None:
    one, other = ScriptedProposer(seed), ScriptedProposer(seed)
    assert [ask(one, request(body)) for body in bodies] == [ask(other, request(body)) for body in bodies]


def test_the_same_request_again_is_answered_otherwise_also_after_what_was_answered_from_a_log() -> None:
    whole = ScriptedProposer(3)
    replies = [ask(whole, request("Improve it.")) for _ in range(20)]
    assert len(set(replies)) > 5
    assert len({ask(ScriptedProposer(seed), request("Improve it.")) for seed in range(20)}) > 1
    for skipped in range(5):
        resumed = ScriptedProposer(3)
        for _ in range(skipped):
            resumed.skip(request("Improve it."))
        assert [ask(resumed, request("Improve it.")) for _ in range(20 - skipped)] == replies[skipped:]


@pytest.mark.parametrize("kind", FEEDBACK)
@pytest.mark.parametrize("form", ["plain", "json", "json in json"])
def test_each_sentence_of_feedback_tells_its_weakness(kind: str, form: str) -> None:
    text = f"Tool book failed: no.\n{FEEDBACK[kind]}\nThe reply could not be read: no JSON."
    for _ in range(["plain", "json", "json in json"].index(form)):
        text = json.dumps([{"Feedback": text}])
    asked = request(f"```\n{CURRENT}\n```\n{text}")
    assert named(ask(ScriptedProposer(), asked)) == {kind}


@given(
    kinds=st.sets(st.sampled_from(sorted(FEEDBACK))),
    noise=st.permutations(["Everything went as planned.", "No answer: max_steps."]),
)
def test_symptoms_are_the_weaknesses_told(kinds: set[str], noise: list[str]) -> None:
    assert symptoms("\n".join([*(FEEDBACK[kind] for kind in kinds), *noise])) == tuple(kind for kind in CURES if kind in kinds)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Argument a of t was true; the plan has 100.", ()),
        ('Argument a of t was "0.5"; the plan has "50".', ()),
        ('Argument a of t was {"b": 1}; the plan has [1].', ()),
        ("The answer was 1.2, expected 1200.", ()),
        ('Argument a of t was {"on": ["01/02/2026"], "n": 5}; the plan has {"on": ["2026-02-01"], "n": 500}.', ("unit", "date")),
        pytest.param("The answer was a thousand " * 20_000 + ", expected 5.", ("answer",), id="and this, too"),
    ],
)
def test_what_a_failure_tells(text: str, told: tuple[str, ...]) -> None:
    assert symptoms(text) == told


STRICT = dspy.ChatAdapter(use_json_adapter_fallback=False)


def test_copro_the_first_proposals_and_the_later_ones_which_go_on_from_the_best() -> None:
    with asking(ScriptedProposer(), STRICT):
        made = dspy.Predict(BasicGenerateInstruction, n=6, temperature=1.4)(basic_instruction=CURRENT)
    proposed = made.completions.proposed_instruction
    assert len(proposed) == len(made.completions.proposed_prefix_for_output_field) == 6
    assert all(text.startswith(CURRENT) and named(text) for text in proposed)
    assert len(set(proposed)) > 1
    assert all(made.completions.proposed_prefix_for_output_field)
    for best in (CURRENT, "One line only.", "With a »quote« in it."):
        attempts = [
            f"Instruction #1: {CURRENT} Worse.", "Prefix #1: Reply:", "Resulting Score #1: 20.0",
            f"Instruction #2: {best}", "Prefix #2: Reply:", "Resulting Score #2: 40.0",
        ]  # fmt: skip
        with asking(ScriptedProposer(), STRICT):
            made = dspy.Predict(GenerateInstructionGivenAttempts, n=3, temperature=1.4)(attempted_instructions=attempts)
        assert all(text.startswith(best) and named(text) and "Worse" not in text for text in made.completions.proposed_instruction)


@pytest.mark.parametrize("kind", FEEDBACK)
def test_gepa_reads_what_failed(kind: str) -> None:
    records = [
        {"Inputs": {"query": "What?"}, "Generated Outputs": {"reply": '{"a": 1}'}, "Feedback": "Everything went as planned."},
        {"Inputs": {"query": "Who?"}, "Generated Outputs": {"reply": "x"}, "Feedback": f"No answer: max_steps.\n{FEEDBACK[kind]}"},
    ]
    with asking(ScriptedProposer()):
        made = InstructionProposer()({"react": CURRENT, "extract": "x"}, {"react": records}, ["react"])
    assert made == {"react": f"{CURRENT}\n\n{HINTS[kind]}"}
