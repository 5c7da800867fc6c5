"""Recordings: what was recorded is given again, exactly; what was not says how it differs; no file holds a secret."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopbench.models.cassette import (
    Cassette,
    CassetteMode,
    Cleaner,
    Exchange,
    Failure,
    Lane,
    RecordedModel,
    RecordedRequest,
    Recording,
    RecordingError,
    RecordingMiss,
)
from loopbench.models.cassette.lines import Parts, decode, encode, exchange_line, part_id, read_exchange
from loopbench.models.cassette.recording import recorded_models, slug
from loopbench.models.fake import FakeModel
from loopbench.models.streaming import pieces
from loopbench.models.tunnel import FaultState, ReplyEffects
from loopbench.protocol import (
    BudgetExceeded,
    Capabilities,
    Chunk,
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
from loopbench.protocol.digest import canonical_json

LANE = Lane("bare", "t1", 0)
CLEAN = Cleaner().text
WHOLE_ONLY = Capabilities(streaming=False)
RECORD, REPLAY, EITHER, REFRESH = (
    CassetteMode.RECORD,
    CassetteMode.REPLAY,
    CassetteMode.REPLAY_OR_RECORD,
    CassetteMode.REFRESH,
)


def ask(text: str = "What?", **changes: Any) -> Request:
    return Request((Message("system", "Be brief."), Message("user", text)), **changes)


async def heard(model: RecordedModel, request: Request, stream: bool = False) -> Any:
    """What came: the reply, or the error as plain values."""
    try:
        if not stream:
            return await model.complete(request)
        return [chunk async for chunk in model.stream(request)][-1].reply
    except ProviderError as error:
        return (
            error.kind,
            str(error),
            error.status,
            error.retry_after_s,
            error.injected,
            error.failed_attempts,
        )
    except ModelError as error:
        return type(error).__name__, str(error)


def use(
    folder: Path,
    mode: CassetteMode,
    requests: Sequence[Request] = (),
    inner: FakeModel | None = None,
    *,
    lane: Lane = LANE,
    name: str = "m",
    whole: bool = True,
) -> list[Any]:
    """What one trial hears."""
    cassette = Cassette.open(folder, mode)
    try:
        model = cassette.model(name, lane, inner)
        return [run_sync(heard(model, request)) for request in requests]
    finally:
        cassette.close(whole)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- laws ---

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
texts = any_text.map(CLEAN)
names = st.sampled_from(("", "a", "b", "é"))
counts = st.integers(0, 10**6)
money = st.none() | st.floats(0, 1e6)
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
failures = st.builds(
    Failure,
    st.sampled_from(("context_overflow", "refused", "rate_limit", "timeout", "bad_request")),
    texts,
    st.none() | counts,
    money,
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
)
fault_states = st.builds(
    FaultState,
    counts,
    texts,
    texts,
    texts,
    st.sampled_from(("feedback", "after", "never")),
    counts,
    st.booleans(),
    counts,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
)
effects = st.builds(
    ReplyEffects,
    st.floats(0, 1e6),
    st.none() | texts,
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
    st.lists(fault_states, max_size=2).map(tuple),
)
schemas = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(any_text, schemas, max_size=3)
messages = st.one_of(
    st.builds(Message, st.sampled_from(("system", "user")), any_text),
    st.builds(
        Message,
        st.just("assistant"),
        any_text,
        st.lists(st.builds(NativeCall, names, any_text, any_text), max_size=2).map(tuple),
    ),
    st.builds(Message, st.just("tool"), any_text, st.just(()), names),
)
samplings = st.builds(
    Sampling,
    st.none() | st.floats(0, 2),
    st.none() | counts,
    st.none() | st.floats(0, 1),
    st.none() | counts,
    st.lists(any_text, max_size=2).map(tuple),
)
requests = st.builds(
    Request,
    st.lists(messages, min_size=1, max_size=4).map(tuple),
    st.lists(st.builds(ToolSpec, any_text, any_text, objects), max_size=2).map(tuple),
    st.none() | any_text,
    st.none() | objects,
    samplings,
    st.booleans(),
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
            st.dictionaries(st.sampled_from(("tool_choice", "stop", "seed")), schemas, max_size=2),
        ),
        replies | failures,
        st.booleans(),
        st.floats(0, 1e6),
        st.none() | effects,
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
            ("content", "role", "order", "more", "call", "answers", "tools", "choice", "schema", "sampling", "parallel")
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
    return one, replace(one, sampling=draw(samplings))


def plain(request: Request) -> str:
    """What is asked, call ids by their first appearance: written down once more, apart from the code under test."""
    seen: list[str] = []

    def place(name: str) -> int:
        if name not in seen:
            seen.append(name)
        return seen.index(name)

    said = []
    for message in request.messages:
        made = [[place(call.id), call.name, call.arguments] for call in message.calls]
        said.append([message.role, message.content, made, place(message.call_id) if message.role == "tool" else None])
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    sampling = [None if value is None else value for value in (request.sampling.as_dict(),)]
    one_call = bool(tools) and not request.parallel_calls
    return canonical_json([said, tools, request.tool_choice, request.response_schema, sampling, one_call])


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


def test_a_kill_at_any_byte_loses_no_whole_entry(tmp_path: Path, killed: bytes) -> None:
    for cut in range(len(killed) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "m.jsonl").write_bytes(killed[:cut])
        there = exchanges_of(killed[:cut])
        replayed = [exchange.answer for exchange in Recording(folder, "m")]
        assert [answer.text for answer in replayed if isinstance(answer, Reply)] == there
        if cut % 7 == 0:  # and the run can go on
            asked = [ask(f"{n}é") for n in range(4)]
            said = use(folder, EITHER, asked, FakeModel(*(f"new {n}" for n in range(4))), whole=cut % 2 == 0)
            assert [reply.text for reply in said[: len(there)]] == there
            assert use(folder, REPLAY, asked) == said
            assert len(lines_of(folder / "m.jsonl")) >= 1 + 1 + 4 + 4


@settings(max_examples=150)
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
        ("<<<<<<< HEAD", "Expecting value"),
        ("[1]", "no JSON object"),
        ("{}", "no line of a recording"),
        ('{"message": "abc", "role": "user", "content": ""}', "'abc' is no id"),
        ('{"message": "0123456789ab", "role": "robot", "content": ""}', "'role' is 'robot'"),
        ('{"message": "0123456789ab", "role": "user", "content": 3}', "'content' is a int"),
        ('{"message": "0123456789ab", "role": "user", "content": "", "extra": 1}', "unknown field 'extra'"),
        ('{"request": "abc"}', "'abc' is no digest of a request"),
        ('{"schema": "0123456789ab", "value": ' + '{"a": ' * 200 + "1" + "}" * 201, "nested too deep"),
        ('{"schema": "0123456789ab", "value": {"a": NaN}}', "NaN is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, killed: bytes, line: str, said: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(killed + line.encode() + b"\n")
    with pytest.raises(ValueError, match=said) as raised:
        Cassette.open(tmp_path, REPLAY).check("m")
    assert str(raised.value).startswith(f"{path}:{len(killed.splitlines()) + 1}: ")


def test_a_part_that_is_lost_is_named(tmp_path: Path, killed: bytes) -> None:
    kept = [line for line in killed.splitlines() if b"2\xc3\xa9" not in line]
    (tmp_path / "m.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    with pytest.raises(ValueError, match=r"m\.jsonl:\d+: refers to '[0-9a-f]{12}', which is not recorded"):
        Recording(tmp_path, "m")


# --- modes ---


def test_record_wants_a_model_that_is_not_recorded_yet(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("one"))
    with pytest.raises(ValueError, match="m is recorded already; mode replay-or-record adds to it, mode refresh asks all anew"):
        use(tmp_path, RECORD, [ask()], FakeModel("two"))
    use(tmp_path, RECORD, [ask()], FakeModel("two"), name="other")
    assert recorded_models(tmp_path) == ["m", "other"]


def test_replay_needs_a_recording_and_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder of recordings"):
        Cassette.open(tmp_path / "none", REPLAY)
    with pytest.raises(ValueError, match="no recording of openai/x; recorded models: none"):
        Cassette.open(tmp_path, REPLAY).check("openai/x")
    (tmp_path / "notes.jsonl").write_text("something else\n")
    use(tmp_path, RECORD, [ask()], FakeModel("one"), name="openai/y")
    with pytest.raises(ValueError, match="no recording of openai/x; recorded models: openai/y"):
        Cassette.open(tmp_path, REPLAY).check("openai/x")


def test_replay_takes_capabilities_from_the_recording_and_asks_nobody(tmp_path: Path) -> None:
    able = Capabilities(False, False, True, False, False, 4_000)
    inner = FakeModel("one")
    inner.capabilities = able
    use(tmp_path, RECORD, [ask()], inner)
    nobody = FakeModel()
    model = Cassette.open(tmp_path, REPLAY).model("m", LANE, nobody)
    assert (model.name, model.capabilities) == ("m", able)
    assert run_sync(heard(model, ask())).text == "one"
    assert run_sync(heard(model, ask()))[0] == "connection"
    assert not nobody.requests
    with pytest.raises(ValueError, match="needs a model to ask"):
        Cassette.open(tmp_path, EITHER).model("m", LANE, None)


def test_two_models_under_one_name_are_refused(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    cassette.model("m", LANE, FakeModel())
    with pytest.raises(ValueError, match="two models of different capabilities are recorded as 'm'"):
        cassette.model("m", LANE, FakeModel(capabilities=WHOLE_ONLY))


def test_replay_or_record_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a")], FakeModel("A"))
    inner = FakeModel("B", "A2")
    cassette = Cassette.open(tmp_path, EITHER)
    model = cassette.model("m", LANE, inner)
    said = [run_sync(heard(model, ask(text))).text for text in ("a", "b", "a")]
    cassette.close(True)
    assert said == ["A", "B", "A2"]
    assert (cassette.hits, cassette.misses, cassette.recorded) == (1, 2, 2)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b"), ask("a")])] == said


def test_a_first_replay_or_record_records_as_record_does(tmp_path: Path) -> None:
    """Arms and scopes that ask the same in one run are all answered by the model, whichever comes first."""
    scopes = [ask(scope=scope) for scope in ("left", "right")]
    for folder, mode in ((tmp_path / "a", RECORD), (tmp_path / "b", EITHER)):
        cassette = Cassette.open(folder, mode)
        for arm in ("x", "y"):
            model = cassette.model("m", Lane(arm, "t", 0), FakeModel(f"{arm}1", f"{arm}2"))
            for request in scopes:
                run_sync(heard(model, request))
        cassette.close(True)
        for arm in ("x", "y"):
            assert [reply.text for reply in use(folder, REPLAY, scopes, lane=Lane(arm, "t", 0))] == [f"{arm}1", f"{arm}2"]
    assert without_times(tmp_path / "a" / "m.jsonl") == without_times(tmp_path / "b" / "m.jsonl")


def test_a_trial_that_runs_again_in_the_same_run_is_given_what_it_had(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, EITHER)
    inner = FakeModel("A", ProviderError("503"), "B")
    first, second = (cassette.model("m", LANE, inner) for _ in range(2))
    came = [run_sync(heard(model, ask(text))) for model in (first, second) for text in "ab"]
    cassette.close(True)
    assert [answer.text for answer in (came[0], *came[2:])] == ["A", "A", "B"]
    assert len(inner.requests) == 3


def without_times(path: Path) -> list[str]:
    return [json.dumps({key: value for key, value in line.items() if key != "seconds"}) for line in lines_of(path)]


def test_a_refresh_that_changes_one_reply_changes_one_line(tmp_path: Path) -> None:
    asked = [ask(text) for text in "abc"]
    use(tmp_path, RECORD, asked, FakeModel("A", "B", "C"))
    before = without_times(tmp_path / "m.jsonl")
    use(tmp_path, REFRESH, asked, FakeModel("A", "other", "C"))
    after = without_times(tmp_path / "m.jsonl")
    assert len(before) == len(after) == 8
    assert [new for old, new in zip(before, after, strict=True) if old != new] == [next(new for new in after if '"other"' in new)]


def test_a_whole_refresh_drops_what_was_not_asked_an_interrupted_one_keeps_it(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a"), ask("b")], FakeModel("A", "B"))
    use(tmp_path, REFRESH, [ask("a")], FakeModel("A2"), whole=False)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b")])] == ["A2", "B"]
    use(tmp_path, REFRESH, [ask("a")], FakeModel("A3"))
    assert use(tmp_path, REPLAY, [ask("a")])[0].text == "A3"
    assert use(tmp_path, REPLAY, [ask("b")])[0][0] == "connection"
    assert len(lines_of(tmp_path / "m.jsonl")) == 4


def test_a_refresh_loses_no_trial_in_which_the_model_failed(tmp_path: Path) -> None:
    for task in ("t1", "t2"):
        use(tmp_path, EITHER, [ask("a"), ask("b")], FakeModel("A", "B"), lane=Lane("bare", task, 0))
    cassette = Cassette.open(tmp_path, REFRESH)
    run_sync(heard(cassette.model("m", Lane("bare", "t1", 0), FakeModel(ProviderError("503"))), ask("a")))
    run_sync(heard(cassette.model("m", Lane("bare", "t2", 0), FakeModel(Reply("A2"))), ask("a")))
    cassette.close(True)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b")], lane=Lane("bare", "t1", 0))] == ["A", "B"]
    assert {exchange.asked.lane.task: exchange.answer for exchange in Recording(tmp_path, "m")}["t2"] == Reply("A2")


def test_a_refresh_that_goes_on_keeps_what_it_had_refreshed(tmp_path: Path) -> None:
    first, second = (Lane("bare", task, 0) for task in ("t1", "t2"))
    for lane in (first, second):
        use(tmp_path, EITHER, [ask(lane.task)], FakeModel("old"), lane=lane)
    use(tmp_path, REFRESH, [ask("t1")], FakeModel("new"), lane=first, whole=False)
    cassette = Cassette.open(tmp_path, REFRESH, goes_on=True)
    run_sync(heard(cassette.model("m", second, FakeModel("new")), ask("t2")))
    cassette.close(True)
    assert [use(tmp_path, REPLAY, [ask(lane.task)], lane=lane)[0].text for lane in (first, second)] == ["new", "new"]


def test_an_interrupted_recording_goes_on_and_is_put_in_order(tmp_path: Path) -> None:
    for text, lane, whole in (("b", Lane("y", "t2", 0), False), ("a", Lane("x", "t1", 1), False), ("c", Lane("x", "t1", 0), True)):
        use(tmp_path, EITHER, [ask(text)], FakeModel(text), lane=lane, whole=whole)
    asked = [line for line in lines_of(tmp_path / "m.jsonl") if "request" in line]
    assert [(line["task"], line["arm"], line["repeat"]) for line in asked] == [("t1", "x", 0), ("t1", "x", 1), ("t2", "y", 0)]


# --- whose reply ---


def test_a_trial_gets_its_own_else_its_arms_else_its_tasks_else_the_first(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    for arm, task in (("a", "t1"), ("a", "t2"), ("b", "t1"), ("b", "t3")):
        run_sync(heard(cassette.model("m", Lane(arm, task, 0), FakeModel(f"{arm}{task}")), ask()))
    cassette.close(True)

    def given_to(arm: str, task: str) -> Any:
        return use(tmp_path, REPLAY, [ask()], lane=Lane(arm, task, 0))[0].text

    assert given_to("b", "t1") == "bt1"
    assert given_to("b", "t2") == "bt1"
    assert given_to("c", "t2") == "at2"
    assert given_to("c", "t9") == "at1"
    assert use(tmp_path, REPLAY, [ask()], lane=Lane("a", "t1", 1))[0][0] == "connection"


def test_what_a_run_was_given_of_another_arm_its_replay_finds_again(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("old"), lane=Lane("z", "t1", 0))
    cassette = Cassette.open(tmp_path, EITHER)
    nobody = FakeModel()
    assert run_sync(heard(cassette.model("m", Lane("b", "t1", 0), nobody), ask())).text == "old"
    run_sync(heard(cassette.model("m", Lane("a", "t1", 0), FakeModel("new")), ask("else")))
    cassette.close(True)
    assert not nobody.requests
    use(tmp_path, REFRESH, [ask()], FakeModel("other"), lane=Lane("a", "t1", 0), whole=False)
    assert use(tmp_path, REPLAY, [ask()], lane=Lane("b", "t1", 0))[0].text == "old"


def test_scopes_that_ask_the_same_keep_their_own(tmp_path: Path) -> None:
    scopes = [ask(scope=scope) for scope in ("left", "right")]
    use(tmp_path, RECORD, scopes, FakeModel("L", "R"))
    assert [reply.text for reply in use(tmp_path, REPLAY, scopes[::-1])] == ["R", "L"]


# --- what is recorded ---


@pytest.mark.parametrize("kind", ["rate_limit", "server", "timeout", "connection", "auth"])
def test_a_failure_that_passes_is_not_recorded_and_shifts_nothing(tmp_path: Path, kind: Any) -> None:
    asked = [ask(), ask(), ask()]
    failure = ProviderError("later", kind)
    said = use(tmp_path, RECORD, asked, FakeModel(failure, "one", "two"))
    assert said[0][0] == kind
    assert [reply.text for reply in use(tmp_path, REPLAY, asked[1:])] == ["one", "two"]
    assert len(Recording(tmp_path, "m")) == 2


def test_a_failure_that_stays_is_recorded(tmp_path: Path) -> None:
    failures = [
        ContextOverflow("too long"),
        ProviderError("no", "refused", status=400),
        ProviderError("no", "bad_request"),
        ProviderError("injected", "server", injected=True, retry_after_s=1.5, failed_attempts=("timeout",)),
    ]
    asked = [ask(str(number)) for number in range(4)]
    said = use(tmp_path, RECORD, asked, FakeModel(*failures))
    assert said[3] == ("server", "injected", None, 1.5, True, ("timeout",))
    assert use(tmp_path, REPLAY, asked) == said


@pytest.mark.parametrize("left", [BudgetExceeded("used up"), asyncio.CancelledError(), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_not_recorded(tmp_path: Path, left: BaseException, stream: bool) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    model = cassette.model("m", LANE, FakeModel(left, "reply"))

    async def go() -> Any:
        with pytest.raises(type(left)):
            await heard(model, ask(), stream)
        return await heard(model, ask(), stream)

    assert run_sync(go()).text == "reply"
    cassette.close(True)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask()])] == ["reply"]


def test_a_request_that_json_cannot_say_is_the_askers_fault(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"a": deep}
    bad: list[dict[Any, Any]] = [{"a": {1}}, {"a": float("nan")}, {1: 2, "a": 3}, deep]
    cassette = Cassette.open(tmp_path, RECORD)
    inner = FakeModel()
    model = cassette.model("m", LANE, inner)
    for schema in bad:
        kind, said, *_ = run_sync(heard(model, ask(response_schema=schema)))
        assert (kind, said.partition(":")[0]) == ("bad_request", "the request cannot be sent")
    assert not inner.requests


def test_a_replayed_reply_costs_nothing_and_keeps_its_price(tmp_path: Path) -> None:
    used = [Usage(10, 2, 3, False, 0.5, 0.7), Usage(10, 2, cost_usd=0.5), Usage(10, 2, estimated=True), None]
    asked = [ask(str(number)) for number in range(4)]
    recorded = use(tmp_path, RECORD, asked, FakeModel(*(Reply("r", usage=usage) for usage in used)))
    assert [reply.usage for reply in recorded] == used
    replayed = [reply.usage for reply in use(tmp_path, REPLAY, asked)]
    assert replayed == [Usage(10, 2, 3, False, 0.0, 0.7), Usage(10, 2, 0, False, 0.0, 0.5), used[2], None]


def test_latency_is_recorded_and_added_up_not_slept(tmp_path: Path) -> None:
    async def slowly(request: Request) -> str:
        await asyncio.sleep(0.02)
        return request.messages[-1].content

    use(tmp_path, RECORD, [ask("a"), ask("b")], FakeModel(then=slowly))
    path = tmp_path / "m.jsonl"
    path.write_text(path.read_text().replace('"seconds": 0', '"seconds": 1000'))
    cassette = Cassette.open(tmp_path, REPLAY)
    model = cassette.model("m", LANE, None)
    run_sync(heard(model, ask("a")))
    first = model.replayed_s
    run_sync(heard(model, ask("b"), stream=True))
    assert first >= 1000
    assert model.replayed_s >= first + 1000


# --- streams ---


def test_a_stream_is_recorded_whole_and_replayed_in_pieces(tmp_path: Path) -> None:
    reply = Reply("some words here", (NativeCall("c", "add", '{"a": 1, "b": 22222}'),), Usage(3, 4))

    async def chunks(model: RecordedModel) -> list[Chunk]:
        return [chunk async for chunk in model.stream(ask())]

    cassette = Cassette.open(tmp_path, RECORD)
    recorded = run_sync(chunks(cassette.model("m", LANE, FakeModel(reply))))
    cassette.close(True)
    assert run_sync(chunks(Cassette.open(tmp_path, REPLAY).model("m", LANE, None))) == recorded == list(pieces(reply))
    assert use(tmp_path, REPLAY, [ask()]) == [reply]


def test_a_model_that_streams_nothing_replays_one_chunk(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel(Reply("one two"), capabilities=WHOLE_ONLY))

    async def chunks() -> list[Chunk]:
        return [chunk async for chunk in Cassette.open(tmp_path, REPLAY).model("m", LANE, None).stream(ask())]

    assert run_sync(chunks()) == [Chunk("one two", reply=Reply("one two"))]


async def close_after(model: RecordedModel, count: int) -> None:
    stream: Any = model.stream(ask())
    for _ in range(count):
        await anext(stream)
    await stream.aclose()


def test_a_stream_that_the_loop_closes_is_recorded_as_far_as_it_came(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    inner = FakeModel(Reply("one two", (NativeCall("c", "add", '{"a": 1, "b": 22222}'),)), "after")
    model = cassette.model("m", LANE, inner)
    run_sync(close_after(model, 4))
    assert run_sync(heard(model, ask())).text == "after"
    cassette.close(True)
    replayed = use(tmp_path, REPLAY, [ask(), ask()])
    assert replayed[0] == Reply("one two", (NativeCall("c", "add", '{"a": 1, "b"'),), None, "other")
    assert replayed[1].text == "after"
    assert [exchange.cut for exchange in Recording(tmp_path, "m")] == [True, False]


def test_a_stream_that_is_closed_because_its_trial_was_cancelled_is_not_recorded(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    model = cassette.model("m", LANE, FakeModel("one two three", "later"))

    async def consume() -> None:
        stream: Any = model.stream(ask())  # nothing of it shifts what comes later
        try:
            await anext(stream)
            await asyncio.sleep(60)
        finally:
            await stream.aclose()

    async def go() -> None:
        running = asyncio.create_task(consume())
        await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        await heard(model, ask())

    run_sync(go())
    cassette.close(True)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask()])] == ["later"]
    assert cassette.recorded == 1


def test_a_stream_that_ends_after_its_run_writes_nothing(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, RECORD)
    model = cassette.model("m", LANE, FakeModel("zero", "one two three"))

    async def go() -> bytes:
        await heard(model, ask("before"))
        stream: Any = model.stream(ask())
        await anext(stream)
        cassette.close(True)
        written = (tmp_path / "m.jsonl").read_bytes()
        await stream.aclose()
        return written

    assert run_sync(go()) == (tmp_path / "m.jsonl").read_bytes()


# --- secrets ---


def test_no_secret_reaches_a_file_and_the_loop_sees_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "tulip-and-plum-77")
    shaped = "sk-abcdefgh12345678"
    secret = f"tulip-and-plum-77 {shaped}"
    request = Request(
        (
            Message("system", secret),
            Message("assistant", secret, (NativeCall(secret, secret, json.dumps({"key": secret})),)),
            Message("tool", secret, call_id=secret),
        ),
        (ToolSpec(secret, secret, {"description": secret, secret: [secret]}),),
        secret,
        {"title": secret},
        Sampling(stop=(secret,)),
        scope=secret,
    )
    reply = Reply(secret, (NativeCall(secret, secret, f'{{"a": "{secret}"}}'),))
    lane = Lane(secret, secret, 0)
    asked = [request, request, replace(request, tool_choice=None)]
    said = use(tmp_path, RECORD, asked, FakeModel(reply, ContextOverflow(secret), ProviderError(secret, "refused")), lane=lane)
    assert "tulip" not in str(said)
    assert shaped not in str(said)
    assert use(tmp_path, REPLAY, asked, lane=lane) == said
    missed = use(tmp_path, REPLAY, [replace(request, tool_choice=f"{secret}!")], lane=lane)
    cassette = Cassette.open(tmp_path, REPLAY)
    run_sync(heard(cassette.model("m", lane, None), replace(request, response_schema=None)))
    for text in (str(missed), cassette.first_miss, *(file.read_text() for file in tmp_path.iterdir())):
        assert "tulip" not in text
        assert shaped not in text


# --- files ---


def test_equal_parts_are_stored_once_and_growth_is_linear(tmp_path: Path) -> None:
    tools = (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
    history = [Message("system", "x" * 2_000)]
    asked = []
    for number in range(20):
        history.append(Message("user", f"{number} " + "y" * 500))
        asked.append(Request(tuple(history), tools, response_schema={"title": "z" * 1_000}))
    use(tmp_path, RECORD, asked, FakeModel(*(["r"] * 20)))
    raw = (tmp_path / "m.jsonl").read_text()
    assert len(raw) < 2_000 + 1_000 + 20 * 500 + 20 * 700
    assert raw.count("z" * 1_000) == raw.count('"tool": ') == 1


def test_halves_of_a_character_are_the_character(tmp_path: Path) -> None:
    """A file cannot keep them apart; a half alone stays one."""
    halves, whole, alone = "\ud83d\ude00", "\U0001f600", "\ude00\ud83d"
    schema = {"title": halves}
    use(
        tmp_path,
        RECORD,
        [ask(text, response_schema=schema) for text in (halves, halves, halves, alone)],
        FakeModel(halves, "two", "3", alone),
    )
    asked = [ask(text, response_schema={"title": whole}) for text in (whole, whole, whole, alone)]
    assert [reply.text for reply in use(tmp_path, REPLAY, asked)] == [whole, "two", "3", alone]
    assert len(lines_of(tmp_path / "m.jsonl")) == 9  # the first, three messages, a schema, four exchanges


def test_two_parts_of_one_short_id_are_kept_apart(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("first")], FakeModel("one"))
    path = tmp_path / "m.jsonl"
    taken, wanted = (part_id("message", {"role": "user", "content": text}) for text in ("first", "second"))
    path.write_text(path.read_text().replace(taken, wanted))  # as if the two began with the same digits
    use(tmp_path, EITHER, [ask("second")], FakeModel("two"))
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("first"), ask("second")])] == ["one", "two"]
    ids = [line["message"] for line in lines_of(path) if "message" in line and "role" in line]
    assert sorted(map(len, ids)) == [12, 12, 64]


def test_a_packed_recording_is_read_and_unpacked_when_it_grows(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a")], FakeModel("A"))
    plain, packed = tmp_path / "m.jsonl", tmp_path / "m.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert use(tmp_path, REPLAY, [ask("a")])[0].text == "A"
    assert use(tmp_path, EITHER, [ask("a")], FakeModel())[0].text == "A"
    assert [file.name for file in tmp_path.iterdir()] == ["m.jsonl.gz"]
    use(tmp_path, EITHER, [ask("a"), ask("b")], FakeModel("B"), whole=False)
    assert [file.name for file in tmp_path.iterdir()] == ["m.jsonl"]
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b")])] == ["A", "B"]


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-20], lambda raw: b"no gzip", lambda raw: raw[:20] + b"\xff" * 40 + raw[60:]])
def test_a_packed_recording_that_is_broken_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    use(tmp_path, RECORD, [ask(str(number)) for number in range(9)], FakeModel(*"ABCDEFGHI"))
    plain = tmp_path / "m.jsonl"
    (tmp_path / "m.jsonl.gz").write_bytes(spoil(gzip.compress(plain.read_bytes())))
    plain.unlink()
    with pytest.raises(ValueError, match=r"m\.jsonl\.gz"):
        Cassette.open(tmp_path, REPLAY).check("m")


def test_names_of_models_become_names_of_files(tmp_path: Path) -> None:
    assert slug("openai/gpt-4o-mini") == "openai-gpt-4o-mini"
    assert slug("../../etc/passwd") == "etc-passwd"
    assert slug("日本").startswith("model-")
    assert len(slug("x" * 500)) == 100
    use(tmp_path, RECORD, [ask()], FakeModel("one"), name="a/b")
    with pytest.raises(ValueError, match="records the model 'a/b', and 'a-b' would have the same file: use another folder"):
        use(tmp_path, RECORD, [ask()], FakeModel("one"), name="a-b")
    cassette = Cassette.open(tmp_path, EITHER)
    cassette.check("c/d")
    with pytest.raises(ValueError, match="'c/d' and 'c-d' would have the same file"):
        cassette.check("c-d")


def test_another_version_is_refused(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("one"))
    path = tmp_path / "m.jsonl"
    path.write_text(path.read_text().replace('"cassette": 1', '"cassette": 2'))
    with pytest.raises(ValueError, match=r"m\.jsonl:1: a recording of version 2, this loopbench reads 1"):
        use(tmp_path, REPLAY, [ask()])


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a")], FakeModel("A"))
    path = tmp_path / "m.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    use(tmp_path, EITHER, [ask("a"), ask("b")], FakeModel("B"), whole=False)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b")])] == ["A", "B"]


RECORDS_ON = """
import asyncio, sys
from pathlib import Path
from loopbench.models.cassette import Cassette, CassetteMode, Lane
from loopbench.protocol import Capabilities, Message, ProviderError, Reply, Request

class Echo:
    name, capabilities = "echo", Capabilities()
    async def complete(self, request):
        return Reply(request.messages[-1].content * 50)

async def main():
    model = Cassette.open(Path(sys.argv[1]), CassetteMode.RECORD).model("m", Lane("a", "t", 0), Echo())
    for number in range(int(sys.argv[2])):
        try:
            await model.complete(Request((Message("user", str(number)),)))
        except ProviderError as error:
            print(type(error).__name__, str(error), error is model.failure, flush=True)
            return
        print(number, flush=True)

%s
asyncio.run(main())
"""


def recorder(folder: Path, count: int, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RECORDS_ON % before, str(folder), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_what_a_loop_was_given_survives_a_kill_and_only_one_process_records(tmp_path: Path) -> None:
    with recorder(tmp_path, 10**9) as running:
        assert running.stdout is not None
        seen = [running.stdout.readline().strip() for _ in range(50)]
        with pytest.raises(ValueError, match="another run is recording here"):
            Cassette.open(tmp_path, EITHER)
        there = len(Recording(tmp_path, "m"))  # a replay may read meanwhile
        running.send_signal(signal.SIGKILL)
    assert seen == [str(number) for number in range(50)]
    assert there >= 50
    cassette = Cassette.open(tmp_path, EITHER)  # the lock went with the process
    model = cassette.model("m", Lane("a", "t", 0), FakeModel())
    for number in range(50):
        assert run_sync(heard(model, Request((Message("user", str(number)),)))).text == str(number) * 50
    cassette.close(True)


def test_a_full_disk_is_no_fault_of_the_loop_and_leaves_whole_lines(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    with recorder(tmp_path, 10**4, limit) as running:
        out, _ = running.communicate(timeout=60)
    *given_, said = out.splitlines()
    assert said.startswith(f"RecordingError {tmp_path / 'm.jsonl'}: call ")
    assert said.endswith("cannot be recorded: File too large True")
    raw = (tmp_path / "m.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    assert len(Recording(tmp_path, "m")) == len(given_) > 10


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file"):
        Cassette.open(tmp_path / "file", RECORD)


# --- misses ---


def missing(folder: Path, request: Request, lane: Lane = LANE, before: Iterable[Request] = ()) -> RecordingMiss:
    model = Cassette.open(folder, REPLAY).model("m", lane, None)
    for other in before:
        run_sync(heard(model, other))
    with pytest.raises(RecordingMiss) as raised:
        run_sync(model.complete(request))
    assert model.failure is raised.value
    assert isinstance(raised.value, RecordingError)
    assert not raised.value.is_transient
    assert "\n" not in str(raised.value)
    return raised.value


def test_a_miss_names_the_closest_request_and_where_it_differs(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("What is 2 + 2?"), ask("What is 3 + 3?")], FakeModel("4", "6"))
    use(tmp_path, EITHER, [ask("Something else")], FakeModel("?"), lane=Lane("bare", "t2", 0))
    found = missing(tmp_path, ask("What is 3 + 4?"), before=[ask("What is 2 + 2?")])
    assert str(found) == (
        "not recorded: call 2 (decide) of bare/t1/0; closest is call 2 (decide) of bare/t1/0: "
        'message 2 (user) has "What is 3 + 3?" recorded, "What is 3 + 4?" asked'
    )
    shown = ["--- recorded", "+++ asked", "@@ -2,3 +2,3 @@", "   Be brief.", " [user]", "-  What is 3 + 3?", "+  What is 3 + 4?"]
    assert found.difference.splitlines() == shown


def test_the_closest_request_shares_most_messages_wherever_it_stands(tmp_path: Path) -> None:
    history = [Message("user", text) for text in ("a", "b", "c", "d")]
    asked = [Request((Message("user", "x"),)), Request((Message("user", "y"),)), Request(tuple(history))]
    use(tmp_path, RECORD, asked, FakeModel(*"123"))
    assert "closest is call 3 (decide) of bare/t1/0: message 4 (user)" in str(
        missing(tmp_path, Request((*history[:3], Message("user", "e"))))
    )


def test_the_same_request_of_another_repeat_is_closer_than_another_request(tmp_path: Path) -> None:
    use(tmp_path, EITHER, [ask()], FakeModel("0"))
    use(tmp_path, EITHER, [ask(sampling=Sampling(temperature=1))], FakeModel("1"), lane=Lane("bare", "t1", 1))
    assert "recorded of repeat 0 only" in str(missing(tmp_path, ask(), Lane("bare", "t1", 1)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"sampling": Sampling(temperature=0.7, stop=("x",))},
            'stop: null recorded, ["x"] asked; temperature: 0.0 recorded, 0.7 asked',
        ),
        ({"tools": ()}, "tools: add recorded, none asked"),
        ({"tools": (ToolSpec("add", "Other.", {}),)}, "tool add is described otherwise"),
        ({"tool_choice": "add"}, 'tool_choice: null recorded, "add" asked'),
        ({"response_schema": {"a": 1}}, "response_schema asked"),
        ({"messages": (Message("system", "Be brief."),)}, "message 2 (user) is not asked"),
        ({"messages": (*ask().messages, Message("user", "More"))}, "message 3 (user) was not recorded"),
        ({"messages": (Message("user", "Be brief."),)}, "message 1 is from system in the recording, from user as asked"),
    ],
)
def test_all_settings_that_differ_are_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    request = ask(tools=(ToolSpec("add", "Adds.", {}),), sampling=Sampling(temperature=0))
    use(tmp_path, RECORD, [request], FakeModel("4"))
    changed = replace(request, **{"sampling": request.sampling} | changes)
    found = missing(tmp_path, changed)
    assert str(found).endswith(f": {said}")
    assert found.difference


def test_a_miss_of_a_request_that_is_recorded_says_so(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("4"))
    assert str(missing(tmp_path, ask(), Lane("bare", "t1", 2))).endswith("the same request is recorded of repeat 0 only")
    again = missing(tmp_path, ask(), before=[ask()])
    assert str(again).endswith("the same request is recorded once in one trial only")
    assert again.difference == ""


def test_the_difference_is_bounded_and_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    old = "\n".join(f"line {number} \x1b[31m\u202e" + "long " * 100 for number in range(3_000))
    use(tmp_path, RECORD, [ask(old)], FakeModel("4"))
    found = missing(tmp_path, ask(old.replace("line", "LINE").replace("long", "LONG") + "\ud800\x00\r"))
    lines = found.difference.split("\n")
    assert len(lines) == 40
    assert max(map(len, lines)) <= 200
    assert "more lines" in lines[-1]
    for text in (str(found), *lines):
        assert text.isprintable()


def test_the_first_miss_is_kept_for_the_report(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a")], FakeModel("A"))
    cassette = Cassette.open(tmp_path, REPLAY)
    model = cassette.model("m", LANE, None)
    for text in "xyz":
        run_sync(heard(model, ask(text)))
    assert (cassette.misses, cassette.hits) == (3, 0)
    assert '"x" asked' in cassette.first_miss.splitlines()[0]
    assert cassette.first_miss.splitlines()[-1] == "+  x"
    assert model.failure is not None
    assert '"x" asked' in str(model.failure)


@settings(max_examples=60)
@given(st.lists(requests, min_size=1, max_size=4), requests)
def test_any_miss_can_be_explained(recorded: list[Request], asked: Request) -> None:
    with tempfile.TemporaryDirectory() as folder:
        use(Path(folder), RECORD, recorded, FakeModel(*(["r"] * len(recorded))))
        model = Cassette.open(Path(folder), REPLAY).model("m", LANE, None)
        model_came = run_sync(heard(model, asked))
        if isinstance(model_came, tuple):
            assert isinstance(model.failure, RecordingMiss)
            assert model.failure.recorded is not None
            assert (model.failure.difference == "") == (model.failure.recorded == model.failure.asked)
            assert str(model.failure).isprintable()


# --- what is committed can be used ---


def test_a_recording_that_was_copied_serves_and_is_not_touched(tmp_path: Path) -> None:
    use(tmp_path / "one", RECORD, [ask()], FakeModel("4"))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    before = {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert use(tmp_path / "two", REPLAY, [ask()])[0].text == "4"
    assert {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()} == before
    assert list(before) == ["m.jsonl"]
