"""The files of recordings: no secret, no loss, and no two writers."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sealing import reseal
from whichloop.models.cassette import (
    Cassette,
    CassetteMode,
    Lane,
    Recording,
)
from whichloop.models.cassette.lines import part_id
from whichloop.models.cassette.recording import slug
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    ContextOverflow,
    Message,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    run_sync,
)

from .cassettes import EITHER, RECORD, REFRESH, REPLAY, ask, heard, lines_of, use

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
    reseal(path)
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
    reseal(path)
    with pytest.raises(ValueError, match=r"m\.jsonl:1: a recording of version 2, this whichloop reads 1"):
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
from whichloop.models.cassette import Cassette, CassetteMode, Lane
from whichloop.protocol import Capabilities, Message, ProviderError, Reply, Request

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


# --- lines that are missing, added or moved ---

EDITS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line is missing": lambda lines: [*lines[:3], *lines[4:]],
    "the last line is missing": lambda lines: lines[:-1],
    "two lines have changed places": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a line stands twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
}


@pytest.mark.parametrize("mode", [REPLAY, EITHER, REFRESH])
@pytest.mark.parametrize("edit", EDITS)
def test_a_recording_with_other_lines_than_were_written_is_refused(tmp_path: Path, edit: str, mode: CassetteMode) -> None:
    use(tmp_path, RECORD, [ask("a"), ask("b")], FakeModel("A", "B"))
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"".join(EDITS[edit](path.read_bytes().splitlines(keepends=True))))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"m\.jsonl:1: tells of \d+ lines, and .*; restore it, or delete it and record anew$"):
        use(tmp_path, mode, [ask("a"), ask("b")], FakeModel("A", "B"))
    assert path.read_bytes() == before


def test_lines_that_a_run_has_added_since_break_no_seal(tmp_path: Path) -> None:
    use(tmp_path, RECORD, [ask("a")], FakeModel("A"))
    use(tmp_path, EITHER, [ask("a"), ask("b")], FakeModel("B"), whole=False)
    assert [reply.text for reply in use(tmp_path, REPLAY, [ask("a"), ask("b")])] == ["A", "B"]
