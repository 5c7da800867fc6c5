"""A new SQLite store is a copy of one that MLflow made before, and equal to one that it makes now."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from whichloop.reports.mlflow import store as prepared
from whichloop.reports.mlflow.store import open_store, prepare_store


def content(store: Path) -> list[list[str]]:
    """The words of each statement that makes a store what it is; MLflow makes indexes and the values of a CHECK in any order.

    The default experiment is left out: it names its folder and its time.
    """
    with closing(sqlite3.connect(store)) as connection:
        made = [line for line in connection.iterdump() if not line.startswith('INSERT INTO "experiments"')]
    return sorted(sorted(re.findall(r"\w+", line)) for line in made)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder in which an empty store is kept."""
    home: Path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHICHLOOP_HOME", str(home))
        prepare_store(home / "first.db")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is WHICHLOOP_HOME."""
    copied = shutil.copytree(made, tmp_path / "home")
    monkeypatch.setenv("WHICHLOOP_HOME", str(copied))
    return copied


def kept_in(home: Path) -> Path:
    (kept,) = (home / "mlflow").iterdir()  # and nothing that was in the making
    return kept


def test_a_prepared_store_is_what_mlflow_makes(home, tmp_path):
    MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflows.db").search_experiments()
    prepare_store(tmp_path / "ours.db")
    assert content(tmp_path / "ours.db") == content(tmp_path / "mlflows.db")
    assert content(tmp_path / "ours.db") == content(home / "first.db")


def test_no_tables_are_made_again(home, tmp_path, monkeypatch):
    monkeypatch.delattr(prepared, "_initialize_tables")
    monkeypatch.delattr("mlflow.store.tracking.sqlalchemy_store.mlflow.store.db.utils._initialize_tables")
    opened = open_store(f"sqlite:///{tmp_path}/new.db", "mine", tmp_path)
    assert opened.client.get_experiment(opened.experiment_id).name == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "new.db", "new.db.lock"]


def test_a_store_that_exists_is_left_alone(home, tmp_path):
    store = tmp_path / "old.db"
    store.write_bytes(b"")
    prepare_store(store)
    assert store.read_bytes() == b""


@pytest.mark.parametrize("damage", [b"", b"no database", b"SQLite format 3\0"])
def test_a_damaged_one_is_made_again(home, tmp_path, monkeypatch, damage):
    kept = kept_in(home)
    whole = kept.read_bytes()
    kept.write_bytes(damage or whole[:50_000])
    monkeypatch.setattr(prepared, "_make", lambda store: store.write_bytes(whole))
    prepare_store(tmp_path / "new.db")
    assert (tmp_path / "new.db").read_bytes() == whole
    assert kept_in(home).read_bytes() == whole


@pytest.mark.parametrize("failure", [PermissionError("read-only"), sqlite3.OperationalError("disk is full")])
def test_where_none_can_be_kept_mlflow_makes_its_own(tmp_path, monkeypatch, failure):
    def fail(store: Path) -> None:
        store.write_bytes(b"half")
        raise failure

    monkeypatch.setenv("WHICHLOOP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(prepared, "_make", fail)
    prepare_store(tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    assert list((tmp_path / "home" / "mlflow").iterdir()) == []


def test_a_file_that_another_program_makes_meanwhile_stays(home, tmp_path, monkeypatch):
    store = tmp_path / "new.db"
    ready = prepared._ready

    def meanwhile() -> Path:
        store.write_bytes(b"theirs")
        return ready()

    monkeypatch.setattr(prepared, "_ready", meanwhile)
    prepare_store(store)
    assert store.read_bytes() == b"theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "new.db"]
