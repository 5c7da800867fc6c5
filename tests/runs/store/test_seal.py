"""Lines of a finished run that are removed, moved or added, and a file that is cut short or gone, are noticed and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import unseal
from whichloop.cli.main import main
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.run_state import read_records
from whichloop.runs.store.each_record import find_trial
from whichloop.runs.store.files import MANIFEST, TRACES, TRIALS, RunError
from whichloop.runs.store.journal import Journal
from whichloop.runs.store.seal import break_seal, read_seal, run_lines
from whichloop.runs.store.traces import TracePolicy

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=cases(6))
Lines = list[bytes]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six trials."""
    runs = tmp_path_factory.mktemp("runs")
    experiment = prepare(CompareConfig(loops=("bare", "finish"), suite="arithmetic", tasks=3, runs=runs, mlflow=False))
    assert not run(experiment, Unwatched())
    return experiment.folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def lines_of(folder: Path) -> Lines:
    return (folder / TRIALS).read_bytes().splitlines(keepends=True)


def removed(draw: Callable[..., int], lines: Lines) -> Lines:
    """Remove some lines, the last ones or others."""
    first = draw(st.integers(0, len(lines) - 1))
    return lines[:first] + lines[draw(st.integers(first + 1, len(lines))) :]


def swapped(draw: Callable[..., int], lines: Lines) -> Lines:
    one = draw(st.integers(0, len(lines) - 2))
    other = draw(st.integers(one + 1, len(lines) - 1))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def doubled(draw: Callable[..., int], lines: Lines) -> Lines:
    lines.insert(draw(st.integers(0, len(lines))), lines[draw(st.integers(0, len(lines) - 1))])
    return lines


def cut(draw: Callable[..., int], lines: Lines) -> Lines:
    """Cut the file off at any byte."""
    raw = b"".join(lines)
    return [raw[: draw(st.integers(0, len(raw) - 1))]]


@pytest.mark.parametrize("change", [removed, swapped, doubled, cut])
@SHARED
@given(data=st.data())
def test_other_lines_than_those_that_were_written_are_noticed(finished: Path, tmp_path: Path, change, data: st.DataObject):
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished, folder)
    whole = (folder / TRIALS).read_bytes()
    name = read_records(folder)[0].name
    (folder / TRIALS).write_bytes(b"".join(change(data.draw, lines_of(folder))))
    damaged = (folder / TRIALS).read_bytes()
    readers: list[Callable[[], object]] = [
        lambda: results(folder), lambda: reopen(folder), lambda: find_trial(folder, name), lambda: Journal(folder)
    ]  # fmt: skip
    for reader in readers:
        with pytest.raises(RunError, match=TRIALS) as caught:
            reader()
        assert "\n" not in str(caught.value)
    assert (folder / TRIALS).read_bytes() == damaged != whole


@pytest.fixture
def ended(copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Runs a command over the run, and returns its exit code and what it printed."""

    def call(command: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["whichloop", command, str(copied), *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return call


def shorten(path: Path, end: int | None) -> None:
    """Cut a file off, or remove it."""
    if end is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:end])


@pytest.mark.parametrize("end", [None, 0, -1])
@pytest.mark.parametrize("command", ["report", "resume", "show", "report --why"])
def test_a_file_of_records_that_is_gone_or_cut_short_ends_every_command(copied: Path, end: int | None, command: str, ended):
    shorten(copied / TRIALS, end)
    code, out, err = ended(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{TRIALS}: " in err


@pytest.mark.parametrize("end", [None, 0, -1])
def test_a_file_of_traces_that_is_gone_or_cut_short_is_named_and_never_written_to(copied: Path, end: int | None, ended):
    """Records count without their traces; nothing is added to what is left of these."""
    whole, last = results(copied).digest, max(read_records(copied), key=lambda record: record.trace_at or ())
    shorten(copied / TRACES, end)
    code, out, err = ended("report", "--json")
    assert code == 0
    assert whole in out
    assert f"{TRACES}: manifest.json tells of" in out + err
    for command, *arguments in (["resume"], ["show", last.name]):
        code, _, err = ended(command, *arguments)
        assert code == 2
        assert f"{TRACES}: " in err.splitlines()[-1]


def test_a_run_that_was_not_sealed_goes_on_where_it_ends(copied: Path):
    """After a kill, what is missing at the end was not run yet."""
    whole = results(copied)
    (copied / TRIALS).write_bytes(b"".join(lines_of(copied)[:-2]) + b'{"arm"')
    unseal(copied)
    assert not results(copied).is_complete
    assert not run(reopen(copied), Unwatched())
    assert results(copied).digest == whole.digest
    seal = read_seal(copied)
    assert seal is not None
    assert not seal.growing


def test_what_was_sealed_before_a_killed_session_still_counts(copied: Path):
    """A session that goes on with a run says so first; what it adds until it is killed may follow the sealed lines."""
    lines = lines_of(copied)
    Journal(copied).close()
    whole, added = (copied / TRIALS).read_bytes(), lines[0]
    break_seal(copied)  # as the session that was killed
    (copied / TRIALS).write_bytes(whole + added)
    assert len(read_records(copied)) == len(lines)
    for damaged in (lines[:-1], [*lines[1:], lines[0]], [*lines[1:], added, added]):
        (copied / TRIALS).write_bytes(b"".join(damaged))
        with pytest.raises(RunError, match=TRIALS):
            read_records(copied)


def test_a_reader_at_work_when_a_session_adds_lines_reads_on(copied: Path):
    """The seal that the reader knew is no longer that of the run."""
    found = read_records(copied)
    (copied / TRIALS).write_bytes(b"".join(lines_of(copied)[:-1]))
    unseal(copied)
    Journal(copied).close()
    reading = run_lines(copied)
    next(reading)
    with Journal(copied, TracePolicy("none")) as journal:
        journal.append(found[-1], b"")
    assert len([1, *reading]) == len(found)


def test_the_seal_is_of_the_run_and_renewed_by_what_rewrites_it(copied: Path):
    """Opening and closing writes the same manifest; a seal of another form is refused."""
    before = (copied / MANIFEST).read_bytes()
    Journal(copied).close()
    assert (copied / MANIFEST).read_bytes() == before
    seal = read_seal(copied)
    assert seal is not None
    assert seal.lines == len(lines_of(copied)) == 6
