"""The archiver and removing through PgBouncer in transaction mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import Milepost
from milepost.archive import FileSize
from milepost.db import Connection
from milepost.runtime import Timing
from tests.integration.archive.archiving import (
    archiver_of,
    everything,
    files,
    left,
    numbered,
    running,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


def test_files_are_written_and_messages_removed(
    pooled: Milepost, conn: Connection, tmp_path: Path
) -> None:
    numbered(conn, 250)
    before = everything(pooled)
    pooled.retention(keep_messages=0, archive=str(tmp_path))
    size = FileSize(file_messages=100, least_messages=1)
    with running(archiver_of(pooled, size)):
        wait_until(lambda: sum(file.messages for file in files(conn)) == 250)
    assert pooled.remove_old().number == 250
    assert left(conn) == []
    assert everything(pooled) == before


def test_large_messages(pooled: Milepost, conn: Connection, tmp_path: Path) -> None:
    """A file that ends early closes its connection, with a transaction in it."""
    numbered(conn, 30, size=500_000)
    before = everything(pooled)
    pooled.retention(keep_messages=0, archive=str(tmp_path))
    archiver_of(pooled, FileSize(file_bytes=6_000_000)).run("caught_up")
    assert len(files(conn)) > 1
    pooled.remove_old()
    assert everything(pooled) == before
