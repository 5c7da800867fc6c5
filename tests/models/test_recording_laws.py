"""Laws of recordings: lines, digests, replays in any order, and files that were cut or damaged."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.fake import FakeModel
from whichloop.models.recording import Failure, Line, RecordedModel, RecordingMode, Recordings, canonical, decode, encode
from whichloop.protocol import (
    ContextOverflow,
    Message,
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Role,
    Sampling,
    ToolSpec,
    Usage,
    run_sync,
)
from whichloop.protocol.json_text import digest

from .recordings import ask, heard, texts, use

text = st.text(max_size=12)
ids = st.sampled_from(("", "a", "b", "é"))
counts = st.integers(0, 10**6)
money = st.none() | st.floats(0, 1e6)
attempts = st.lists(text, max_size=2).map(tuple)
calls = st.lists(st.builds(NativeCall, ids, text, text), max_size=2).map(tuple)
usages = st.none() | st.builds(Usage, counts, counts, counts, st.booleans(), money, money)
replies = st.builds(
    Reply, text, calls, usages, st.sampled_from(("stop", "tool_calls", "length", "content_filter", "other")), attempts
)
kinds = st.sampled_from(("context_overflow", "refused", "rate_limit", "timeout", "bad_request"))
failures = st.builds(Failure, text, kinds, st.none() | counts, money, st.booleans(), attempts)
objects = st.dictionaries(text, st.lists(text | st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=3))


@given(replies | failures, text, text, counts, text, counts, st.floats(0, 1e6), objects)
def test_a_line_is_read_as_it_was_written(answer, arm, task, repeat, scope, number, seconds, asked):
    kind: dict[str, Any] = {"reply" if isinstance(answer, Reply) else "error": answer}
    line = Line(request="ab" * 32, arm=arm, task=task, repeat=repeat, scope=scope, use=number, asked=asked, seconds=seconds, **kind)
    written = encode(line)
    assert written.endswith(b"\n")
    assert written[:-1].decode().isprintable()
    assert decode(written, Line) == line


def test_a_digest_is_the_same_on_every_machine() -> None:
    request = Request(
        (Message("assistant", "é", (NativeCall("x", "add", '{"a":1}'),)), Message("tool", "2", call_id="x")),
        (ToolSpec("add", "Adds.", {"type": "object"}),),
        sampling=Sampling(temperature=0),
    )
    renamed = (replace(request.messages[0], calls=(NativeCall("y", "add", '{"a":1}'),)), Message("tool", "2", call_id="y"))
    same: list[dict[str, Any]] = [
        {"sampling": Sampling(temperature=0.0)},
        {"messages": renamed},
        {"role": Role.ANSWER, "scope": "left", "codec": object()},
        {"parallel_calls": True},
    ]
    for changes in same:
        asked = digest(canonical(replace(request, **changes)))
        assert asked == "f780788cfe04f560c8b49380c7a73fc591540beb2c5c177d58363218e3f44343"


def test_what_may_change_the_answer_changes_the_digest() -> None:
    user, call, other = Message("user", "a"), NativeCall("x", "add", "{}"), NativeCall("y", "add", "{}")
    called = (Message("assistant", "", (call, other)), Message("tool", "1", call_id="x"), Message("tool", "2", call_id="y"))
    base = Request((user, *called), (ToolSpec("add", "Adds.", {"type": "object"}),), "auto", {"title": "a"}, Sampling(0.5))
    changes: list[dict[str, Any]] = [
        {},
        {"messages": (*called, user)},
        {"messages": called},
        {"messages": (replace(user, role="system"), *called)},
        {"messages": (replace(user, content="b"), *called)},
        {"messages": (user, replace(called[0], calls=(call, replace(other, name="sub"))), *called[1:])},
        {"messages": (user, replace(called[0], calls=(call, replace(other, arguments="{} "))), *called[1:])},
        {"messages": (user, called[0], replace(called[1], call_id="y"), replace(called[2], call_id="x"))},
        *({"tools": tools} for tools in ((), base.tools * 2, (ToolSpec("add", "Adds.", {}),), (ToolSpec("add", "", {}),))),
        *({"tool_choice": choice} for choice in (None, "", "add")),
        *({"response_schema": schema} for schema in (None, {}, {"title": "b"})),
        *({"sampling": sampling} for sampling in (Sampling(), Sampling(0.6), Sampling(0.5, stop=("a",)), Sampling(0.5, seed=0))),
        {"parallel_calls": False},
    ]  # fmt: skip
    assert len({digest(canonical(replace(base, **each))) for each in changes}) == len(changes)


FAILURES = (
    ContextOverflow("too long"),
    ProviderError("not that", "refused", status=400),
    ProviderError("429: slow down", "rate_limit", status=429, retry_after_s=2.0, injected=True),
    ProviderError("503", "server", failed_attempts=("timeout",)),
)
steps = st.lists(st.tuples(st.sampled_from("xyz"), st.booleans(), replies | st.sampled_from(FAILURES)), max_size=6)


def without_bill(answer: Any) -> Any:
    if isinstance(answer, Reply) and answer.usage is not None:
        nominal = answer.usage.nominal_usd if answer.usage.nominal_usd is not None else answer.usage.cost_usd
        return replace(answer, usage=replace(answer.usage, cost_usd=None if nominal is None else 0.0, nominal_usd=nominal))
    return answer


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), ids), steps, max_size=4), st.data())
def test_a_replay_gives_what_was_recorded_in_any_order(courses: dict[tuple[str, str, str], Any], data: st.DataObject) -> None:
    async def play(recordings: Recordings, order: list[Any], *, replayed: bool, mixed: bool) -> dict[Any, list[Any]]:
        models: dict[tuple[str, str], RecordedModel] = {}
        queues: dict[Any, Reply | ModelError] = {}

        def inner(*trial: str) -> FakeModel:
            async def answer(request: Request) -> Reply | ModelError:
                await asyncio.sleep(0)
                return queues[*trial, request.scope, request.messages[-1].content]

            return FakeModel(then=answer)

        async def one(key: tuple[str, str, str]) -> list[Any]:
            came = []
            for what, stream, item in courses[key]:
                lasts = item is not FAILURES[3]
                if lasts or not replayed:
                    queues[*key, what] = item
                    answer = await heard(models[key[:2]], ask(what, scope=key[2]), stream)
                    came += [without_bill(answer)] if lasts else []
            return came

        for arm, task, _ in courses:
            if (arm, task) not in models:
                models[arm, task] = RecordedModel(recordings, "m", (arm, task, 0), inner(arm, task))
        came = await asyncio.gather(*map(one, order)) if mixed else [await one(key) for key in order]
        return dict(zip(order, came, strict=True))

    orders = [data.draw(st.permutations(sorted(courses))) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        recordings = Recordings(Path(folder), "record")
        recorded = run_sync(play(recordings, orders[0], replayed=False, mixed=True))
        recordings.close(data.draw(st.booleans()))
        if recordings.recorded:
            again = Recordings(Path(folder), "replay")
            assert run_sync(play(again, orders[1], replayed=True, mixed=data.draw(st.booleans()))) == recorded
            assert (again.replayed, again.first_miss) == (sum(map(len, recorded.values())), "")


ASKED = [ask(f"{n}é") for n in range(4)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that was interrupted."""
    folder = tmp_path_factory.mktemp("killed")
    use(folder, "record", ASKED, FakeModel(*(f"reply {n} ü" for n in range(4))), whole=False)
    return (folder / "m.jsonl").read_bytes()


def test_a_kill_at_any_byte_loses_the_last_line_alone(tmp_path: Path, killed: bytes) -> None:
    """At all bytes around the ends of lines, and at one in so many of the others; the run goes on from there."""
    ends = {place + near for place, byte in enumerate(killed) if byte == ord("\n") for near in (-1, 0, 1, 2)}
    for cut in sorted({*range(0, len(killed) + 1, 97), *ends} & {*range(len(killed) + 1)}):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "m.jsonl").write_bytes(killed[:cut])
        there = max(0, killed[:cut].count(b"\n") - 1)
        said = use(folder, "replay-or-record", ASKED, FakeModel(*(f"new {n}" for n in range(4 - there))), whole=cut % 2 == 0)
        assert texts(said) == [*(f"reply {n} ü" for n in range(there)), *(f"new {n}" for n in range(4 - there))]
        assert texts(use(folder, "replay", ASKED)) == texts(said)


MODES: tuple[RecordingMode, ...] = ("replay", "refresh")


def line_with(**changes: Any) -> str:
    line = {"request": "a" * 64, "task": "t", "arm": "a", "repeat": 0, "asked": {}, "reply": {}}
    return json.dumps(line | changes)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (line_with(use=-1), "use: "),
        (line_with(reply={"usage": {"input_tokens": 10**400}}), "reply.usage.input_tokens must be"),
        (line_with(error={"message": "no"}), "either a reply or an error"),
        (line_with(request="abc"), "request: "),
        (line_with(asked={"a": 1}).replace("1", "NaN"), "NaN is not JSON"),
        ('{"request": "a", "request": "b"}', "duplicate key 'request'"),
        ("<<<<<<< HEAD", ""),
    ],
)
def test_a_bad_line_is_named_and_left_as_it_is(tmp_path: Path, killed: bytes, line: str, said: str) -> None:
    path = tmp_path / "m.jsonl"
    for number, raw in ((1, line.encode()), (6, killed + line.encode())):
        path.write_bytes(raw + b"\n")
        for mode in MODES:
            with pytest.raises(ValueError, match=f"^{path}:{number}: ") as refused:
                use(tmp_path, mode, inner=FakeModel())
        assert path.read_bytes() == raw + b"\n"
    assert said in str(refused.value)
