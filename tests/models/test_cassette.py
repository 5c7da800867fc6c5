"""Recordings: what each mode records and gives again, for whom, whole and in streams."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.sealing import reseal
from whichloop.models.cassette import (
    Cassette,
    Lane,
    RecordedModel,
    Recording,
)
from whichloop.models.cassette.recording import recorded_models
from whichloop.models.fake import FakeModel
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import (
    BudgetExceeded,
    Capabilities,
    Chunk,
    ContextOverflow,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Usage,
    run_sync,
)

from .cassettes import EITHER, LANE, RECORD, REFRESH, REPLAY, ask, heard, lines_of, use

WHOLE_ONLY = Capabilities(streaming=False)


# --- modes ---


def test_record_wants_a_model_that_is_not_recorded_yet(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("one"))
    with pytest.raises(ValueError, match="m is recorded already; mode replay-or-record adds to it, mode refresh starts it over"):
        use(tmp_path, RECORD, [ask()], FakeModel("two"))
    use(tmp_path, RECORD, [ask()], FakeModel("two"), name="other")
    assert recorded_models(tmp_path) == ["m", "other"]


def test_replay_needs_a_recording_and_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a folder of recordings"):
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
    first, second = (lines_of(tmp_path / folder / "m.jsonl") for folder in "ab")
    assert list(map(untimed, first)) == list(map(untimed, second))


def untimed(line: dict[str, Any]) -> dict[str, Any]:
    """A line without how long its reply took, and without checksums, which hold that."""
    return {key: value for key, value in line.items() if key not in ("seconds", "sealed", "checksum")}


def test_a_trial_that_runs_again_in_the_same_run_is_given_what_it_had(tmp_path: Path) -> None:
    cassette = Cassette.open(tmp_path, EITHER)
    inner = FakeModel("A", ProviderError("503"), "B")
    first, second = (cassette.model("m", LANE, inner) for _ in range(2))
    came = [run_sync(heard(model, ask(text))) for model in (first, second) for text in "ab"]
    cassette.close(True)
    assert [answer.text for answer in (came[0], *came[2:])] == ["A", "A", "B"]
    assert len(inner.requests) == 3


def without_times(path: Path) -> list[str]:
    """The lines of a cassette; of replies without their time, which differs and is left out at 0, and its checksum."""
    kept = [line if "cassette" in line else line | {"seconds": 0, "checksum": ""} for line in lines_of(path)]
    return [json.dumps(line, sort_keys=True) for line in kept]


def test_a_refresh_that_changes_one_reply_changes_its_line_and_the_seal(tmp_path: Path) -> None:
    asked = [ask(text) for text in "abc"]
    use(tmp_path, RECORD, asked, FakeModel("A", "B", "C"))
    before = without_times(tmp_path / "m.jsonl")
    use(tmp_path, REFRESH, asked, FakeModel("A", "other", "C"))
    after = without_times(tmp_path / "m.jsonl")
    assert len(before) == len(after) == 8
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [after[0], next(new for new in after if '"other"' in new)]


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
    assert {exchange.request.lane.task: exchange.answer for exchange in Recording(tmp_path, "m")}["t2"] == Reply("A2")


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
    reseal(path)
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
