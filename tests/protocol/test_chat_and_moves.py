"""Messages, requests and moves: plain data, equal by what they say and not by where they came from."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    Message,
    ModelError,
    Move,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Role,
    Sampling,
    ToolSpec,
    Usage,
    WireError,
)
from whichloop.protocol.digest import digest

text = st.text(max_size=10)
json_objects = st.dictionaries(text, st.integers() | text, max_size=3)
calls = st.lists(st.builds(NativeCall, text, text, text), max_size=2).map(tuple)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), text, calls, text)
samplings = st.builds(
    Sampling,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(0, 9),
    top_p=st.none() | st.floats(0, 1),
    seed=st.none() | st.integers(),
    stop=st.lists(text, max_size=2).map(tuple),
)
requests = st.builds(
    Request,
    messages=st.lists(messages, max_size=3).map(tuple),
    tools=st.lists(st.builds(ToolSpec, text, text, json_objects), max_size=2).map(tuple),
    tool_choice=st.none() | text,
    response_schema=st.none() | json_objects,
    sampling=samplings,
)
usages = st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.booleans(),
    st.none() | st.integers(0, 1000).map(float),
)


class Shout:
    """A wire format for prose alone."""

    name = "shout"
    role = Role.ANSWER
    max_calls = 0

    def render(self, move: Move) -> Reply:
        return Reply(repr(move).upper())

    def parse(self, reply: Reply) -> Move:
        raise WireError("nothing can be read back")


@settings(max_examples=cases(25))
@given(requests, st.sampled_from(list(Role)), text)
def test_role_scope_and_codec_are_no_part_of_what_is_asked(request_: Request, role: Role, scope: str) -> None:
    marked = dataclasses.replace(request_, role=role, scope=scope, codec=Shout())
    assert marked.as_dict() == request_.as_dict()
    assert marked == request_
    assert digest(marked.as_dict()) == digest(request_.as_dict())
    assert not {"role", "scope", "codec"} & marked.as_dict().keys()


def test_zero_is_a_setting() -> None:
    assert Sampling(temperature=0.0, max_tokens=0, seed=0).as_dict() == {"temperature": 0.0, "max_tokens": 0, "seed": 0}
    assert Sampling().as_dict() == {}


@given(usages, usages, usages)
def test_usages_add_up_in_any_order_with_nothing_as_zero(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_costs_add_up_where_known_and_stay_unknown_elsewhere() -> None:
    assert (Usage(cost_usd=0.5) + Usage()).cost_usd == 0.5
    assert (Usage() + Usage()).cost_usd is None
    assert (Usage(cost_usd=0.0) + Usage()).cost_usd == 0.0
    assert (Usage(estimated=True) + Usage()).estimated


def test_messages_take_openai_form() -> None:
    assert Message("user", "hi").as_dict() == {"role": "user", "content": "hi"}
    assert Message("tool", "7", call_id="c1").as_dict() == {"role": "tool", "content": "7", "tool_call_id": "c1"}
    broken = NativeCall("c1", "add", '{"a": 1, "b"')
    assert Message("assistant", "", (broken,)).as_dict() == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b"'}}],
    }


def test_a_full_request_states_tools_choice_schema_and_sampling() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"})
    asked = Request((Message("user", "q"),), (spec,), "required", {"type": "string"}, Sampling(temperature=0.0, stop=("END",)))
    assert asked.as_dict() == {
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"name": "add", "description": "Add.", "parameters": {"type": "object"}}],
        "tool_choice": "required",
        "response_schema": {"type": "string"},
        "temperature": 0.0,
        "stop": ["END"],
    }
    assert Request((Message("user", "q"),)).as_dict() == {"messages": [{"role": "user", "content": "q"}]}


def test_a_used_up_budget_is_no_error_of_a_model() -> None:
    """A loop that handles these must let it through."""
    assert issubclass(ProviderError, ModelError)
    assert issubclass(ContextOverflow, ModelError)
    assert not issubclass(BudgetExceeded, ModelError)
