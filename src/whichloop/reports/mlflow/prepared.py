"""An empty SQLite store, kept ready for new runs folders.

MLflow makes the tables of a new store by some fifty migrations. They take a second of CPU, and more where the disk is slow to
confirm each of them; a copy of a store that was made once takes milliseconds.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import mlflow
import sqlalchemy.event
from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine

from whichloop.protocol.files import home


def prepare_store(path: Path) -> None:
    """Put an empty store at `path`, unless there is a file. Where none can be kept ready, leave the tables to MLflow.

    The caller keeps other processes of whichloop away from `path`.
    """
    if path.exists():
        return
    try:
        _copy(_ready(), path)
    except (OSError, sqlite3.Error):  # the home folder cannot be written, say: MLflow makes its tables where they are needed
        return


def _ready() -> Path:
    """Return the empty store of this version of MLflow, made if it is missing or damaged."""
    database = home() / "mlflow" / f"empty-{mlflow.__version__}.db"
    if not (database.is_file() and _is_intact(database)):
        database.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=database.parent) as folder:
            new_database = Path(folder) / database.name
            _make(new_database)
            new_database.replace(database)
    return database


def _is_intact(store: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def _make(store: Path) -> None:
    engine = create_sqlalchemy_engine(f"sqlite:///{store}")
    sqlalchemy.event.listen(engine, "connect", _never_wait)
    try:
        _initialize_tables(engine)
    finally:
        engine.dispose()
    with store.open("rb") as file:
        os.fsync(file.fileno())  # once, where SQLite would for each migration


def _never_wait(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")


def _copy(store: Path, path: Path) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        shutil.copyfile(store, beside)
        os.link(beside, path)  # which fails where another program has made the file meanwhile
    finally:
        beside.unlink(missing_ok=True)
