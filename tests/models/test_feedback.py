"""Feedback is judged by what the new text of a retry says, and the one that says more cures wherever the other does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichloop.loops.bare_codecs import CODEC
from whichloop.models.faults import spoiled_reply
from whichloop.models.feedback import FaultSigns, chance, parts_shown, signs_of_decision, signs_of_wire
from whichloop.models.profiles import FEEDBACK_PARTS, Clears, Profile
from whichloop.protocol import Act, Answer, Message, Reply, Request, Sampling, Tool, ToolCall, WireError, run_sync

from . import bench

SHARES = st.lists(st.floats(0, 1), min_size=6, max_size=6).map(lambda made: [share / max(sum(made), 1) for share in made])
SIGNS = st.builds(
    FaultSigns,
    names=st.sampled_from([frozenset(), frozenset({"add"})]),
    error=st.sampled_from([frozenset(), frozenset({"unavailable"})]),
    expected=st.sampled_from([frozenset(), frozenset({"final_answer"})]),
)
BEFORE = Request((Message("system", "Reply with JSON."), Message("user", "What is 1 + 1?")))
MOVE = Act("Next: find c1.", (ToolCall("add", {"first": 1, "second": 1}),))
CLEAN = CODEC.render(MOVE)
SPOILED = spoiled_reply("wire.malformed", CODEC, MOVE, CLEAN)[0]


def after(*texts: str) -> Request:
    return Request((*BEFORE.messages, *(Message("user", text) for text in texts)))


def error_of(reply: Reply) -> str:
    with pytest.raises(WireError) as raised:
        CODEC.parse(reply)
    return str(raised.value)


# --- what a text shows ---

FORM = '{"thought": "why", "tool_name": "name", "arguments": {"first": 1, "second": 2}}'


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ((), set()),
        (("banana",), set()),
        (("Please try again. That was wrong!",), set()),
        (("Attempt 2 of 3",), set()),
        ((SPOILED.text,), {"reply"}),
        ((error_of(SPOILED),), {"error"}),
        ((SPOILED.text, f"Error: {error_of(SPOILED)}"), {"reply", "error"}),
        (("Your call of add could not be read.",), {"names"}),
        ((f"Write it like this: {FORM}",), {"names", "expected"}),
        ((SPOILED.text, error_of(SPOILED), FORM), {"names", "error", "expected", "reply"}),
    ],
)
def test_a_retry_of_a_spoiled_reply_is_judged_by_what_it_says(texts: tuple[str, ...], shown: set[str]) -> None:
    signs = signs_of_wire(CODEC, MOVE, CLEAN, SPOILED)
    assert parts_shown(BEFORE, after(*texts), SPOILED, signs) == shown


def power(base: float, exponent: float) -> float:
    """A power."""
    return float(base**exponent)


SPECS = (Tool.from_function(power, blocking=False).spec,)
MEANT = Act("", (ToolCall("power", {"base": 2, "exponent": 3}),))


@pytest.mark.parametrize(
    ("kind", "made", "text", "shown"),
    [
        ("unknown_tool", ToolCall("power_v2", {"base": 2, "exponent": 3}), "Tool 'power_v2' not found", {"names", "error"}),
        ("unknown_tool", ToolCall("power_v2", {"base": 2, "exponent": 3}), "There is power", {"expected"}),
        ("missing_argument", ToolCall("power", {"base": 2}), "missing argument: exponent", {"names", "error", "expected"}),
        ("missing_argument", ToolCall("power", {"base": 2}), "Something is missing", set()),
        (
            "wrong_type",
            ToolCall("power", {"base": 2, "exponent": "x"}),
            "exponent must be a number",
            {"names", "error", "expected"},
        ),
        ("wrong_type", ToolCall("power", {"base": 2, "exponent": "x"}), "Try again, banana", set()),
    ],
)
def test_a_retry_of_a_wrong_call_is_judged_by_what_it_says(kind: str, made: ToolCall, text: str, shown: set[str]) -> None:
    signs = signs_of_decision(f"decision.{kind}", Act("", (made,)), MEANT, SPECS, "")
    assert parts_shown(BEFORE, after(text), Reply("Let me see."), signs) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It failed.", set()),
        ("add failed.", {"names"}),
        ("service unavailable", {"error"}),
        ("add: service unavailable", {"names", "error"}),
    ],
)
def test_the_error_of_a_tool_is_what_it_gave_back(text: str, shown: set[str]) -> None:
    told = "ToolUnavailable service unavailable, try again"
    assert parts_shown(BEFORE, after(text), Reply("Now then."), FaultSigns(frozenset({"add"}), call="digest"), told) == shown


# --- the chance ---


@settings(deadline=None)
@given(SHARES, SIGNS, st.booleans())
def test_more_feedback_is_never_worse_and_a_word_without_content_is_a_blind_retry(
    shares: list[float], signs: FaultSigns, resampled: bool
) -> None:
    clears = Clears(**dict(zip(("resample", *FEEDBACK_PARTS), shares, strict=False)))
    blind = chance(clears, (), signs, resampled=resampled)
    assert blind == (clears.resample if resampled else 0.0)
    for count in range(5):
        for shown in itertools.combinations(FEEDBACK_PARTS, count):
            for part in FEEDBACK_PARTS:
                more = chance(clears, {*shown, part}, signs, resampled=resampled)
                assert blind <= chance(clears, shown, signs, resampled=resampled) <= more + 1e-12 <= 1 + 1e-9


# --- in the tunnel ---

Retry = Callable[[Reply, str], list[Message]]
RETRIES: dict[str, Retry] = {
    "blind": lambda reply, error: [],
    "banana": lambda reply, error: [Message("user", "banana")],
    "reply": lambda reply, error: [Message("assistant", reply.text)],
    "error": lambda reply, error: [Message("user", error)],
    "both": lambda reply, error: [Message("assistant", reply.text), Message("user", error)],
    "all": lambda reply, error: [Message("assistant", reply.text), Message("user", f"{error} {FORM} add")],
}


def solved(retry: Retry, seed: int, tries: int = 3, temperature: float | None = None) -> bool:
    """Whether a loop that retries in this way gets a move through."""
    profile = Profile(name="one", rates={"wire.malformed": 1.0}, clears=Clears(feedback=1, after=0, never=0))
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
    through = {name: {seed for seed in range(60) if solved(retry, seed, tries=2)} for name, retry in RETRIES.items()}
    assert through["banana"] == through["blind"]
    assert through["blind"] < through["reply"] < through["both"] < through["all"]
    assert through["blind"] < through["error"] < through["both"]
    shares = {name: len(found) / 60 for name, found in through.items()}
    expected = {"blind": 0.35, "reply": 0.45, "error": 0.6, "both": 0.7, "all": 0.9}
    assert shares == pytest.approx(expected | {"banana": 0.35}, abs=0.19)  # 3 standard errors


def test_at_temperature_0_asking_again_gives_the_same() -> None:
    assert not any(solved(RETRIES[name], seed, tries=5, temperature=0.0) for name in ("blind", "banana") for seed in range(15))
    assert any(solved(RETRIES["error"], seed, temperature=0.0) for seed in range(15))


def test_an_answer_that_was_given_too_early_is_mended_by_the_name_of_the_tool_that_is_wanted() -> None:
    signs = signs_of_decision("decision.no_tool", Answer("", "?"), MEANT, SPECS, "")
    made: Any = parts_shown(BEFORE, after("You have not used power yet."), Reply("?"), signs)
    assert made == {"names", "expected"}
