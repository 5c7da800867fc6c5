"""Our replies carry the keys and types of real ones (see `wire_shapes.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from whichloop.models.server.server import segments
from whichloop.models.wires import WIRES
from whichloop.models.wires.base import Incoming, Stamp, WireFailure
from whichloop.protocol import NativeCall, Reply, Usage

from .wire_clients import CLIENTS, NAME
from .wire_shapes import HAS, LACKS, REAL, RealShape

STAMP = Stamp("0123456789abcdef01234567", 1_800_000_000)
SAID = {
    "text": Reply("It is 4.", usage=Usage(7, 3)),
    "call": Reply("", (NativeCall("call_0", NAME, '{"a": 2, "b": 2}'),), Usage(7, 3), "tool_calls"),
}
BY_NAME = {wire.name: wire for wire in WIRES}
_TYPES: dict[str, Any] = {
    "str": str, "int": int, "number": (int, float), "bool": bool, "null": type(None), "object": dict,
}  # fmt: skip


def ours(real: RealShape) -> Any:
    """Return what our wire writes in that place, once over JSON."""
    wire, client = BY_NAME[real.wire], CLIENTS[real.wire]
    if real.what == "error":
        return json.loads(json.dumps(wire.failure(WireFailure(400, "no")).body))
    stream = real.what.endswith("streamed")
    path = segments(client.path(stream=stream))
    asked = wire.read(Incoming(client.body(stream=stream), path, headers=client.headers))
    reply = SAID[real.what.removesuffix(", streamed")]
    if not stream:
        return json.loads(json.dumps(wire.reply(asked, reply, STAMP)))
    return [(event.name, json.loads(json.dumps(event.data))) for event in wire.events(asked, reply, STAMP)]


def problems(value: Any, shape: Any, real: RealShape, where: str = "") -> Iterator[str]:
    """Yield in what a value differs from a shape."""
    if isinstance(shape, str):
        kinds = [_TYPES[name] for name in shape.split("|")]
        if not any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in kinds):
            yield f"{where} is {value!r}, and {shape} in a real reply"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for item in value:
            yield from problems(item, shape[0], real, f"{where}[]")
    else:
        named = {key.removesuffix("?"): inner for key, inner in shape.items()}
        yield from (f"{where} lacks {key}" for key in shape if key not in {*value, *LACKS[real.wire]} and not key.endswith("?"))
        yield from (f"{where} has {key}" for key in value if key not in {*named, *HAS[real.wire]})
        for key in value.keys() & named.keys():
            yield from problems(value[key], named[key], real, f"{where}.{key}")


@pytest.mark.parametrize("real", REAL, ids=[f"{real.wire}: {real.what}, {real.date}" for real in REAL])
def test_our_reply_has_the_shape_of_a_real_one(real: RealShape) -> None:
    assert real.date
    assert real.source
    made = ours(real)
    if not real.what.endswith("streamed"):
        assert list(problems(made, real.shape, real)) == []
        return
    assert {name for name, _ in made} == set(real.shape)
    assert [said for name, data in made for said in problems(data, real.shape[name], real, name)] == []


def test_every_wire_has_real_shapes_and_no_exception_is_idle() -> None:
    assert {real.wire for real in REAL} == set(BY_NAME)
    for real in REAL:
        assert real.wire in LACKS.keys() & HAS.keys()
    for wire in BY_NAME:
        shapes = [real.shape for real in REAL if real.wire == wire]
        for key in LACKS[wire]:
            assert f"'{key}'" in repr(shapes), f"no real reply has {key}"


def test_a_difference_is_found() -> None:
    (real,) = (real for real in REAL if (real.wire, real.what) == ("chat", "error"))
    broken = {"error": {"message": 1, "type": "x", "param": None, "kind": None}}
    assert len(list(problems(broken, real.shape, real))) == 3
