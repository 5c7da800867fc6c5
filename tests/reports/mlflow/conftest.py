"""What all tests of MLflow share: a database that leaves it to the system when to write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy.event
from sqlalchemy.engine import Engine


@pytest.fixture(scope="session", autouse=True)
def hasty() -> Iterator[None]:
    """SQLite leaves it to the system when to write to the disk: a kill loses nothing, and a test does not wait for the disk."""

    def hasten(connection: Any, record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            with suppress(sqlite3.DatabaseError):  # a file that is no database fails later, as it does for a user
                connection.execute("PRAGMA synchronous=OFF")

    sqlalchemy.event.listen(Engine, "connect", hasten)
    yield
    sqlalchemy.event.remove(Engine, "connect", hasten)
