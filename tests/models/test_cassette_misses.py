"""A request that is not recorded says how it differs from the closest that is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.cassette import Cassette, Lane, RecordingError, RecordingMiss
from whichloop.models.fake import FakeModel
from whichloop.protocol import Message, Request, Sampling, ToolSpec, run_sync

from .cassettes import EITHER, LANE, RECORD, REPLAY, ask, heard, requests, use

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
    assert (
        str(found) == "not recorded: call 2 (decide) of bare/t1/0; closest is call 2 (decide) of bare/t1/0; it differs in messages"
    )
    shown = ["--- recorded", "+++ asked", "@@ -2,3 +2,3 @@", "   Be brief.", " [user]", "-  What is 3 + 3?", "+  What is 3 + 4?"]
    assert found.difference.splitlines() == shown


def test_the_closest_request_shares_most_messages_wherever_it_stands(tmp_path: Path) -> None:
    history = [Message("user", text) for text in ("a", "b", "c", "d")]
    asked = [Request((Message("user", "x"),)), Request((Message("user", "y"),)), Request(tuple(history))]
    use(tmp_path, RECORD, asked, FakeModel(*"123"))
    assert "closest is call 3 (decide) of bare/t1/0" in str(missing(tmp_path, Request((*history[:3], Message("user", "e")))))


def test_the_same_request_of_another_repeat_is_closer_than_another_request(tmp_path: Path) -> None:
    use(tmp_path, EITHER, [ask()], FakeModel("0"))
    use(tmp_path, EITHER, [ask(sampling=Sampling(temperature=1))], FakeModel("1"), lane=Lane("bare", "t1", 1))
    assert "recorded in repeat 0 only" in str(missing(tmp_path, ask(), Lane("bare", "t1", 1)))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"sampling": Sampling(temperature=0.7, stop=("x",))}, ['+stop: ["x"]', "-temperature: 0.0", "+temperature: 0.7"]),
        ({"tools": (ToolSpec("add", "Other.", {}),)}, ['-tool add: "Adds."', '+tool add: "Other."']),
        ({"tool_choice": "add"}, ['+tool_choice: "add"']),
        ({"response_schema": {"a": 1}}, ['+response_schema: {"a": 1}']),
        ({"messages": (*ask().messages, Message("user", "More"))}, ["+[user]", "+  More"]),
        ({"messages": (Message("user", "Be brief."),)}, ["-[system]", "+[user]"]),
    ],
)
def test_all_settings_that_differ_are_shown(tmp_path: Path, changes: dict[str, Any], shown: list[str]) -> None:
    request = ask(tools=(ToolSpec("add", "Adds.", {}),), sampling=Sampling(temperature=0))
    use(tmp_path, RECORD, [request], FakeModel("4"))
    found = missing(tmp_path, replace(request, **{"sampling": request.sampling} | changes))
    assert set(shown) <= set(found.difference.splitlines())


def test_a_miss_of_a_request_that_is_recorded_says_so(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask()], FakeModel("4"))
    assert str(missing(tmp_path, ask(), Lane("bare", "t1", 2))).endswith("recorded in repeat 0 only")
    again = missing(tmp_path, ask(), before=[ask()])
    assert str(again).endswith("recorded 1 × in one trial only")
    assert again.difference == ""


def test_the_difference_is_bounded_and_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    old = "\n".join(f"line {number} \x1b[31m\u202e" + "long " * 100 for number in range(600))
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
    assert cassette.first_miss.startswith("not recorded: ")
    assert cassette.first_miss.splitlines()[-1] == "+  x"
    assert str(model.failure) == cassette.first_miss.splitlines()[0]


@settings(max_examples=cases(15))
@given(st.lists(requests, min_size=1, max_size=4), requests)
def test_any_miss_can_be_explained(recorded: list[Request], asked: Request) -> None:
    with tempfile.TemporaryDirectory() as folder:
        use(Path(folder), RECORD, recorded, FakeModel(*(["r"] * len(recorded))))
        model = Cassette.open(Path(folder), REPLAY).model("m", LANE, None)
        model_came = run_sync(heard(model, asked))
        if isinstance(model_came, tuple):
            assert isinstance(model.failure, RecordingMiss)
            assert model.failure.recorded is not None
            assert (model.failure.difference == "") == (model.failure.recorded == model.failure.requested)
            assert str(model.failure).isprintable()


# --- what is committed can be used ---


def test_a_recording_that_was_copied_serves_and_is_not_touched(tmp_path: Path) -> None:
    use(tmp_path / "one", RECORD, [ask()], FakeModel("4"))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    before = {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert use(tmp_path / "two", REPLAY, [ask()])[0].text == "4"
    assert {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()} == before
    assert list(before) == ["m.jsonl"]
