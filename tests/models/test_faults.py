"""Faults: where each kind strikes, what it does to a reply or a move, and what a model sees of its own mistakes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import nullcontext
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.task import Task
from whichloop.loops.bare_codecs import CODEC
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named
from whichloop.models.fake import FakeModel
from whichloop.models.faults import (
    ANSWER,
    IMPLICIT,
    Fault,
    FaultPoint,
    distorted,
    disturb,
    draw,
    drifted,
    geometric,
    mislead,
    new_argument,
    spoiled_forms,
)
from whichloop.models.metering import MeteredToolbox
from whichloop.models.outages import WithOutages
from whichloop.models.profiles import FAULT_KINDS, OF_CALLS, Clears, Profile
from whichloop.models.receipts import call_digest
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import (
    Act,
    Message,
    NativeCall,
    PlannedCall,
    ProviderError,
    Query,
    Ref,
    Reply,
    Request,
    Role,
    Tool,
    Toolbox,
    ToolCall,
    ToolSpec,
    WireError,
)
from whichloop.protocol.receipts import sightings
from whichloop.protocol.tool_calls import McpError, read_mcp_error

LAW = settings(max_examples=cases(40), deadline=None)
WIRE = sorted(kind for kind in FAULT_KINDS if kind.startswith("wire."))
CALL = PlannedCall("c2", "add", {"a": Ref("c1"), "b": 2}, "Find c2.")
KEY = (0, "task", 0)
POINT = FaultPoint("tool", "c1")


def profile(*kinds: str, rate: float = 1.0, **clears: Any) -> Profile:
    return Profile(name="one", rates=dict.fromkeys(kinds, rate / len(kinds)), clears=Clears(**clears))


@pytest.mark.parametrize("kind", sorted(FAULT_KINDS))
def test_a_kind_strikes_where_it_can(kind: str) -> None:
    """At the plan's first call, a later one, and the answer; calls and moves are disturbed where a model decides on calls."""
    where = {"decision.never_finish": {"answer"}, "decision.no_tool": {"first"}, "decision.repeated_call": {"later"}}.get(
        kind, {"first", "later"}
    )
    if kind in OF_CALLS:
        assert draw(profile(kind), KEY, FaultPoint("tool", "c1"), None, False, "0abc12") is not None
    for role in Role:
        struck = {
            "first": draw(profile(kind), KEY, FaultPoint(role, "c1"), CALL, True) is not None,
            "later": draw(profile(kind), KEY, FaultPoint(role, "c2"), CALL, False) is not None,
            "answer": draw(profile(kind), KEY, FaultPoint(role, ANSWER), None, False) is not None,
        }
        if kind.startswith(("wire.", "provider.")):
            expected = {"first", "later", "answer"}
        else:
            roles = (Role.DECIDE,) if kind == "calls.too_early" else (Role.DECIDE, Role.SELECT)
            expected = where if role in roles and kind not in OF_CALLS else set()
        assert {name for name, there in struck.items() if there} == expected, role


def test_a_kind_that_finds_nothing_to_spoil_is_not_drawn() -> None:
    bare, point = PlannedCall("c1", "now", {}, "Find c1."), FaultPoint("decide", "c1")
    for kind in ("decision.missing_argument", "decision.wrong_type", "decision.wrong_value"):
        assert draw(profile(kind), KEY, point, bare, False) is None
    assert draw(profile("decision.repeated_call"), KEY, FaultPoint("select", "c1"), bare, False) is None  # shows no result
    assert draw(profile("decision.never_finish"), KEY, FaultPoint("decide", ANSWER), None, True) is None


def drawn(trial: Profile, count: int = 4000, point: FaultPoint = POINT, digest: str = "") -> dict[int, Fault]:
    """Repeat → the fault at one point of it."""
    found = {repeat: draw(trial, (0, "task", repeat), point, None if digest else CALL, False, digest) for repeat in range(count)}
    return {repeat: fault for repeat, fault in found.items() if fault is not None}


def test_faults_come_at_their_rates_and_what_clears_them_at_its_shares() -> None:
    decides = FaultPoint("decide", "c1")
    rates = {"wire.empty": 0.1, "wire.fenced": 0.2, "provider.slow": 0.05}
    kinds = Counter(fault.kind for fault in drawn(Profile(name="three", rates=rates), point=decides).values())
    assert {kind: kinds[kind] / 4000 for kind in rates} == pytest.approx(rates, abs=0.02)
    for kind, clears in (("wire.empty", "shown"), ("provider.server", "after")):
        faults = drawn(profile(kind, never=0.1, attempts=4), point=decides).values()
        cleared = Counter(fault.clearing for fault in faults)
        assert {clearing: count / 4000 for clearing, count in cleared.items()} == pytest.approx(
            {clears: 0.9, "never": 0.1}, abs=0.03
        )
    attempts = [fault.attempts for fault in faults if fault.clearing == "after"]
    assert sum(attempts) / len(attempts) == pytest.approx(4, abs=0.3)


@LAW
@given(st.floats(1, 100), st.floats(1, 100), st.floats(0, 1, exclude_max=True))
def test_more_attempts_on_average_are_never_fewer_for_the_same_draw(one: float, other: float, u: float) -> None:
    assert 1 <= geometric(min(one, other), u) <= geometric(max(one, other), u)


@pytest.mark.parametrize("mean", [1.5, 10])
def test_each_attempt_is_the_last_with_the_same_chance(mean: float) -> None:
    """So no loop's limit is the number that the faults take: from one limit to the next the share that is left falls evenly."""
    made = [geometric(mean, (index + 0.5) / 10_000) for index in range(10_000)]
    for limit in range(1, 6):
        assert sum(attempts > limit for attempts in made) / 10_000 == pytest.approx((1 - 1 / mean) ** limit, abs=1e-3)


@pytest.mark.parametrize(
    ("clearing", "attempts", "before", "once_cured"),
    [("never", 0, [True] * 4, [True] * 4), ("shown", 0, [True] * 4, [False] * 4), ("after", 2, [True, True, False, False], None)],
)
def test_a_fault_is_active_until_it_is_cleared(clearing: Any, attempts: int, before: list[bool], once_cured: Any) -> None:
    for cured, expected in ((False, before), (True, once_cured or before)):
        fault = Fault("wire.empty", FaultPoint("decide", "c1"), clearing, attempts, cured=cured)
        assert [fault.active(attempt) for attempt in range(4)] == expected


@pytest.mark.parametrize("kind", WIRE)
@LAW
@given(text=st.text(min_size=1, max_size=60))
def test_a_bad_wire_changes_any_text(kind: str, text: str) -> None:
    spoiled = spoiled_forms(kind, Reply(text))[0]
    assert spoiled.text != text
    assert len(spoiled.text) < len(text) if kind in ("wire.malformed", "wire.truncated", "wire.empty") else text in spoiled.text


@pytest.mark.parametrize("kind", WIRE)
def test_a_strict_format_reads_no_spoiled_reply_and_calls_are_spoiled_whatever_is_said_beside_them(kind: str) -> None:
    with pytest.raises(WireError):
        CODEC.parse(spoiled_forms(kind, CODEC.render(Act("", (ToolCall("add", {"a": 1}),))))[0])
    for text in ("", "Next: find c1."):
        reply = Reply(text, (NativeCall("1", "add", '{"a": 1, "b": 2}'),), finish_reason="tool_calls")
        spoiled = spoiled_forms(kind, reply)[0]
        assert spoiled != reply
        assert spoiled.text == ("" if kind == "wire.empty" else text)
        assert [call.name for call in spoiled.calls] == ([] if kind == "wire.empty" else ["add"])
        if kind != "wire.empty":
            with pytest.raises(WireError):
                NATIVE.parse(spoiled)


def power(base: float, exponent: float, digits: int = 3) -> float:
    """A power."""
    return float(round(base**exponent, digits))


SPECS = {"power": Tool.from_function(power, blocking=False).spec}
MOVE = Act("Next.", (ToolCall("power", {"base": 2, "exponent": 3, "digits": 1}), ToolCall("add", {"a": 1})))


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("unknown_tool", ToolCall("power_v2", {"base": 2, "exponent": 3, "digits": 1})),
        ("missing_argument", ToolCall("power", {"base": 2, "digits": 1})),
        ("extra_argument", ToolCall("power", {"base": 2, "exponent": 3, "digits": 1, "verbose": True})),
        ("wrong_type", ToolCall("power", {"base": 2, "exponent": {"about": 3}, "digits": 1})),
        ("wrong_value", ToolCall("power", {"base": 2, "exponent": 4, "digits": 1})),
    ],
)
def test_a_confused_call(kind: str, call: ToolCall) -> None:
    assert disturb(f"decision.{kind}", MOVE, {}, SPECS) == (Act("Next.", (call, MOVE.calls[1])),)
    arguments = Tool.from_function(power, blocking=False).arguments
    assert arguments is not None
    if kind in ("missing_argument", "extra_argument", "wrong_type"):
        with pytest.raises(ValueError, match=r"unknown argument|missing argument|valid number"):
            arguments.bind(call.arguments)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@LAW
@given(JSON)
def test_a_wrong_value_is_another_one_of_the_same_kind(value: Any) -> None:
    other = mislead(value)
    assert other != value
    assert value is None or type(other) is type(value)
    json.dumps(other, allow_nan=False)


@pytest.mark.parametrize("kind", sorted(IMPLICIT))
@LAW
@given(value=JSON)
def test_an_implicit_failure_gives_another_value(kind: str, value: Any) -> None:
    other = distorted(kind, value)
    assert other != value
    json.dumps(other, allow_nan=False)


def test_the_model_notices_its_share_and_the_more_it_notices_the_fewer_it_believes() -> None:
    def believed(notices: float, kind: str = "tool.empty") -> set[int]:
        trial = Profile(name="one", rates={kind: 1.0}, notices=notices)
        return {repeat for repeat, fault in drawn(trial, 1000, digest="0abc12").items() if fault.believed}

    found = {share: believed(share) for share in (0.0, 0.3, 0.7, 1.0)}
    assert [len(found[share]) for share in (0.0, 1.0)] == [1000, 0]
    assert found[0.7] < found[0.3] < found[0.0]
    assert len(found[0.7]) / 1000 == pytest.approx(0.3, abs=0.05)  # 3 standard errors
    assert not believed(0.0, "tool.raises"), "it says that it failed"


@LAW
@given(st.integers(-(10**14), 10**14) | st.integers(-(10**14), 10**14).map(lambda number: number / 1000), st.booleans())
def test_no_scorer_takes_a_lie_for_right(value: float, as_text: bool) -> None:
    expected = f"it is {value}" if as_text else value
    judgement = Judgement(Task("t", Query(""), expected), str(mislead(expected)), "finished")
    assert {scorer_named(name)(judgement) for name in ("exact", "numeric", "normalized")} == {0}


def price(item: str) -> float:
    """What an item costs."""
    return 12345.5


def tools_struck(kind: str, attempts: int) -> MeteredToolbox:
    """Tools whose call price(item="lamp") fails so often."""
    tunnel = Tunnel()
    fault = Fault(kind, FaultPoint("tool", "c1"), "after", attempts)
    tunnel.of_call[call_digest("price", {"item": "lamp"})] = fault
    return MeteredToolbox([Tool.from_function(price)], tunnel=tunnel)


PRICE_CALL = ToolCall("price", {"item": "lamp"})
SEEN = {
    "mcp.error": "McpError: Internal error (-32603)",
    "mcp.list_changed": "McpError: Unknown tool: price (-32602)",
    "mcp.drifted": "InvalidArguments: Input validation error: 'revision' is a required property",
    "mcp.cut": "123",
}


@pytest.mark.parametrize("kind", SEEN)
def test_what_a_loop_sees_and_what_the_list_shows(kind: str) -> None:
    tools: Toolbox = tools_struck(kind, attempts=2).limited(5, 100)
    before = tools.listed()
    first = asyncio.run(tools.call(PRICE_CALL))
    during = tools.listed()
    second = asyncio.run(tools.call(PRICE_CALL))
    after = tools.listed()
    third = asyncio.run(tools.call(PRICE_CALL))
    assert first.as_dict()["data"] == second.as_dict()["data"] == SEEN[kind]
    assert not sightings(first.data)
    assert first.ok == (kind == "mcp.cut")
    assert sightings(third.data)
    assert tools.specs == before.tools == after.tools
    shown = {"mcp.list_changed": (), "mcp.drifted": (drifted(before.tools[0]),)}.get(kind)
    assert during.tools == (before.tools if shown is None else shown)
    assert (during.changes, after.changes) == ((0, 0) if shown is None else (1, 2))


ARGUMENT_NAMES = st.sampled_from(["revision", "revision_", "a", "b"])


@given(st.lists(ARGUMENT_NAMES, unique=True), st.booleans())
def test_a_drifted_schema_requires_one_argument_more_and_nothing_else(names: list[str], all_required: bool) -> None:
    properties = {name: {"type": "string"} for name in names}
    required = {"required": names} if all_required else {}
    spec = ToolSpec("price", "", {"type": "object", "properties": properties, "additionalProperties": False, **required})
    now = drifted(spec)
    arguments = dict.fromkeys(names, "x")
    added = new_argument(names)
    assert added not in names
    jsonschema.validate(arguments, spec.parameters)
    jsonschema.validate({**arguments, added: "x"}, now.parameters)
    with pytest.raises(jsonschema.ValidationError, match=f"'{added}' is a required property"):
        jsonschema.validate(arguments, now.parameters)


@given(st.integers(-99_999, 99_999), st.text(), st.text(alphabet="ab -1("))
def test_an_error_is_read_as_it_was_written_and_a_text_without_a_code_is_an_internal_one(code: int, message: str, plain: str):
    error = read_mcp_error(str(McpError(code, message)))
    assert (error.code, error.message) == (code, message)
    assert (read_mcp_error(plain).code, read_mcp_error(plain).message) == (-32603, plain)


@pytest.mark.parametrize("kind", ["provider.slow", "provider.server"])
def test_what_strikes_a_real_model_s_provider_is_counted_as_scheduled_and_landed(kind: str) -> None:
    tunnel = Tunnel()
    tunnel.blow(profile(kind).model_copy(update={"slow_s": 7.0}), KEY)
    model = WithOutages(FakeModel("It is 5."), tunnel, KEY)
    with nullcontext() if kind == "provider.slow" else pytest.raises(ProviderError, match="500"):
        assert asyncio.run(model.complete(Request((Message("user", "?"),)))).text == "It is 5."
    assert [(fault.kind, fault.landed) for fault in tunnel.faults] == [(kind, True)]
    assert tunnel.simulated_s == (7.0 if kind == "provider.slow" else 0.0)


def test_an_implicit_failure_looks_like_a_result() -> None:
    flights = [{"id": "F1", "price": 90}, {"id": "F2", "price": 120}]
    assert distorted("tool.empty", flights) == []
    assert distorted("tool.partial", flights) == flights[:1]
    assert distorted("tool.stale", flights) == flights[:1]
    assert distorted("tool.stale", {"id": "F2", "price": 120}) == {"id": "F2", "price": 107}
    assert distorted("tool.empty", 7) is None
    assert distorted("tool.partial", "Bergen") == "Ber"
