"""Every fault on every wire: each cell of the table in docs/serve.md, and what must hold whatever the vendor."""

from __future__ import annotations

import asyncio
import json
from functools import cache

import pytest

from .wire_clients import CLIENTS
from .wire_faults import FAULTS, LONG, WIRE_NAMES, Met, both, cell, shown

STATUSES = {
    "`provider.rate_limit`": {429},
    "`provider.server`": {500},
    "`provider.overloaded`": {503, 529},
    "`provider.timeout`": {504},
}


@cache
def found(fault: str, wire: str) -> tuple[Met, Met]:
    return asyncio.run(both(fault, wire))


def test_the_page_has_a_row_for_each_fault_and_a_column_for_each_wire() -> None:
    assert list(shown()) == [(fault, wire) for fault in FAULTS for wire in WIRE_NAMES]


@pytest.mark.parametrize("wire", WIRE_NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_cell_of_the_table(fault: str, wire: str) -> None:
    assert shown()[fault, wire] == cell(fault, *found(fault, wire))


@pytest.mark.parametrize("wire", WIRE_NAMES)
@pytest.mark.parametrize("fault", STATUSES)
def test_what_fails_before_it_begins_has_a_status(fault: str, wire: str) -> None:
    for met in found(fault, wire):
        assert met.status in STATUSES[fault]
        assert met.error
        assert ("retry-after" in met.headers or bool(met.wait)) == (fault == "`provider.rate_limit`")


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_what_fails_after_it_has_begun_has_none(wire: str) -> None:
    whole, stream = found("`provider.interrupted`", wire)
    assert (whole.status, stream.status, stream.whole) == (500, 200, True)
    assert stream.said is not None
    assert stream.said.text
    assert stream.said.error
    assert not stream.said.ended
    for met in found("`provider.cut`", wire):
        assert (met.status, met.whole) == (200, False)
        assert met.said is None or not met.said.ended
    for met in found("`provider.garbled`", wire):
        assert (met.status, met.whole, met.said) == (200, True, None)
    assert {met.status for met in found("`provider.dropped`", wire)} == {0}


@pytest.mark.parametrize("wire", WIRE_NAMES)
@pytest.mark.parametrize(
    ("fault", "uncut"), [("`wire.truncated`", '{"a": 1, "b": 1}'), ("`max_tokens` in the middle of a call", LONG)]
)
def test_what_is_cut_for_its_length_says_so(fault: str, uncut: str, wire: str) -> None:
    for met in found(fault, wire):
        assert met.said is not None
        assert met.said.finish == CLIENTS[wire].length
        assert all(call.arguments not in (uncut, json.loads(uncut)) for call in met.said.calls)


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_two_calls_of_one_id_and_a_reply_of_nothing(wire: str) -> None:
    for met in found("two calls with one id", wire):
        assert met.said is not None
        first, second = met.said.calls
        assert first.id == second.id
        assert first.arguments != second.arguments
    for met in found("`wire.empty`", wire):
        assert met.said is not None
        assert (met.said.text, met.said.calls) == ("", ())
