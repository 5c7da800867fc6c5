"""A mistake is judged by what the new text of a retry says, at three levels, and a loop that says more mends more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import spoiled_reply
from whichloop.models.feedback import (
    FaultSigns,
    Level,
    level_shown,
    signs_of_decision,
    signs_of_wire,
    texts_apart,
    words_of,
)
from whichloop.models.profiles import Clears, Profile
from whichloop.protocol import Act, Answer, Message, NativeCall, Reply, Request, Sampling, ToolCall, WireError, run_sync

from . import bench

BEFORE = Request((Message("system", "Reply with JSON."), Message("user", "What is 1 + 1?")))
MOVE = Act("Next: find c1.", (ToolCall("add", {"first": 1, "second": 1}),))
SPOILED = spoiled_reply("wire.malformed", CODEC, MOVE, CODEC.render(MOVE))[0]
MEANT = Act("", (ToolCall("power", {"base": 2, "exponent": 3}),))
OTHER = ToolCall("power_v2", {"base": 2, "exponent": 3})
TOLD = "ToolUnavailable service unavailable, try again"
MARKED = "[r:0abc12.12ab] 8 [0abc12.12ab:r]"
GOOD = (
    Request((Message("user", "What is 2 + 2?"),)),
    Request((Message("user", "What is 2 + 2?"), Message("user", "Observation: 4"))),
    Reply("add 2 2"),
)


def request(*contents: str) -> Request:
    return Request(tuple(Message("user", text) for text in contents))


def after(*texts: str) -> Request:
    return Request((*BEFORE.messages, *(Message("user", text) for text in texts)))


def error_of(reply: Reply) -> str:
    with pytest.raises(WireError) as raised:
        CODEC.parse(reply)
    return str(raised.value)


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        ((), "nothing"),
        ((SPOILED.text,), "nothing"),
        (("7 of 10",), "failed"),
        (("Observation: 7",), "nothing"),  # what this loop sends after a good reply
        (("Observation: none",), "failed"),
        (("That was no valid reply.",), "failed"),
        ((error_of(SPOILED),), "words"),
        ((SPOILED.text, f"We read your last message and stumbled. {error_of(SPOILED)}"), "words"),
        (("Your reply is no JSON.",), "words"),
    ],
)
def test_a_retry_of_a_spoiled_reply_is_judged_by_what_it_says(texts: tuple[str, ...], level: Level) -> None:
    assert level_shown(BEFORE, after(*texts), SPOILED, signs_of_wire(CODEC, SPOILED), "", GOOD) == level


@pytest.mark.parametrize(
    ("kind", "made", "text", "level"),
    [
        ("unknown_tool", OTHER, "Tool 'power_v2' not found", "words"),
        ("unknown_tool", OTHER, "There is power", "failed"),
        ("missing_argument", ToolCall("power", {"base": 2}), "missing argument: exponent", "words"),
        ("missing_argument", ToolCall("power", {"base": 2}), "Something is missing", "failed"),
        ("wrong_type", ToolCall("power", {"base": 2, "exponent": "x"}), "exponent must be a number", "words"),
        ("wrong_value", ToolCall("power", {"base": 2, "exponent": 9}), f"Observation: {MARKED}", "words"),
        ("wrong_value", ToolCall("power", {"base": 2, "exponent": 9}), "Observation:", "nothing"),
    ],
)
def test_a_retry_of_a_wrong_call_is_judged_by_what_it_says(kind: str, made: ToolCall, text: str, level: Level) -> None:
    signs = signs_of_decision(f"decision.{kind}", Act("", (made,)), MEANT)
    result = f" {MARKED}" if kind == "wrong_value" else ""
    assert level_shown(BEFORE, after(text), Reply("Let me see."), signs, result, GOOD) == level


@pytest.mark.parametrize(
    ("text", "own", "signs", "told", "level"),
    [
        ("It failed.", "Now.", FaultSigns(call="digest"), TOLD, "failed"),
        ("service unavailable", "Now.", FaultSigns(call="digest"), TOLD, "words"),
        ("", "Now.", FaultSigns(call="digest"), TOLD, "nothing"),
        ("You have not used power yet.", "?", signs_of_decision("decision.no_tool", Answer("", "?"), MEANT), "", "failed"),
    ],
)
def test_a_tool_s_error_is_what_it_gave_back_and_an_early_answer_is_mended_by_the_name_of_the_tool(text, own, signs, told, level):
    assert level_shown(BEFORE, after(text), Reply(own), signs, told, GOOD if not told else None) == level


TEXT = st.text("ab 12:\n", max_size=20)


@settings(deadline=None)
@given(st.lists(TEXT, max_size=4), TEXT, st.integers(0, 99), st.sampled_from(["Error", "No JSON.", "ошибка", "請重試"]))
def test_own_words_and_counters_say_nothing_and_all_else_says_something(contents, own, number, said):
    before = request("Attempt 1 of 100", *contents)
    for now in (request("Attempt 1 of 100", *contents, own), request(f"Attempt {number} of 100", *contents, own, f"[{number}]")):
        assert level_shown(before, now, Reply(own), FaultSigns(), "", None) == "nothing"
        told = Request((*now.messages, Message("user", said)))
        assert level_shown(before, told, Reply(own), FaultSigns(), "", None) == "failed"


Retry = Callable[[Reply, str], list[Message]]
RETRIES: dict[str, Retry] = {
    "blind": lambda reply, error: [],
    "own reply": lambda reply, error: [Message("assistant", reply.text)],
    "failed": lambda reply, error: [Message("assistant", reply.text), Message("user", "That was no valid reply.")],
    "words": lambda reply, error: [Message("assistant", reply.text), Message("user", error)],
    "other words around": lambda reply, error: [Message("user", f"Sadly nobody could make sense of it: {error} Have another go.")],
}


def solved(retry: Retry, seed: int, tries: int = 2, temperature: float | None = None) -> bool:
    """Whether a loop that retries in this way gets a move through."""
    profile = Profile(name="one", rates={"wire.malformed": 1.0}, clears=Clears(never=0))
    trial = bench.Bench(bench.chain(1), profile, seed=seed)
    messages = [Message("user", bench.QUESTION)]
    for _ in range(tries):
        request = Request(tuple(messages), trial.toolbox.specs, codec=CODEC, sampling=Sampling(temperature))
        reply = run_sync(trial.model.complete(request))
        try:
            CODEC.parse(reply)
        except WireError as error:
            messages += retry(reply, str(error))
        else:
            return True
    return False


def test_the_loop_that_says_more_gets_through_wherever_the_other_does() -> None:
    through = {name: {seed for seed in range(25) if solved(retry, seed)} for name, retry in RETRIES.items()}
    assert through["blind"] == through["own reply"] < through["failed"] < through["words"] == through["other words around"]
    shares = {name: len(found) / 25 for name, found in through.items()}
    expected = {"blind": 0.35, "own reply": 0.35, "failed": 0.65, "words": 0.9, "other words around": 0.9}
    assert shares == pytest.approx(expected, abs=0.29)  # 3 standard errors


def test_at_temperature_0_asking_again_gives_the_same() -> None:
    assert not any(solved(RETRIES["blind"], seed, tries=5, temperature=0.0) for seed in range(15))
    assert any(solved(RETRIES["words"], seed, temperature=0.0) for seed in range(15))


WORDS = (re.compile(r"[^\W\d_]+"), re.compile(r"\w*[^\W\d]\w*"))
PIECES = ["sum", "Sum", "sums", "7", "x7", " ", "  ", "\n", "\\n", "ΟΔΟΣ", "é", "_", "-"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
calls = st.lists(st.builds(NativeCall, st.just("1"), st.sampled_from(["add", "mul"]), texts), max_size=2).map(tuple)
messages = st.lists(st.builds(Message, st.sampled_from(["user", "assistant"]), texts, calls), max_size=4)


def whole(found: Iterable[Message]) -> list[str]:
    return [text for message in found for text in (message.content, *(f"{call.name} {call.arguments}" for call in message.calls))]


@given(messages, messages, messages, messages)
def test_the_words_that_are_new_are_those_of_the_whole_requests(first, old, new, last):
    before, now = (*first, *old, *last), (*first, *new, *last)
    said = (*texts_apart(Request(before), Request(now)), whole(before), whole(now))
    for found in (*(lambda *texts, one=one: one.findall("\n".join(texts)) for one in WORDS), words_of):
        some, others, were, are = (Counter(found(*texts)) for texts in said)
        assert others - some == are - were
        assert some - others == were - are
