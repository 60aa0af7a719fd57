"""The same in an object store: an S3 server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from milepost import Milepost
from milepost.archive.upkeep import compact, erase, sweep, verify
from milepost.log.history import Location
from milepost.log.history.cold import forget_files
from tests.archiving import (
    Archive,
    append_ranges,
    archiving,
    remove,
    use_archive,
)
from tests.object_store import BUCKET, Store, object_store

pytestmark = pytest.mark.parametrize("order", ["append"])
NOW = timedelta(0)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as started:
        yield started


@pytest.fixture
def archive(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    store.make_bucket(monkeypatch)
    location = Location.parse(store.address(f"{BUCKET}/{uuid4().hex[:8]}/log"))
    with archiving(url, location) as found:
        use_archive(found.conn, found.location)
        yield found
    forget_files()


def test_files_are_joined_verified_swept_and_erased(archive: Archive, mp: Milepost) -> None:
    ranges = append_ranges(archive.conn, 4, 20)
    archive.archive_each(ranges[:3])
    orphan = archive.publish(ranges[3][-1])
    expected = list(mp.read())
    remove(archive.conn, ranges[2][-1])
    assert compact(archive.conn, "milepost").joined == 3
    assert verify(archive.conn, "milepost").problems == []
    assert sweep(archive.conn, "milepost").young == 4
    assert erase(archive.conn, "milepost", "k3").strays == 4
    assert list(mp.read()) == [message for message in expected if message.key != "k3"]
    (file,) = archive.files()
    assert orphan.name != file.name
    assert sweep(archive.conn, "milepost", older_than=NOW).removed == []
    archive.publish(ranges[3][-1])
    assert len(sweep(archive.conn, "milepost", older_than=NOW).removed) == 1
    assert verify(archive.conn, "milepost").problems == []


def test_damage_is_found(archive: Archive) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 3, 20))
    system = archive.location.filesystem()
    system.delete_file(archive.location.path(files[0].name))
    with system.open_output_stream(archive.location.path(files[1].name)) as target:
        target.write(b"short")
    missing, broken = verify(archive.conn, "milepost").problems
    assert (missing.address, missing.text) == (files[0].address, "it is not there")
    assert f"/log/{files[0].name}?endpoint_override=" in files[0].address
    assert broken.address == files[1].address
    assert "it has 5 bytes" in broken.text
