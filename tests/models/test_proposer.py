"""The scripted proposal model: DSPy's own optimizers understand what it says, and it reads what they tell of failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
import pytest
from dspy.propose.dataset_summary_generator import DatasetDescriptor, DatasetDescriptorWithPriorObservations, ObservationSummarizer
from dspy.propose.grounded_proposer import GroundedProposer
from dspy.teleprompt.copro_optimizer import BasicGenerateInstruction, GenerateInstructionGivenAttempts
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from dspy.teleprompt.infer_rules import RulesInductionProgram
from dspy.teleprompt.simba_utils import OfferFeedback
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
INERT = [name for name in HINTS if name not in CURES]
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


# --- laws ---


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


def test_the_table_has_a_hint_for_each_weakness_and_some_that_help_against_none() -> None:
    assert [name for name in HINTS if name in CURES] == list(CURES)
    assert len(INERT) >= 3
    for name in INERT:
        assert not [kind for kind, cure in CURES.items() if cure.phrase.search(HINTS[name])]


# --- reading failures ---


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


@given(number=st.integers(-(10**6), 10**6), whole=st.booleans())
def test_a_hundredth_is_told_from_other_mistakes(number: int, whole: bool) -> None:
    was = int(number / 100) if whole else number / 100
    expected = ("unit",) if was != number else ()
    assert symptoms(f"Argument a of t was {json.dumps(was)}; the plan has {number}.") == expected
    assert symptoms(f"Argument a of t was {number * 7 + 1}; the plan has {number or 5}.") == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Argument a of t was true; the plan has 100.", ()),
        ('Argument a of t was "0.5"; the plan has "50".', ()),
        ('Argument a of t was "2026-05-03"; the plan has "2026-05-03".', ()),
        ('Argument a of t was {"b": 1}; the plan has [1].', ()),
        ("Argument a of t was 0.0…; the plan has 5.", ()),
        ("Argument a of t was null; the plan has null.", ()),
        ("Everything went as planned.", ()),
        ("The answer was 1.2, expected 1200.", ()),
        ('Argument a of t was {"on": ["01/02/2026"], "n": 5}; the plan has {"on": ["2026-02-01"], "n": 500}.', ("unit", "date")),
        pytest.param("The answer was a thousand " * 20_000, (), id="tried in all ways, this would take hours"),
        pytest.param("The answer was a thousand " * 20_000 + ", expected 5.", ("answer",), id="and this, too"),
    ],
)
def test_what_a_failure_tells(text: str, told: tuple[str, ...]) -> None:
    assert symptoms(text) == told


def test_a_hint_that_is_there_already_is_not_given_again() -> None:
    text = f"```\n{CURRENT}\n{HINTS['unit']}\n```\n{FEEDBACK['unit']}"
    new = ask(ScriptedProposer(), request(text))
    assert new.count(HINTS["unit"]) == 1
    assert 2 <= len(named(new) - {"unit"}) <= 3
    assert named(ask(ScriptedProposer(), request(f"{text}\n{FEEDBACK['date']}"))) == {"unit", "date"}


# --- DSPy's own signatures ---

ADAPTERS = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter}


def strict(name: str) -> Any:
    return dspy.JSONAdapter() if name == "json" else ADAPTERS[name](use_json_adapter_fallback=False)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_copro_the_first_proposals_and_the_later_ones_which_go_on_from_the_best(adapter: str) -> None:
    with asking(ScriptedProposer(), strict(adapter)):
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
        with asking(ScriptedProposer(), strict("chat")):
            made = dspy.Predict(GenerateInstructionGivenAttempts, n=3, temperature=1.4)(attempted_instructions=attempts)
        assert all(text.startswith(best) and named(text) and "Worse" not in text for text in made.completions.proposed_instruction)


class Worker(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.react = dspy.Predict(dspy.Signature("query, trajectory -> thought, name", CURRENT))
        self.extract = dspy.Predict("query, trajectory -> answer")

    def forward(self, query: str) -> Any:
        return self.extract(query=query, trajectory=self.react(query=query, trajectory="").thought)


TRAINSET = [dspy.Example(query=f"What is {number} times 2?", answer=2 * number).with_inputs("query") for number in range(25)]


def test_mipro_the_grounded_proposer(capsys: pytest.CaptureFixture[str]) -> None:
    program = Worker()
    demo = dspy.Example(augmented=True, query="What?", trajectory="", thought="so", name="times", answer=4)
    demos = {0: [[], [demo]], 1: [[], [demo]]}
    with asking(ScriptedProposer(), strict("chat")):
        proposer = GroundedProposer(
            prompt_model=dspy.settings.lm, program=program, trainset=TRAINSET, use_instruct_history=True, rng=None, verbose=False
        )
        assert proposer.program_aware
        assert proposer.data_summary
        found = proposer.propose_instructions_for_program(TRAINSET, program, demos, {}, 2)
    assert proposer.program_aware  # it is switched off where a description cannot be had
    assert "Error" not in capsys.readouterr().out
    assert [len(proposals) for proposals in found.values()] == [2, 2]
    assert all(text.startswith(CURRENT.splitlines()[0]) and "Keep this line's place." in text for text in found[0])
    assert all(named(text) for proposals in found.values() for text in proposals)


@pytest.mark.parametrize("signature", [DatasetDescriptor, DatasetDescriptorWithPriorObservations, ObservationSummarizer])
def test_mipro_the_summary_of_the_data(signature: Any) -> None:
    with asking(ScriptedProposer(), strict("chat")):
        made = dspy.Predict(signature)(**dict.fromkeys(signature.input_fields, "x"))
    assert all(len(value) > 20 for value in made.values())


@pytest.mark.parametrize("kind", FEEDBACK)
def test_gepa_reads_what_failed(kind: str) -> None:
    records = [
        {"Inputs": {"query": "What?"}, "Generated Outputs": {"reply": '{"a": 1}'}, "Feedback": "Everything went as planned."},
        {"Inputs": {"query": "Who?"}, "Generated Outputs": {"reply": "x"}, "Feedback": f"No answer: max_steps.\n{FEEDBACK[kind]}"},
    ]
    with asking(ScriptedProposer()):
        made = InstructionProposer()({"react": CURRENT, "extract": "x"}, {"react": records}, ["react"])
    assert made == {"react": f"{CURRENT}\n\n{HINTS[kind]}"}


@pytest.mark.parametrize("adapter", ["chat", "json"])
def test_simba_advice_for_every_module(adapter: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(OfferFeedback.input_fields, "x")
    fields |= {
        "worse_reward_info": json.dumps({"feedback": FEEDBACK["unit"]}, indent=2),
        "module_names": json.dumps(["react", "extract.predict"], indent=2),
        "worse_reward_value": "0.0",
    }
    with asking(ScriptedProposer(), strict(adapter)):
        made = dspy.Predict(OfferFeedback)(**fields)
    assert made.module_advice == {"react": HINTS["unit"], "extract.predict": HINTS["unit"]}
    assert made.discussion


def test_infer_rules_the_rules_are_hints_alone() -> None:
    with asking(ScriptedProposer(), strict("chat")):
        rules = RulesInductionProgram(num_rules=3)(f"Input Fields:\nquery: What is 3 times 2?\n\nOutput Fields:\nx: {CURRENT}")
    assert rules == "\n".join(HINTS[name] for name in HINTS if name in named(rules))
    assert named(rules)


def test_a_schema_without_dspy_is_filled_too_and_plain_text_gets_the_instruction_in_a_fence() -> None:
    schema = {"type": "object", "properties": {"new_instruction": {"type": "string"}, "score": {"type": "integer", "minimum": 3}}}
    made = json.loads(ask(ScriptedProposer(), request("Improve it.", response_schema=schema)))
    assert named(made["new_instruction"])
    assert made["score"] == 3
    text = ask(ScriptedProposer(), request(f"My instruction is:\n```\n{CURRENT}\n```\nWrite a better one within ``` blocks."))
    assert text.startswith(f"```\n{CURRENT}\n\n")
    assert text.endswith("\n```")
