"""Recordings: what each mode records and gives again, for whom, whole and in streams; misses, secrets and files."""

from __future__ import annotations

import asyncio
import json
import resource
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from whichloop.models.fake import FakeModel
from whichloop.models.recording import RecordedModel, Recordings
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import (
    BudgetExceeded,
    Capabilities,
    Chunk,
    ContextOverflow,
    Message,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    Usage,
    run_sync,
)
from whichloop.protocol.json_text import digest

from .recordings import TRIAL, ask, heard, lines_of, texts, use

WHOLE_ONLY = Capabilities(streaming=False)
A, B, C = ask("a"), ask("b"), ask("c")


def test_record_wants_a_model_that_is_not_recorded_yet(tmp_path: Path) -> None:
    use(tmp_path, "record", [A], FakeModel("one"))
    with pytest.raises(ValueError, match=r"m\.jsonl: m is recorded already"):
        use(tmp_path, "record", [A], FakeModel("two"))
    use(tmp_path, "record", [A], FakeModel("two"), name="other/x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.jsonl", "other-x.jsonl"]
    with pytest.raises(ValueError, match="needs another folder"):
        use(tmp_path, "replay-or-record", [A], FakeModel("two"), name="other-x")


def test_replay_gives_capabilities_and_replies_asks_nobody_and_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none/m\.jsonl: no recording of m"):
        use(tmp_path / "none", "replay")
    able = Capabilities(False, False, True, False, False, 4_000)
    use(tmp_path, "record", [A], FakeModel("one", capabilities=able))
    before = (tmp_path / "m.jsonl").read_bytes()
    nobody = FakeModel()
    model = RecordedModel(Recordings(tmp_path, "replay"), "m", TRIAL, nobody)
    assert (model.name, model.capabilities) == ("m", able)
    assert [run_sync(heard(model, A)).text, run_sync(heard(model, A))[0]] == ["one", "bad_request"]
    assert not nobody.requests
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize(
    ("mode", "whole", "goes_on", "replayed"),
    [
        ("replay-or-record", True, False, ["A", "B", "C2", "A2", "other"]),
        ("refresh", True, False, ["A2", "bad_request", "C2", "A3", "bad_request"]),
        ("refresh", False, False, ["A2", "B", "C2", "A3", "other"]),
        ("refresh", True, True, ["A2", "B", "C2", "A3", "other"]),
    ],
)
def test_what_a_second_run_adds_and_replaces(tmp_path, mode, whole, goes_on, replayed):
    other = ("bare", "t2", 0)
    use(tmp_path, "record", [A, B], FakeModel("A", "B"))
    use(tmp_path, "replay-or-record", [ask("d")], FakeModel("other"), trial=other)
    inner = FakeModel("C2", "A2") if mode == "replay-or-record" else FakeModel("A2", "C2", "A3")
    use(tmp_path, mode, [A, C, A], inner, whole=whole, goes_on=goes_on)
    came = [*use(tmp_path, "replay", [A, B, C, A]), *use(tmp_path, "replay", [ask("d")], trial=other)]
    assert texts(came) == replayed


def test_a_refresh_loses_no_trial_in_which_the_model_failed(tmp_path: Path) -> None:
    for task in ("t1", "t2"):
        use(tmp_path, "replay-or-record", [ask(task), B], FakeModel("A", "B"), trial=("bare", task, 0))
    recordings = Recordings(tmp_path, "refresh")
    for task, inner in (("t2", FakeModel("A2")), ("t1", FakeModel(ProviderError("503")))):
        run_sync(heard(RecordedModel(recordings, "m", ("bare", task, 0), inner), ask(task)))
    recordings.close(True)
    assert texts(use(tmp_path, "replay", [ask("t1"), B])) == ["A", "B"]


def test_a_trial_that_runs_again_in_the_same_run_is_given_what_it_had(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, "replay-or-record")
    inner = FakeModel("A", ProviderError("503"), "B")
    first, second = (RecordedModel(recordings, "m", TRIAL, inner) for _ in range(2))
    came = [run_sync(heard(model, request)) for model in (first, second) for request in (A, B)]
    recordings.close(True)
    assert texts(came) == ["A", "server", "A", "B"]
    assert (len(inner.requests), recordings.replayed, recordings.recorded) == (3, 1, 2)


@pytest.mark.parametrize("order", [1, -1])
def test_a_trial_gets_its_own_else_its_tasks_else_any_of_its_repeat(tmp_path: Path, order: int) -> None:
    recordings = Recordings(tmp_path, "record")
    for arm, task in (("a", "t1"), ("a", "t2"), ("b", "t1"), ("b", "t3"))[::order]:
        run_sync(heard(RecordedModel(recordings, "m", (arm, task, 0), FakeModel(f"{arm}{task}")), A))
    recordings.close(True)
    wanted = [("b", "t1"), ("b", "t2"), ("c", "t1"), ("b", "t9"), ("c", "t9")]
    given = [texts(use(tmp_path, "replay", [A], trial=(*trial, 0))) for trial in wanted]
    assert given == [["bt1"], ["at2"], ["at1"], ["bt1"], ["at1"]]
    assert texts(use(tmp_path, "replay", [A], trial=("a", "t1", 1))) == ["bad_request"]


PASSING: list[Any] = ["rate_limit", "server", "auth"]
LEAVING = [BudgetExceeded("used up"), asyncio.CancelledError()]


@pytest.mark.parametrize("failure", [*(ProviderError("later", kind) for kind in PASSING), *LEAVING])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_not_recorded_and_shifts_nothing(tmp_path: Path, failure: BaseException, stream: bool) -> None:
    recordings = Recordings(tmp_path, "record")
    model = RecordedModel(recordings, "m", TRIAL, FakeModel(failure, "one", "two"))

    async def go() -> list[Any]:
        if isinstance(failure, ProviderError):
            assert (await heard(model, A, stream))[0] == failure.kind
        else:
            with pytest.raises(type(failure)):
                await heard(model, A, stream)
        return [await heard(model, A, stream) for _ in range(2)]

    assert texts(run_sync(go())) == ["one", "two"]
    recordings.close(True)
    assert texts(use(tmp_path, "replay", [A, A])) == ["one", "two"]


def test_a_failure_that_lasts_is_recorded(tmp_path: Path) -> None:
    failures = [
        ContextOverflow("too long"),
        ProviderError("no", "refused", status=400),
        ProviderError("no", "bad_request"),
        ProviderError("injected", "server", injected=True, retry_after_s=1.5, failed_attempts=("timeout",)),
    ]
    asked = [ask(str(number)) for number in range(4)]
    said = use(tmp_path, "record", asked, FakeModel(*failures))
    assert said[3] == ("server", "injected", None, 1.5, True, ("timeout",))
    assert use(tmp_path, "replay", asked) == said


def test_a_replayed_reply_costs_nothing_and_keeps_price_and_latency(tmp_path: Path) -> None:
    used = [Usage(10, 2, 3, False, 0.5, 0.7), Usage(10, 2, cost_usd=0.5), Usage(10, 2, estimated=True), None]
    asked = [ask(str(number)) for number in range(4)]

    async def slowly(request: Request) -> Reply:
        await asyncio.sleep(0.02)
        return Reply("r", usage=used[int(request.messages[-1].content)])

    assert [reply.usage for reply in use(tmp_path, "record", asked, FakeModel(then=slowly))] == used
    model = RecordedModel(Recordings(tmp_path, "replay"), "m", TRIAL, None)
    came = [run_sync(heard(model, request, stream=request is asked[0])).usage for request in asked]
    assert came == [Usage(10, 2, 3, False, 0.0, 0.7), Usage(10, 2, 0, False, 0.0, 0.5), used[2], None]
    assert 0.08 <= sum(line.seconds for line in lines_of(tmp_path / "m.jsonl")) == pytest.approx(model.replayed_s)


REPLY = Reply("some words here", (NativeCall("c", "add", '{"a": 1, "b": 22222}'),), Usage(3, 4))


@pytest.mark.parametrize("able", [Capabilities(), WHOLE_ONLY])
def test_a_stream_is_recorded_whole_and_replayed_in_pieces(tmp_path: Path, able: Capabilities) -> None:
    async def chunks(model: RecordedModel) -> list[Chunk]:
        return [chunk async for chunk in model.stream(A)]

    recordings = Recordings(tmp_path, "record")
    assert run_sync(chunks(RecordedModel(recordings, "m", TRIAL, FakeModel(REPLY, capabilities=able)))) == list(pieces(REPLY))
    recordings.close(True)
    replayed = run_sync(chunks(RecordedModel(Recordings(tmp_path, "replay"), "m", TRIAL, None)))
    assert replayed == (list(pieces(REPLY)) if able.streaming else [Chunk(REPLY.text, reply=REPLY)])
    assert use(tmp_path, "replay", [A]) == [REPLY]


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_stream_that_the_loop_closes_is_recorded_as_far_as_it_came_unless_its_trial_was_cancelled(tmp_path, cancelled):
    recordings = Recordings(tmp_path, "record")
    model = RecordedModel(recordings, "m", TRIAL, FakeModel(REPLY, "after"))

    async def consume() -> None:
        whole: Any = model.stream(A)
        async with aclosing(whole) as stream:
            for _ in range(5):
                await anext(stream)
            await asyncio.sleep(60 if cancelled else 0)

    async def go() -> None:
        running = asyncio.create_task(consume())
        await asyncio.sleep(0.01)
        if cancelled:
            running.cancel()
        await asyncio.wait([running])
        assert (await heard(model, A)).text == "after"

    run_sync(go())
    recordings.close(True)
    cut = Reply("some words here", (NativeCall("c", "add", '{"a": 1, "b"'),), None, "other")
    replayed = use(tmp_path, "replay", [A, A])
    assert (replayed[0].text, replayed[1][0]) == ("after", "bad_request") if cancelled else replayed[0] == cut


MISSES: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"sampling": Sampling(temperature=0.7)}, "temperature", ['- "temperature": 0.0,', '+ "temperature": 0.7,']),
    ({"messages": (*ask().messages, Message("user", "One\nmore"))}, "messages", ['+   "content": "One', '+more",']),
]


@pytest.mark.parametrize(("changes", "name", "shown"), MISSES)
def test_a_miss_names_the_closest_request_and_where_it_differs(tmp_path, changes, name, shown):
    request = ask(tools=(ToolSpec("add", "Adds.", {}),), sampling=Sampling(temperature=0))
    use(tmp_path, "record", [request, ask("Something else")], FakeModel("4", "5"))
    use(tmp_path, "replay-or-record", [ask("No part\n" * 9)], FakeModel("?"), trial=("bare", "t2", 0))
    recordings = Recordings(tmp_path, "replay")
    model = RecordedModel(recordings, "m", TRIAL, None)
    for each in (replace(request, **changes), ask("later")):
        run_sync(heard(model, each))
    said, *difference = recordings.first_miss.splitlines()
    assert said.startswith(str(model.failure))
    assert said.endswith(f"closest is bare/t1/0; it differs in {name}")
    assert difference[:2] == ["--- recorded", "+++ asked"]
    assert set(shown) <= set(difference)


def test_no_secret_reaches_a_file_and_the_loop_sees_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path / "before", "record", [ask("tulip-and-plum-77")], FakeModel("no secret yet"))
    monkeypatch.setenv("SOME_API_KEY", "tulip-and-plum-77")
    secret = "tulip-and-plum-77 sk-abcdefgh12345678"
    call = NativeCall(secret, secret, json.dumps({"key": secret}))
    request = Request(
        (Message("system", secret), Message("assistant", secret, (call,)), Message("tool", secret, call_id=secret)),
        (ToolSpec(secret, secret, {"description": secret, secret: [secret]}),),
        secret,
        {"title": secret},
        Sampling(stop=(secret,)),
        scope=secret,
    )
    asked = [ask("tulip-and-plum-77"), request, request, replace(request, tool_choice=None)]
    inner = FakeModel("a", Reply(secret, (call,)), ContextOverflow(secret), ProviderError(secret, "refused"))
    said = use(tmp_path, "record", asked, inner, trial=(secret, secret, 0))
    assert use(tmp_path, "replay", asked, trial=(secret, secret, 0)) == said
    recordings = Recordings(tmp_path, "replay")
    run_sync(heard(RecordedModel(recordings, "m", (secret, secret, 0), None), replace(request, tool_choice=f"{secret}!")))
    assert "[redacted]" in recordings.first_miss.lower() or "***" in recordings.first_miss
    for text in (str(said), recordings.first_miss, (tmp_path / "m.jsonl").read_text()):
        assert "tulip" not in text
        assert "sk-abcdefgh12345678" not in text
    assert all(line.request == digest(line.asked) for line in lines_of(tmp_path / "m.jsonl"))


def test_what_a_loop_was_given_is_in_the_file_and_only_one_run_records(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, "record")
    model = RecordedModel(recordings, "m", TRIAL, FakeModel(*"XYZ"))
    for count, request in enumerate((A, B, C), 1):
        run_sync(heard(model, request))
        assert texts(use(tmp_path, "replay", [A, B, C])) == [*"XYZ"[:count], *["bad_request"] * (3 - count)]
    with pytest.raises(ValueError, match=r"m\.jsonl: another run is recording here"):
        use(tmp_path, "replay-or-record", [], FakeModel())
    recordings.close(False)
    assert texts(use(tmp_path, "replay-or-record", [A, B, C], FakeModel())) == [*"XYZ"]


def test_a_full_disk_is_no_fault_of_the_loop_and_leaves_whole_replies(tmp_path: Path) -> None:
    asked = [ask(str(number)) for number in range(20)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        came = use(tmp_path, "record", asked, FakeModel(then="reply " * 20), whole=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    count = texts(came).index("bad_request")
    assert count > 1
    assert all(f"{tmp_path / 'm.jsonl'}: a reply cannot be recorded: " in failure[1] for failure in came[count:])
    assert texts(use(tmp_path, "replay", asked)) == texts(came)
