"""What a provider wants back with an assistant's turn goes back with it, on all four wires; names of tools fit the provider."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from whichloop.loops.bare import Bare
from whichloop.loops.finish.loop import Finish
from whichloop.protocol import Loop, Message, Outcome, ProviderError, Query, Reply, Request, Tool, Toolbox, run_sync

from .provider import CannedAnswer, SeenRequest, Server, failure, serving
from .vendors import KEYS, Items, Streamed, answer, call, opened, tool_names, turn, turns

LOOPS: dict[str, Loop] = {"finish": Finish(max_steps=4), "bare": Bare(decision_format="native")}
WIRES = ("chat", "responses", "messages", "gemini")
WAYS = (("finish", True), ("bare", False))
each_way = pytest.mark.parametrize(("loop", "stream"), WAYS)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def price(item: str) -> float:
    """Price of an item."""
    return {"lamp": 39.9}[item]


PRICE = Tool.from_function(price, blocking=False)


def last(wire: str, heard: SeenRequest) -> CannedAnswer:
    """The answer, through the finishing tool where there is one."""
    finish = [name for name in tool_names(wire, heard.body) if "finish" in name]
    items = turn(wire, "", call(wire, finish[0], {"answer": "39.9"}, "c9")) if finish else turn(wire, "39.9")
    return answer(wire, items, heard.body, heard.path)


def _outcome(wire: str, loop: str, server: Server, tools: tuple[Tool, ...], stream: bool) -> Outcome[Any]:
    model = opened(wire, server)

    async def go() -> Outcome[Any]:
        try:
            asked = Streamed(model) if stream else model
            return await LOOPS[loop].run(Query("What does a lamp cost?"), Toolbox(tools), asked)
        finally:
            await model.aclose()

    return run_sync(go())


REASONING: list[tuple[str, Items]] = [
    ("chat", turn("chat", "", call("chat", "price", {"item": "lamp"}), reasoning_content="I need the price.")),
    (
        "chat",
        turn(
            "chat",
            "",
            call("chat", "price", {"item": "lamp"}),
            call("chat", "price", {"item": "lamp"}, "c2"),
            reasoning="I look.",
            reasoning_details=[
                {"type": "reasoning.text", "text": "I look.", "signature": "c2ln"},
                {"type": "reasoning.encrypted", "text": "", "data": "ZW5j"},
            ],
        ),
    ),
    (
        "responses",
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"},
            *turn("responses", "I look.", call("responses", "price", {"item": "lamp"})),
            {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Again."}]},
            call("responses", "price", {"item": "lamp"}, "c2"),
        ],
    ),
    (
        "messages",
        [
            {"type": "thinking", "thinking": "I need it.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZW5j"},
            *turn("messages", "I look.", call("messages", "price", {"item": "lamp"})),
        ],
    ),
    (
        "gemini",
        [
            {"text": "I need it.", "thought": True},
            {"text": "I look.", "thoughtSignature": "dGV4dA=="},
            call("gemini", "price", {"item": "lamp"}, thoughtSignature="c2ln"),
            call("gemini", "price", {"item": "lamp"}),
        ],
    ),
]


@each_way
@pytest.mark.parametrize(("wire", "first"), REASONING, ids=[f"{wire}{place}" for place, (wire, _) in enumerate(REASONING)])
def test_a_turn_goes_back_as_it_came(wire: str, first: Items, loop: str, stream: bool) -> None:
    def rule(heard: SeenRequest) -> CannedAnswer:
        if any(turns(wire, heard.body)):
            return last(wire, heard)
        return answer(wire, first, heard.body, heard.path)

    with serving(rule) as server:
        outcome = _outcome(wire, loop, server, (PRICE,), stream)
    assert outcome.answer == "39.9"
    for mine, theirs in zip(turns(wire, server.seen[1].body)[0], first, strict=True):
        assert _comparable(wire, mine) == _comparable(wire, theirs)


def _comparable(wire: str, item: dict[str, Any]) -> dict[str, Any]:
    """An item without what differs and means the same: white space in arguments, a minted id, indexes of a stream's details."""
    copy = {key: value for key, value in item.items() if key != "arguments"}
    if "functionCall" in copy:
        copy["functionCall"] = {key: value for key, value in copy["functionCall"].items() if key != "id"}
    if "tool_calls" in copy:
        copy["tool_calls"] = [{**each, "function": each["function"]["name"]} for each in copy["tool_calls"]]
    for detail in copy.get("reasoning_details", ()):
        detail.pop("index", None)
    return copy


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_server_that_refuses_what_it_sent_itself_is_asked_without(stream: bool) -> None:
    """Groq: property 'reasoning' is unsupported."""
    first = turn("chat", "", call("chat", "price", {"item": "lamp"}), reasoning="I look.")

    def rule(heard: SeenRequest) -> CannedAnswer:
        told = turns("chat", heard.body)
        if any("reasoning" in message for said in told for message in said):
            return failure(400, "'messages.2' : for 'role:assistant' property 'reasoning' is unsupported")
        names = tool_names("chat", heard.body)
        said = turn("chat", "", call("chat", names[-1], {"answer": "39.9"}, "c9")) if len(told) > 1 else first
        return answer("chat", said, heard.body, heard.path)

    with serving(rule) as server:
        outcome = _outcome("chat", "finish", server, (PRICE,), stream)
    assert (outcome.answer, len(server.seen)) == ("39.9", 4)


ASKED = Request((Message("user", "What does a lamp cost?"),), (Tool.from_function(price).spec,))


def _after(reply: Reply, *, calls: int = 0, most: int | None = None, answers: int = 1) -> Request:
    """The next request of a loop that drops the first `calls` and cuts the text. `answers`: turns that stand side by side."""
    kept = reply.calls[calls:]
    said = Message("assistant", reply.text[:most], kept, native=reply.native)
    earlier = Message("assistant", "Good day.")
    results = [Message("tool", "39.9", call_id=call.id) for call in kept]
    return replace(ASKED, messages=(*ASKED.messages, *[earlier] * (answers - 1), said, *results))


def _sent_after(wire: str, items: Items, **changes: Any) -> Items:
    """The blocks, parts or items of the assistant in the request after a reply."""
    with serving(lambda heard: answer(wire, items, heard.body, heard.path)) as server:
        model = opened(wire, server)

        async def go() -> None:
            await model.complete(_after(await model.complete(ASKED), **changes))
            await model.aclose()

        run_sync(go())
    return [item for said in turns(wire, server.seen[1].body) for item in said]


SIGNED: dict[str, Items] = {
    "chat": turn(
        "chat",
        "I look.",
        *[
            call("chat", "price", {"item": "lamp"}, f"c{n}", extra_content={"google": {"thought_signature": f"mark{n}"}})
            for n in (1, 2)
        ],
        reasoning_content="Hm.",
    ),
    "responses": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Hm."},
        *turn("responses", "I look."),
        *[call("responses", "price", {"item": "lamp"}, f"c{n}", status=f"mark{n}") for n in (1, 2)],
    ],
    "messages": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        *turn("messages", "I look."),
        *[call("messages", "price", {"item": "lamp"}, f"c{n}", cache_control=f"mark{n}") for n in (1, 2)],
    ],
    "gemini": [
        {"text": "Hm.", "thought": True},
        {"text": "I look.", "thoughtSignature": "dGV4dA=="},
        *[call("gemini", "price", {"item": "lamp"}, thoughtSignature=f"mark{n}") for n in (1, 2)],
    ],
}


@pytest.mark.parametrize("wire", WIRES)
def test_what_came_with_a_turn_goes_back_whatever_the_loop_makes_of_it(wire: str) -> None:
    sent = repr(_sent_after(wire, SIGNED[wire], calls=1))
    assert ("mark1" in sent, "mark2" in sent, "Hm." in sent) == (False, True, True)
    sent = repr(_sent_after(wire, SIGNED[wire], most=4))
    assert ("I look." in sent, sent.count("I lo"), "Hm." in sent, "mark2" in sent) == (False, 1, True, True)
    sent = repr(_sent_after(wire, SIGNED[wire], answers=2))
    assert -1 < sent.find("Good day.") < min(sent.find("Hm."), sent.find("mark2"))


LONG = "look_up_" + "x" * 70
STRANGE = ("get.price", "get_price", "get/price", "the price", "9lives", LONG, LONG + "y", "größe")
PATTERNS = {wire: re.compile(r"[A-Za-z0-9_-]{1,64}") for wire in WIRES} | {"gemini": re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")}


@each_way
@pytest.mark.parametrize(("wire", "called"), [*zip(WIRES, (0, 2, 4, 6), strict=True)])
def test_names_that_a_provider_refuses_are_replaced_and_put_back(wire: str, loop: str, stream: bool, called: int) -> None:
    made: list[str] = []

    def tool(name: str) -> Tool:
        def function(item: str) -> float:
            """Look it up."""
            made.append(name)
            return price(item)

        return replace(Tool.from_function(function, blocking=False), name=name)

    tools = tuple(map(tool, STRANGE))
    names: list[str] = []

    def rule(heard: SeenRequest) -> CannedAnswer:
        names[:] = tool_names(wire, heard.body)
        if not all(PATTERNS[wire].fullmatch(name) for name in names):
            return failure(400, "Invalid 'tools[0].function.name': string does not match pattern")
        told = turns(wire, heard.body)
        if not told or not told[0]:
            return answer(wire, turn(wire, "", call(wire, names[called], {"item": "lamp"})), heard.body, heard.path)
        assert names[called] in repr(told[0])
        return last(wire, heard)

    with serving(rule) as server:
        outcome = _outcome(wire, loop, server, tools, stream)
    assert (outcome.answer, made) == ("39.9", [STRANGE[called]])
    assert len(set(names)) == len(names)
    assert names[1] == "get_price"


FAULTS: dict[str, Any] = {
    "nan": lambda wire: turn(wire, "", call(wire, "price", {"item": float("nan")})),
    "null name": lambda wire: turn(wire, "", call(wire, None, {"item": "lamp"})),
    "unknown": lambda wire: turn(wire, "", call(wire, "fly away!", {"item": "lamp"})),
    "no object": lambda wire: turn(wire, "", call(wire, "price", [1])),
    "no JSON": lambda wire: turn(wire, "", call(wire, "price", '{"item": "la')),
}
REFUSED: dict[str, tuple[int, Any]] = {
    "groq": (400, {"message": "Failed to call a function. See 'failed_generation'.", "failed_generation": "<function=price{"}),
    "ollama": (500, "error parsing tool call: raw='{\"item\": ', err=unexpected end of JSON input"),
    "llama.cpp": (500, {"message": "Failed to parse tool call arguments as JSON", "type": "server_error", "code": 500}),
}
OURS = {
    "schema": (400, "failed to parse function schema"),
    "depth": (500, "RecursionError: maximum recursion depth exceeded while decoding a JSON array"),
    "deep body": (200, '{"choices": ' + "[" * 5000),
}
"""Failures that are not the model's: of the request, and of the server."""
CASES = [(wire, fault, "") for wire in WIRES for fault in FAULTS] + [("chat", fault, "") for fault in REFUSED]
CASES += [("gemini", "", reason) for reason in ("UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL")]


@pytest.mark.parametrize(
    ("wire", "fault", "reason", "loop", "stream"), [(*case, *WAYS[place % 2]) for place, case in enumerate(CASES)]
)
def test_a_fault_of_the_model_is_answered_by_the_loop(wire: str, fault: str, reason: str, loop: str, stream: bool) -> None:
    first = FAULTS[fault](wire) if fault in FAULTS else []

    def rule(heard: SeenRequest) -> CannedAnswer:
        if len(server.seen) > 1:
            assert len(repr(heard.body)) > len(repr(server.seen[0].body)), "the model is told"
            return last(wire, heard)
        if fault in REFUSED:
            return CannedAnswer({"error": REFUSED[fault][1]}, REFUSED[fault][0])
        return answer(wire, first, heard.body, heard.path, reason)

    with serving(rule) as server:
        outcome = _outcome(wire, loop, server, (PRICE,), stream)
    assert (outcome.answer, len(server.seen)) == ("39.9", 2)
    assert fault not in REFUSED or "malformed_call" in repr(server.seen[1].body)


@pytest.mark.parametrize(("status", "error"), OURS.values(), ids=OURS.keys())
def test_a_request_and_a_body_that_cannot_be_read_are_not_the_models(status: int, error: Any) -> None:
    def rule(_: SeenRequest) -> CannedAnswer:
        return CannedAnswer(error if status == 200 else {"error": error}, status)

    with serving(rule) as server, pytest.raises(ProviderError):
        run_sync(opened("chat", server).complete(ASKED))
