"""A key is erased while an archiver and retention work: nothing of it comes into the archive behind
the erasure's back, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from milepost import Message, Milepost, append
from milepost.archive import FileSize, list_files
from milepost.archive.filing import Filing
from milepost.archive.plan import Plan
from milepost.archive.upkeep import compact, erase, verify
from milepost.db import Connection
from milepost.log.history import ArchivedFile
from milepost.runtime import Timing
from tests.integration.archive.archiving import archive_all, archiver_of, running
from tests.waiting import wait_until

SMALL = FileSize(file_messages=40, least_messages=1)


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


def keys_of(directory: Path) -> set[str | None]:
    tables = [pq.read_table(path, columns=["key"]) for path in directory.glob("*.parquet")]
    return {key for table in tables for key in table.column("key").to_pylist()}


def test_a_key_is_erased_beside_an_archiver_and_a_compaction(
    mp: Milepost, conn: Connection, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    mp.retention(keep_messages=0, archive=str(place))
    expected: list[int] = []
    with running(archiver_of(mp, SMALL)):
        for round_ in range(12):
            numbers = [round_ * 100 + n for n in range(100)]
            append(conn, *(Message("T", {"n": n}, key=f"k{n % 5}") for n in numbers))
            expected += [n for n in numbers if n % 5 != 3]
            erase(conn, "milepost", "k3")
            if round_ % 4 == 3:
                compact(conn, "milepost", min_messages=100, target_messages=300)
                mp.remove_old()
        last = list(mp.read())[-1].position
        wait_until(lambda: any(file.last == last for file in list_files(conn, "milepost")))
    archive_all(mp, SMALL)
    # What a session had published when it was fenced.
    erase(conn, "milepost", "k3")
    assert erase(conn, "milepost", "k3").is_nothing
    mp.remove_old()
    assert conn.execute("select count(*) from milepost.messages").fetchone() == (0,)
    assert [message.data["n"] for message in mp.read()] == expected
    assert keys_of(place) == {"k0", "k1", "k2", "k4"}
    assert verify(conn, "milepost").problems == []


def test_an_archiver_whose_file_was_swept_writes_it_again(
    mp: Milepost, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped for longer than a sweep waits, between its two steps."""
    place = tmp_path / "archive"
    mp.retention(keep_messages=0, archive=str(place))
    append(conn, *(Message("T", {"n": n}) for n in range(100)))
    write, swept = Filing.write, list[str]()

    def writing(filing: Filing, plan: Plan, file_bytes: int) -> ArchivedFile:
        file = write(filing, plan, file_bytes)
        if not swept:
            swept.append(file.name)
            (place / file.name).unlink()
        return file

    monkeypatch.setattr(Filing, "write", writing)
    archive_all(mp, SMALL)
    assert len(swept) == 1
    assert mp.remove_old().number == 100
    assert [message.data["n"] for message in mp.read()] == list(range(100))
