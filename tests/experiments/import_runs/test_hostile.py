"""Files that mean harm, or are broken: one line that says so, and not a run directory left behind."""

from __future__ import annotations

import copy
import json
import os
import struct
import tracemalloc
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.import_runs.conftest import Kit
from tests.experiments.import_runs.spans_files import FORMS
from tests.golden.imported import IMPORTS
from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.experiments.import_runs.foreign_file import MAX_MEMBER_BYTES, ZSTD
from whichloop.experiments.why.losses import losses_explained
from whichloop.runs.store.trials import read_trace

FILES = Path(__file__).with_name("files")
EVAL = (FILES / "capitals.eval").read_bytes()
HUGE = 10**400

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([HUGE, -1, 2**63, float("nan"), float("inf"), -0.0, 1e308]),
    st.sampled_from(["", "\x00", "\ud800", "x" * 1000, "../../etc/passwd", "\x1b[2J", "=cmd()", "NaN", "<script>"]),
    st.just([]),
    st.just({}),
    st.just([[{}]]),
    st.just({"a": {"b": [None]}}),
)


def paths_in(value, path=()):
    """Where anything stands in JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_in(item, (*path, key))


def changed(value, path, leaf):
    made = copy.deepcopy(value)
    if not path:
        return leaf
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = leaf
    return made


def holds_or_refuses(kit, path, **reading):
    """It is read, and can be explained, or is refused in one line that names the file; in that case nothing is left."""
    runs = kit.folder / "runs"
    runs.mkdir(exist_ok=True)
    before = set(runs.iterdir())
    try:
        found = kit.imported(path, **reading)
    except ValueError as error:
        said = str(error)
    else:
        for record in found.records:
            if record.trace_at:
                read_trace(found.folder, record)
        losses_explained(found)
        return
    assert str(path) in said
    assert "\n" not in said
    assert len(said) < 1500
    assert set(runs.iterdir()) == before


def document(name):
    """A document that is golden, as JSON."""
    text = (FILES / name).read_text("utf-8")
    return list(map(json.loads, text.splitlines())) if name.endswith("langsmith.jsonl") else json.loads(text)


CASES = (
    "capitals.json by Exact",
    "inspect-transcript.json",
    "inspect-usage.json",
    "smolagents.json",
    "tau-bench.json",
    "tau2.json",
)
DOCUMENTS = (*CASES, "promptfoo.json", *(f"spans/{form}.jsonl" for form in FORMS))


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=cases(10))
@given(data=st.data(), leaf=leaves)
def test_a_document_with_anything_anywhere_is_read_or_refused_in_one_line(kit, name, data, leaf):
    options = dict(IMPORTS[name])
    whole = document(options.pop("file"))
    place = data.draw(st.sampled_from(sorted(paths_in(whole), key=str)))
    holds_or_refuses(kit, kit.put(json.dumps(changed(whole, place, leaf))), **options)


@given(st.lists(st.tuples(st.integers(0, len(EVAL) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_an_archive_with_any_bytes_changed(kit, changes):
    raw = bytearray(EVAL)
    for at, byte in changes:
        raw[at] = byte
    holds_or_refuses(kit, kit.put(bytes(raw), ".eval"), scorer="letters")


@given(st.integers(0, len(EVAL)))
def test_an_archive_cut_anywhere(kit, at):
    path = kit.put(EVAL[:at], ".eval")
    if at < len(EVAL):
        with pytest.raises(ValueError, match="not a readable zip file"):
            kit.imported(path, scorer="letters")


@given(st.binary(max_size=300), st.sampled_from([".eval", ".json", ".csv", ".jsonl", ""]))
def test_any_bytes(kit, raw, suffix):
    holds_or_refuses(kit, kit.put(raw, suffix))


@given(st.text(max_size=200), st.sampled_from(["", "task,score\n"]))
def test_any_text_as_a_table(kit, text, head):
    holds_or_refuses(kit, kit.put((head + text).encode("utf-8", "surrogatepass"), ".csv"))


# --- archives ---


def with_member(kit, name="samples/1_epoch_1.json", data=b"{}", **changes):
    """A log with one member whose header says what the keywords do."""
    raw = bytearray(kit.archive({"header.json": json.dumps(kit.log()).encode(), name: data}))
    info = zipfile.ZipFile(BytesIO(raw)).getinfo(name)
    central = raw.rindex(b"PK\x01\x02")
    offsets = {
        "flags": (6, 8, "<H"),
        "method": (8, 10, "<H"),
        "crc": (14, 16, "<L"),
        "packed": (18, 20, "<L"),
        "size": (22, 24, "<L"),
    }
    for what, value in changes.items():
        local, directory, form = offsets[what]
        struct.pack_into(form, raw, info.header_offset + local, value)
        struct.pack_into(form, raw, central + directory, value)
    return kit.put(bytes(raw), ".eval")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flags": 1}, "samples/1_epoch_1.json: encrypted"),
        ({"size": MAX_MEMBER_BYTES + 1}, f"samples/1_epoch_1.json: more than {MAX_MEMBER_BYTES} bytes"),
        ({"method": 12}, "samples/1_epoch_1.json: cannot be unpacked"),
        ({"method": ZSTD}, "samples/1_epoch_1.json: cannot be unpacked"),
        ({"crc": 7}, "samples/1_epoch_1.json: (cannot be unpacked|damaged)"),
    ],
)
def test_members_that_lie(kit, changes, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(with_member(kit, **changes))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTD])
def test_a_member_that_is_more_than_it_says_is_not_unpacked(kit, method):
    raw = bytearray(kit.archive({"header.json": b"0" * 60_000_000}, method))
    for at in (22, raw.index(b"PK\x01\x02") + 24):
        struct.pack_into("<L", raw, at, 10)
    path = kit.put(bytes(raw), ".eval")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"header\.json: (damaged|cannot be unpacked)"):
            kit.imported(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_archives_that_unpack_to_too_much_are_not_begun(kit):
    raw = bytearray(kit.archive({f"m{n}": b"x" for n in range(150)}))
    at = 0
    while (at := raw.find(b"PK\x01\x02", at)) >= 0:
        struct.pack_into("<L", raw, at + 24, MAX_MEMBER_BYTES)
        at += 4
    with pytest.raises(ValueError, match="its members unpack to 40265318400 bytes, more than is read"):
        kit.imported(kit.put(bytes(raw), ".eval"))


def test_names_of_members_are_no_paths(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = "samples/../../../evil_epoch_1.json"
    log = kit.log(kit.sample("../../evil"))
    members = {"header.json": json.dumps({**log, "samples": None}).encode(), evil: json.dumps(log["samples"][0]).encode()}
    (record,) = kit.imported(kit.put(kit.archive(members), ".eval")).records
    assert record.task == "../../evil"
    assert not list(tmp_path.rglob("*evil*"))


DEEP = b'{"eval": ' + b"[" * 200_000
OTHERS: dict[str, tuple[Any, str]] = {
    "no format recognizes the files in it": (Kit(Path()).archive({"word/document.xml": b"<x/>"}), ".docx"),
    r"a zip file, but not a log of Inspect: it has no header\.json": (Kit(Path()).archive({"word/document.xml": b"<x/>"}), ".eval"),
    r"json: not JSON: it is nested too deep": (DEEP, ".json"),
    r"header\.json: it is nested too deep": (Kit(Path()).archive({"header.json": DEEP}), ".eval"),
    "no format recognizes it; say what it is: --format [a-z|-]*inspect": ("{}", ".json"),
}


@pytest.mark.parametrize("said", OTHERS)
def test_other_files_are_refused_with_what_to_do(kit, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put(*OTHERS[said]))


def test_what_is_no_file_is_refused_and_nothing_is_left_where_the_second_one_is_broken(kit, tmp_path):
    fifo = tmp_path / "pipe.csv"
    os.mkfifo(fifo)
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, said in (
        (fifo, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (empty, "no format recognizes the files in it"),
    ):
        with pytest.raises(ValueError, match=said):
            kit.imported(path)
    with pytest.raises(FileNotFoundError):
        kit.imported(tmp_path / "none.csv")
    good, bad = kit.put("task,score\nx,1\n", ".csv"), kit.put("task,score\nx,many\n", ".csv")
    with pytest.raises(ValueError, match="not a number: 'many'"):
        import_files([good, bad], ImportRequest(), tmp_path / "run", tmp_path / "runs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "pipe.csv"]


def test_a_run_is_never_overwritten(kit, tmp_path):
    path = kit.put("task,score\nx,1\n", ".csv")
    import_files([path], ImportRequest(), tmp_path / "run")
    with pytest.raises(ValueError, match="run: exists already"):
        import_files([path], ImportRequest(), tmp_path / "run")


def test_a_run_is_replaced_by_an_import_that_succeeds_and_whole_as_it_was_after_one_that_is_refused(kit, tmp_path):
    def content():
        return {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}

    good, bad, other = (kit.put(f"task,score\nx,{score}\n", ".csv") for score in ("1", "many", "0"))
    import_files([good], ImportRequest(), tmp_path / "run")
    before, around = content(), set(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not a number: 'many'"):
        import_files([other, bad], ImportRequest(replace=True), tmp_path / "run")
    assert (content(), set(tmp_path.iterdir())) == (before, around)
    import_files([other], ImportRequest(replace=True), tmp_path / "run")
    assert [record.accuracy for record in results(tmp_path / "run").records] == [0.0]
    assert set(tmp_path.iterdir()) == around
