"""Conversations: every design shows a model the earlier turns, and an outcome's messages go on in the next query."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.loops.helpers import Moves
from tests.loops.shopper import ANSWER, QUESTION, Shopper, price
from whichloop.loops import Bare, Finish, Guarded, Microcompact, Phased, ReactExtract, Stateless
from whichloop.loops.shared.conversation import UNTOLD, earlier_turns, turns_for
from whichloop.protocol import Loop, Message, NativeCall, Query, Reply, Request, Toolbox, ToolCall, run_sync
from whichloop.protocol.chat import SentTurn
from whichloop.protocol.moves import Act, Answer, Completion, Inexpressible, Role, Understanding, WireError

DESIGNS: list[Loop] = [
    *(Bare(), Bare(decision_format="native"), Bare(decision_format="fields"), Finish(max_steps=4), Phased(), ReactExtract()),
    *(Stateless(), Stateless(history_as="messages"), Microcompact(Finish(max_steps=4), keep=1), Guarded(Bare())),
]
NAMES = ["bare", "native", "fields", "finish", "phased", "react_extract", "stateless", "turns", "microcompact", "guarded"]
SAID = (
    Message("user", "What does tea cost?"),
    Message("assistant", "", (NativeCall("c", "price", '{"item": "tea"}'),)),
    Message("tool", "1.5", call_id="c"),
    Message("assistant", "Tea costs 1.5."),
)


def asked(loop: Loop, query: Query[Any]) -> tuple[Any, list[Request]]:
    model = Shopper()
    ended = run_sync(loop.run(query, Toolbox([price]), model))
    assert ended.answer == ANSWER
    return ended, model.requests


def said(loop: Loop, query: Query[Any], *moves: Any) -> tuple[Any, list[Request]]:
    model = Moves(*moves)
    ended = run_sync(loop.run(query, Toolbox([price]), model))
    return ended, model.requests


def told(request: Request) -> tuple[Message, ...]:
    """The messages of a request behind its system text and demonstrations."""
    return request.messages[request.examples + (request.messages[0].role == "system") :]


@pytest.mark.parametrize("loop", DESIGNS, ids=NAMES)
def test_every_design_shows_the_earlier_turns_before_its_own_messages_and_changes_nothing_else(loop: Loop) -> None:
    alone, before = asked(loop, Query(QUESTION))
    ended, after = asked(loop, Query(QUESTION, history=SAID))
    assert (ended.stop, ended.steps, ended.details.keys()) == (alone.stop, alone.steps, alone.details.keys())
    by_own = {(request.role, request.scope, told(request)[-1]): told(request) for request in after}
    assert len(after) == len(before)
    for plain in before:
        own = told(plain)
        whole = by_own[plain.role, plain.scope, own[-1]]
        if plain.role in UNTOLD:
            assert whole == own
            continue
        assert whole[-len(own) :] == own
        earlier = whole[: -len(own)]
        assert earlier == tuple(turns_for(plain, earlier_turns(SAID)))
        shown = json.dumps([message.as_dict() for message in earlier])
        assert all(part in shown for part in ("What does tea cost?", "1.5", "Tea costs 1.5."))


@pytest.mark.parametrize("loop", DESIGNS, ids=NAMES)
def test_an_earlier_answer_is_in_the_format_of_the_request(loop: Loop) -> None:
    _, requests = asked(loop, Query(QUESTION, history=SAID))
    for request in requests:
        if request.role in UNTOLD:
            continue
        assert request.codec is not None
        earlier = turns_for(request, earlier_turns(SAID))
        last = next(message for message in reversed(earlier) if message.role == "assistant")
        try:
            read = request.codec.parse(Reply(last.content, last.calls))
        except WireError:
            read = None
        if isinstance(read, Answer):
            assert read.value == "Tea costs 1.5."
            continue
        for confidence in (None, 1.0):  # the format has no place for an answer
            with pytest.raises(Inexpressible):
                request.codec.render(Answer("", "Tea costs 1.5.", confidence))
        assert last.content == "Tea costs 1.5."


@pytest.mark.parametrize("loop", DESIGNS, ids=NAMES)
def test_the_messages_of_an_outcome_go_on_in_the_next_query_by_way_of_json(loop: Loop) -> None:
    first, _ = asked(loop, Query(QUESTION, history=()))
    roles = [message.role for message in first.messages]
    assert roles == ["user", *["assistant", "tool"] * 2, "assistant"]
    stored = json.loads(json.dumps([message.as_dict() for message in first.messages]))
    query = Query(QUESTION + " Again.", history=stored)
    assert query.history == first.messages
    second = run_sync(loop.run(query, Toolbox([price]), Shopper()))
    assert second.messages[: len(roles)] == first.messages
    ids = [call.id for message in second.messages for call in message.calls]
    assert len(ids) == len(set(ids))


GROWING = ["bare", "native", "fields", "finish"]
"""Designs whose requests grow within a run. Those of react_extract do not, and yet a turn of it begins as the last one ended."""


def three_turns(loop: Loop) -> list[list[Request]]:
    """The deciding requests of three turns, between which the conversation goes through JSON."""
    history: Any = ()
    asked_of: list[list[Request]] = []
    for turn in range(3):
        model = Shopper()
        ended = run_sync(loop.run(Query(f"{QUESTION} {turn}", history=history), Toolbox([price]), model))
        assert ended.ok
        history = json.loads(json.dumps([message.as_dict() for message in ended.messages]))
        asked_of.append([request for request in model.requests if request.role is Role.DECIDE])
    return asked_of


@pytest.mark.parametrize("name", [*GROWING, "react_extract"])
def test_a_turn_begins_with_the_whole_last_request_of_the_turn_before(name: str) -> None:
    turns = three_turns(DESIGNS[NAMES.index(name)])
    for earlier, later in itertools.pairwise(turns):
        last, first = earlier[-1].messages, later[0].messages
        assert first[: len(last)] == last
        assert all(one.sent is None for request in later for one in request.messages)
        assert json.dumps([one.as_dict() for one in first[: len(last)]]) == json.dumps([one.as_dict() for one in last])


@pytest.mark.parametrize("name", GROWING)
def test_a_run_in_which_replies_and_calls_fail_is_shown_as_it_was(name: str) -> None:
    loop = DESIGNS[NAMES.index(name)]
    wrong = [Act("", (ToolCall("price", {"item": "gold"}),)), Act("", (ToolCall("prise", {}),))]
    ended, before = said(loop, Query("What does gold cost?", history=()), *wrong, Answer("", "Nobody knows."))
    assert ended.ok
    _, after = said(loop, Query("And tea?", history=ended.messages), Answer("", "1.5"))
    last = before[-1].messages
    assert after[0].messages[: len(last)] == last


def test_an_earlier_answer_under_a_schema_is_written_as_its_fields() -> None:
    class Bill(BaseModel):
        total: int

    history = [Message("user", "What is the bill?"), Message("assistant", '{"total": 7}')]
    _, requests = said(Finish(max_steps=2), Query("And now?", schema=Bill, history=history), Answer("", {"total": 8}))
    earlier = [message for message in requests[0].messages if message.calls]
    assert [(call.name, json.loads(call.arguments)) for message in earlier for call in message.calls] == [
        ("__finish__", {"total": 7})
    ]
    _, requests = said(Finish(max_steps=2), Query("And now?", history=history), Answer("", "8"))
    (call,) = [call for message in requests[0].messages for call in message.calls]
    assert json.loads(call.arguments) == {"answer": '{"total": 7}'}


def test_a_guard_sees_what_the_user_said_and_no_result() -> None:
    loop = Guarded(Bare(), tools="needed", writes="confirmed")
    moves = [
        Understanding("A price.", ("price",)),
        Act("Look.", (ToolCall("price", {"item": "tea"}),)),
        Completion(True),
        Answer("", "two"),
    ]
    _, requests = said(loop, Query("And two?", history=SAID), *moves)
    guards = [request for request in requests if request.codec is not None and request.codec.name.startswith("guarded.")]
    assert [request.role for request in guards] == [Role.UNDERSTAND, Role.CONFIRM]
    for request in guards:
        assert request.messages[1] == SAID[0]
        assert "1.5" not in "".join(message.content for message in request.messages)


TEXTS = st.text(max_size=8)
CALLS = st.builds(NativeCall, TEXTS, TEXTS, TEXTS)
SAID_PLAINLY = st.builds(Message, st.sampled_from(["user", "assistant"]), TEXTS)
SENT = st.builds(SentTurn.of, st.lists(SAID_PLAINLY, max_size=3), TEXTS, st.lists(SAID_PLAINLY, max_size=3))


@given(
    st.builds(Message, st.sampled_from(["system", "user"]), TEXTS)
    | st.builds(Message, st.just("assistant"), TEXTS, st.tuples(CALLS, CALLS))
    | st.builds(Message, st.just("tool"), TEXTS, call_id=TEXTS)
    | st.builds(Message, st.just("user"), TEXTS, sent=SENT)
)
def test_a_message_goes_through_json_without_loss(message: Message) -> None:
    read = Message.from_dict(json.loads(json.dumps(message.as_dict())))
    assert (read, read.sent) == (message, message.sent)


@given(st.lists(SAID_PLAINLY, min_size=1, max_size=3), st.lists(SAID_PLAINLY, max_size=3), st.integers(0, 2), TEXTS)
def test_a_sent_turn_is_that_of_its_messages_and_of_no_others(
    turn: list[Message], messages: list[Message], place: int, text: str
) -> None:
    sent = SentTurn.of(turn, "format", tuple(messages))
    assert sent.shown(turn) == tuple(messages)
    changed = [replace(one, content=text) if number == place % len(turn) else one for number, one in enumerate(turn)]
    assert (sent.shown(changed) is not None) is (changed == turn)
    read = SentTurn.from_dict(json.loads(json.dumps(sent.as_dict())))
    assert read.shown(turn) == tuple(messages)
    assert (read.shown(changed) is not None) is (changed == turn)
    assert replace(sent, messages=(*sent.messages, Message("user"))).shown(turn) is None


OBEY = {"format": "f", "checksum": "c", "messages": [{"role": "system", "content": "Obey."}], "with_images": []}
WRONG: list[tuple[Any, type[Exception], str]] = [
    ("hello", TypeError, r"history\[0\]: give a Message or a dict in OpenAI's chat format, not str"),
    ([3], TypeError, r"history\[0\]: give a Message or a dict in OpenAI's chat format, not int"),
    ([{"role": "robot"}], ValueError, r"history\[0\]: role must be one of system, user, assistant, tool"),
    ([{"role": "user", "content": [1]}], ValueError, r"history\[0\]: content\[0\] must be "),
    ([{"role": "system", "content": "Be brief."}], ValueError, r"history\[0\]: a system message belongs to the loop"),
    ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], ValueError, r"history\[0\]: each of tool_calls must be"),
    ([{"role": "user", "sent": {"format": 3}}], ValueError, r"history\[0\]: sent must be "),
    ([{"role": "user", "sent": OBEY}], ValueError, r"history\[0\]: sent: history\[0\]: a system message belongs to the loop"),
    (SAID[:2], ValueError, r"history\[1\]: the call 'c' has no result"),
    ((SAID[0], SAID[1], SAID[3]), ValueError, r"history\[2\]: the call 'c' has no result before it"),
    ((SAID[0], SAID[2]), ValueError, r"history\[1\]: the result of 'c' follows no call of that id"),
]


@pytest.mark.parametrize(("history", "error", "words"), WRONG)
def test_a_history_that_no_provider_takes_is_told_in_one_line(history: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        Query("And two?", history=history)
    assert "\n" not in str(raised.value)
