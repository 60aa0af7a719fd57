"""A processor stops at a file that it cannot read, names it, and goes on once the file is back."""

from __future__ import annotations

from threading import Thread

import pytest

from milepost import Milepost, Position, Retry
from milepost.db import Connection
from milepost.errors import ArchiveFileBroken, ArchiveFileMissing
from milepost.log.history.cold import forget_files
from milepost.processors import admin
from milepost.runtime import Group
from tests.archiving import Archive
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all
from tests.waiting import wait_until


@pytest.fixture
def positions(put: Put, archive: Archive) -> list[Position]:
    found = put(30)
    for end in (9, 19, 29):
        archive.move(found[end])
    return found


@pytest.mark.parametrize("segments", [None, 2])
def test_a_missing_file_stops_a_processor(
    mp: Milepost,
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    effects: Effects,
    segments: int | None,
) -> None:
    file = archive.files()[1]
    hidden = archive.path(file).rename(archive.directory / "hidden")
    processor = mp.processor("stops", segments=segments, batch_size=4)(leave_all)
    with pytest.raises(ArchiveFileMissing, match=file.name):
        processor.run(until="caught_up")
    done = effects.positions()
    assert len(set(done)) == len(done), "each once"
    # Segments may have been given some that they have not handled yet.
    assert set(done) <= set(positions[:10]) if segments else done == positions[:10]
    (status,) = admin.list_processors(conn, "milepost", "stops")
    assert status.state == "failed"
    assert file.name in str(status.last_error)
    hidden.rename(archive.path(file))
    processor.run(until="caught_up")
    assert sorted(effects.positions()) == positions


@pytest.mark.parametrize("segments", [None, 2])
def test_in_an_application_it_goes_on_when_the_file_is_back(
    mp: Milepost,
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    effects: Effects,
    segments: int | None,
) -> None:
    file = archive.files()[1]
    content = archive.path(file).read_bytes()
    archive.path(file).write_bytes(content[:-9] + b"x" + content[-8:])
    forget_files()
    processor = mp.processor("restarts", segments=segments, batch_size=4)(leave_all)
    group = Group([processor], restart=Retry(first_seconds=0.05, longest_seconds=0.2))
    thread = Thread(target=group.run)
    thread.start()
    try:

        def has_failed() -> bool:
            found = admin.list_processors(conn, "milepost", "restarts")
            return bool(found) and file.name in str(found[0].last_error)

        wait_until(has_failed)
        archive.path(file).write_bytes(content)
        effects.wait_for(30)
    finally:
        group.stop.set()
        thread.join()
    assert sorted(effects.positions()) == positions


def test_a_damaged_file_is_not_a_failure_of_the_handler(
    mp: Milepost, archive: Archive, positions: list[Position], effects: Effects
) -> None:
    """Nothing is set aside for it."""
    file = archive.files()[0]
    archive.path(file).write_bytes(b"")
    processor = mp.processor("skips", on_failure="skip")(leave_all)
    with pytest.raises(ArchiveFileBroken):
        processor.run(until="caught_up")
    assert effects.count() == 0
    assert processor.position() == Position.BEGINNING
    assert len(positions) == 30
