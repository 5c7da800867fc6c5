"""Laws of recordings: lines, digests, replays, and files that were cut or damaged."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.models.cassette import (
    Cassette,
    Cleaner,
    Exchange,
    Lane,
    RecordedModel,
    RecordedRequest,
    Recording,
)
from whichloop.models.cassette.lines import Parts, decode, encode, exchange_line, read_exchange
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    ContextOverflow,
    Grammar,
    JsonValue,
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

from .cassettes import (
    EITHER,
    RECORD,
    REPLAY,
    any_text,
    ask,
    counts,
    failures,
    heard,
    lines_of,
    messages,
    money,
    names,
    objects,
    plain,
    requests,
    samplings,
    schemas,
    texts,
    use,
)

usages = st.builds(Usage, counts, counts, counts, st.booleans(), money, money)
calls = st.builds(NativeCall, texts, texts, texts)
replies = st.builds(
    Reply,
    texts,
    st.lists(calls, max_size=2).map(tuple),
    st.none() | usages,
    st.sampled_from(("stop", "tool_calls", "length", "content_filter", "other")),
    st.lists(texts, max_size=2).map(tuple),
)


@given(
    st.builds(
        Exchange,
        st.builds(RecordedRequest, st.just("ab" * 32), st.builds(Lane, texts, texts, counts), texts, counts, counts, texts),
        st.builds(
            Parts,
            st.lists(texts, max_size=3).map(tuple),
            st.lists(texts, max_size=2).map(tuple),
            st.none() | texts.filter(bool),
            st.none() | texts.filter(bool),
            st.dictionaries(st.sampled_from(("tool_choice", "stop", "seed")), schemas, max_size=2),
        ),
        replies | failures,
        st.booleans(),
        st.floats(0, 1e6),
    )
)
def test_a_line_is_read_as_it_was_written(exchange: Exchange) -> None:
    line = encode(exchange_line(replace(exchange, parts=replace(exchange.parts, settings={}))))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert line[:-1].decode().isprintable()
    assert read_exchange(decode(line)) == replace(exchange, parts=replace(exchange.parts, settings={}))


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON with the keys of its objects in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        order.shuffle(items)
        return {key: shuffled(item, order) for key, item in items}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(requests, st.randoms(use_true_random=False), st.permutations(["", "a", "b", "é"]), st.sampled_from(Role), st.text())
def test_what_changes_no_answer_changes_no_digest(request: Request, order: random.Random, ids: list[str], role: Role, scope: str):
    renamed = dict(zip(("", "a", "b", "é"), ids, strict=True))
    same = Request(
        tuple(
            replace(
                message,
                calls=tuple(replace(call, id=renamed[call.id]) for call in message.calls),
                call_id=renamed.get(message.call_id, ""),
            )
            for message in request.messages
        ),
        tuple(replace(tool, parameters=shuffled(tool.parameters, order)) for tool in request.tools),
        request.tool_choice,
        shuffled(request.response_schema, order),
        request.sampling,
        request.parallel_calls,
        role,
        scope,
        object(),  # type: ignore[arg-type]  # whatever codec
    )
    assert Cleaner().request(same) == Cleaner().request(request)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Request, Request]:
    """Two requests that differ in one thing that may change the answer."""
    one = draw(requests)
    at = draw(st.integers(0, len(one.messages) - 1))
    message = one.messages[at]
    kind = draw(
        st.sampled_from(
            ("content", "role", "order", "more", "call", "answers", "tools", "choice", "schema", "sampling", "parallel", "grammar")
        )
    )
    changed: Message | None = None
    if kind == "content":
        changed = replace(message, content=draw(any_text))
    elif kind == "role":
        changed = replace(message, role=draw(st.sampled_from(("system", "user", "assistant", "tool"))))
    elif kind == "call":
        changed = replace(message, calls=(*message.calls[:-1], draw(st.builds(NativeCall, names, any_text, any_text))))
    elif kind == "answers":
        changed = replace(message, call_id=draw(names))
    if changed is not None:
        return one, replace(one, messages=(*one.messages[:at], changed, *one.messages[at + 1 :]))
    if kind == "order":
        return one, replace(one, messages=tuple(draw(st.permutations(one.messages))))
    if kind == "more":
        return one, replace(one, messages=(*one.messages, draw(messages)))
    if kind == "tools":
        return one, replace(one, tools=(*one.tools[1:], draw(st.builds(ToolSpec, any_text, any_text, objects))))
    if kind == "choice":
        return one, replace(one, tool_choice=draw(st.none() | any_text))
    if kind == "parallel":
        return one, replace(one, parallel_calls=not one.parallel_calls)
    if kind == "schema":
        return one, replace(one, response_schema=draw(st.none() | objects))
    if kind == "grammar":
        return one, replace(one, grammar=Grammar(((JsonValue(draw(objects)),),)))
    return one, replace(one, sampling=draw(samplings))


@given(neighbours())
@example((ask(), ask(sampling=Sampling(temperature=0.5))))
@example((ask(sampling=Sampling(stop=("a",))), ask(sampling=Sampling(stop=("b",)))))
@example((ask(response_schema={}), ask()))
@example((ask(tool_choice=""), ask()))
def test_what_may_change_the_answer_changes_the_digest(pair: tuple[Request, Request]) -> None:
    one, other = pair
    assert (Cleaner().request(one).digest == Cleaner().request(other).digest) == (plain(one) == plain(other))


def test_a_digest_is_the_same_on_every_machine() -> None:
    request = Request(
        (Message("assistant", "é", (NativeCall("x", "add", '{"a":1}'),)), Message("tool", "2", call_id="x")),
        (ToolSpec("add", "Adds.", {"type": "object"}),),
        sampling=Sampling(temperature=0),
    )
    assert Cleaner().request(request).digest == "f780788cfe04f560c8b49380c7a73fc591540beb2c5c177d58363218e3f44343"
    assert Cleaner().request(replace(request, sampling=Sampling(temperature=0.0))) == Cleaner().request(request)


steps = st.lists(
    st.tuples(
        st.sampled_from(("x", "y", "z")),
        st.booleans(),
        replies
        | st.sampled_from(
            (
                ContextOverflow("too long"),
                ProviderError("not that", "refused", status=400),
                ProviderError("429: slow down", "rate_limit", status=429, retry_after_s=2.0, injected=True),
                ProviderError("503", "server", failed_attempts=("timeout",)),
            )
        ),
    ),
    max_size=6,
)


def free(answer: Any) -> Any:
    """As a replay gives it: nothing billed."""
    if not isinstance(answer, Reply) or answer.usage is None:
        return answer
    nominal = answer.usage.nominal_usd if answer.usage.nominal_usd is not None else answer.usage.cost_usd
    return replace(answer, usage=replace(answer.usage, cost_usd=None if nominal is None else 0.0, nominal_usd=nominal))


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), names), steps, max_size=4), st.data())
def test_a_replay_gives_what_was_recorded(courses: dict[tuple[str, str, str], Any], data: st.DataObject) -> None:
    """Any requests, equal ones too, of several trials with several scopes at once; in any order, put in order or not."""

    async def play(cassette: Cassette, order: list[Any], replayed: bool, mixed: bool) -> dict[Any, list[Any]]:
        models: dict[tuple[str, str], RecordedModel] = {}
        queues: dict[str, Reply | ModelError] = {}

        async def one(key: tuple[str, str, str], course: Any) -> list[Any]:
            came = []
            for text, stream, item in course:
                lasting = not isinstance(item, ProviderError) or item.injected or item.kind == "refused"
                if replayed and not lasting:
                    continue
                queues[f"{key}{text}"] = item
                request = ask(text, scope=key[2], role=Role.REASON)
                answer = await heard(models[key[:2]], request, stream)
                came.append(answer if lasting else None)
            return came

        def inner(*lane: str) -> FakeModel:
            async def answer(request: Request) -> Reply | ModelError:
                await asyncio.sleep(0)
                return queues[f"{(*lane, request.scope)}{request.messages[-1].content}"]

            return FakeModel(then=answer)

        for arm, task, _ in courses:
            models.setdefault((arm, task), cassette.model("m", Lane(arm, task, 0), inner(arm, task)))
        if mixed:
            came = await asyncio.gather(*(one(key, courses[key]) for key in order))
        else:
            came = [await one(key, courses[key]) for key in order]
        return {key: [free(answer) for answer in answers if answer is not None] for key, answers in zip(order, came, strict=True)}

    whole, mixed = data.draw(st.booleans()), data.draw(st.booleans())
    orders = [data.draw(st.permutations(sorted(courses))) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        cassette = Cassette.open(Path(folder), RECORD)
        recorded = run_sync(play(cassette, orders[0], replayed=False, mixed=True))
        cassette.close(whole)
        if not cassette.recorded:
            return
        again = Cassette.open(Path(folder), REPLAY)
        assert run_sync(play(again, orders[1], replayed=True, mixed=mixed)) == recorded
        assert (again.hits, again.misses) == (sum(map(len, recorded.values())), 0)


def exchanges_of(raw: bytes) -> list[Any]:
    """Reply texts by the whole lines of exchanges."""
    found = []
    for line in raw.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if "request" in value:
            found.append(value["reply"]["text"])
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that was interrupted."""
    folder = tmp_path_factory.mktemp("killed")
    use(folder, RECORD, [ask(f"{n}é") for n in range(4)], FakeModel(*(f"reply {n} ü" for n in range(4))), whole=False)
    return (folder / "m.jsonl").read_bytes()


@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_byte_loses_no_whole_entry(tmp_path: Path, killed: bytes, every: int) -> None:
    """At all bytes around the ends of lines, and at one in so many of the others."""
    ends = {place + near for place, byte in enumerate(killed) if byte == ord("\n") for near in range(-2, 4)}
    for cut in sorted({*range(0, len(killed) + 1, every), *ends, len(killed)} & {*range(len(killed) + 1)}):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "m.jsonl").write_bytes(killed[:cut])
        there = exchanges_of(killed[:cut])
        replayed = [exchange.answer for exchange in Recording(folder, "m")]
        assert [answer.text for answer in replayed if isinstance(answer, Reply)] == there
        if cut % (17 if every == 1 else 44) == 0:  # and the run can go on
            asked = [ask(f"{n}é") for n in range(4)]
            said = use(folder, EITHER, asked, FakeModel(*(f"new {n}" for n in range(4))), whole=cut % 2 == 0)
            assert [reply.text for reply in said[: len(there)]] == there
            assert use(folder, REPLAY, asked) == said
            assert len(lines_of(folder / "m.jsonl")) >= 1 + 1 + 4 + 4


@settings(max_examples=cases(40))
@given(data=st.data())
def test_a_file_that_was_tampered_with_is_read_or_refused(killed: bytes, data: st.DataObject) -> None:
    junk = st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [b"[" * 5_000, b'{"a":' * 5_000, b"9" * 5_000, b"NaN", b"null", b"-1", b"1e999", b'"\\ud800"', b"{}", b"\n"]
        ),
    )
    raw = bytearray(killed)
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(raw)))
        raw[start : start + data.draw(st.integers(0, 40))] = data.draw(junk)
    else:  # one value of one line
        parts = killed.splitlines()
        number = data.draw(st.integers(0, len(parts) - 1))
        line = json.loads(parts[number])
        line[data.draw(st.sampled_from(sorted(line)))] = data.draw(schemas)
        parts[number] = json.dumps(line).encode()
        raw = bytearray(b"\n".join(parts) + b"\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.jsonl"
        path.write_bytes(raw)
        if data.draw(st.booleans()):
            reseal(path)
        said = ""
        try:
            read = list(Recording(Path(folder), "m"))
        except ValueError as error:
            said = str(error)
        if said:
            assert said.startswith(f"{path}:")
            assert len(said) < 400
            assert said.isprintable()
        else:  # and what could be read can be written
            use(Path(folder), EITHER, [ask("more")], FakeModel("more"))
            assert len(Recording(Path(folder), "m")) == len(read) + 1


def exchange_with(**changes: Any) -> str:
    line = {"request": "a" * 64, "task": "t", "arm": "a", "repeat": 0, "call": 0, "role": "decide", "messages": [], "reply": {}}
    return json.dumps(line | changes)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (exchange_with(call=-1), "'call' is negative"),
        (exchange_with(seconds=-0.5), "'seconds' is negative"),
        (exchange_with(seconds=10**400), "'seconds' is larger than"),
        (exchange_with(reply={"usage": {"input_tokens": 10**400}}), "'input_tokens' is larger than"),
        (exchange_with(reply={"usage": {"cost_usd": 1e300}}), "'cost_usd' is larger than"),
        ("<<<<<<< HEAD", "its checksum"),
        ("[1]", "its checksum"),
        ("{}", "not a line of a recording"),
        ('{"message": "abc", "role": "user", "content": ""}', "'abc' is not an id"),
        ('{"message": "0123456789ab", "role": "robot", "content": ""}', "'role' is 'robot'"),
        ('{"message": "0123456789ab", "role": "user", "content": 3}', "'content' is a int"),
        ('{"message": "0123456789ab", "role": "user", "content": "", "extra": 1}', "unknown field 'extra'"),
        ('{"request": "abc"}', "'abc' is not the digest of a request"),
        ('{"schema": "0123456789ab", "value": ' + '{"a": ' * 200 + "1" + "}" * 201, "nested too deep"),
        ('{"schema": "0123456789ab", "value": {"a": NaN}}', "NaN is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, killed: bytes, line: str, said: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(killed + line.encode() + b"\n")
    reseal(path)
    with pytest.raises(ValueError, match=said) as raised:
        Cassette.open(tmp_path, REPLAY).check("m")
    assert str(raised.value).startswith(f"{path}:{len(killed.splitlines()) + 1}: ")


def test_a_part_that_is_lost_is_named(tmp_path: Path, killed: bytes) -> None:
    kept = [line for line in killed.splitlines() if b"2\xc3\xa9" not in line]
    (tmp_path / "m.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    with pytest.raises(ValueError, match=r"m\.jsonl:\d+: refers to '[0-9a-f]{12}', which is not recorded"):
        Recording(tmp_path, "m")
