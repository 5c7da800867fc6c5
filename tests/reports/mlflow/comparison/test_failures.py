"""A store that fails costs nothing but a line."""

from __future__ import annotations

import socket

import pytest
from mlflow.tracing.client import TracingClient

from tests.reports.mlflow.comparison.helpers import children, content, free_port, traces
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import store

IN_ONE_FORK = "the comparison that is logged once"


def test_a_failure_is_one_line_and_costs_nothing(run, tmp_path, capsys):
    before = content(run.folder)
    (tmp_path / "file.db").write_text("no database, but text that is long enough to be looked at\n" * 100)
    for uri, known in [
        ("foo://user:secret1@host/x", "must begin with one of http://"),
        ("./mlruns", "must begin with one of http://"),
        ("", "must begin with one of http://"),
        (f"http://user:secret1@127.0.0.1:{free_port()}", "no server answers at http://[redacted]@127.0.0.1"),
        (f"sqlite:///{tmp_path}/no/such/folder/x.db", "No such file or directory"),
        (f"sqlite:///{tmp_path}/file.db", "not a database"),
    ]:
        reason = tracking.track(run, uri, "whichloop")
        assert isinstance(reason, str)
        assert known in reason
        assert "secret1" not in reason
        assert "\n" not in reason
    assert content(run.folder) == before
    assert capsys.readouterr().out == ""


def test_a_server_that_never_answers_is_asked_once(run, monkeypatch):
    monkeypatch.setattr(store, "KNOCK_S", 0.3)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        reason = tracking.track(run, f"http://127.0.0.1:{deaf.getsockname()[1]}", "whichloop")
        deaf.setblocking(False)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()
    assert isinstance(reason, str)
    assert reason.startswith("no server answers at http://127.0.0.1")


def test_traces_that_were_logged_without_their_calls_are_completed(short, uri, client, monkeypatch):
    def fails(self, location, spans):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(TracingClient, "log_spans", fails)
        assert tracking.track(short, uri, "completed") == "OSError: disk full"
    tracked = tracking.log_run(short, uri, "completed", lambda _: "page")
    arms = children(client, tracked)
    assert len(arms) == len(short.comparison.arms)
    for arm, child in arms.items():
        sampled = tracking.sample([record for record in short.records if record.arm == arm])
        logged = traces(client, tracked, child.info.run_id)
        assert sorted(trace.info.tags["whichloop.task"] for trace in logged) == sorted(record.task for record in sampled)
        assert all(trace.data.spans for trace in logged)
