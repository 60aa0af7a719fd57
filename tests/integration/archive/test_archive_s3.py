"""The archive in an object store, and that its credentials are nowhere but in the environment."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost import Milepost
from milepost.archive import FileSize, Policy, set_policy
from milepost.db import Connection, one
from milepost.errors import ArchiveFileError, ArchiveUnwritable, InvalidArchive
from milepost.log.history import Location
from milepost.log.history.cold import forget_files
from milepost.retry import Retry
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.integration.archive.archiving import (
    archive_all,
    archiver_of,
    everything,
    files,
    left,
    numbered,
    running,
)
from tests.integration.cli.command import Cli
from tests.object_store import (
    ACCESS_KEY,
    BUCKET,
    CREDENTIALS,
    SECRET_KEY,
    Store,
    object_store,
    refuse_secrets,
)
from tests.waiting import wait_until

TABLES = ("archive", "retention", "processors", "checkpoints")
ONCE = Retry(limit=0)


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as started:
        yield started


@pytest.fixture
def place(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a bucket that exists; the credentials are in the environment."""
    store.make_bucket(monkeypatch)
    return store.address(f"{BUCKET}/some/prefix")


def stored(conn: Connection) -> str:
    """Everything that the database knows of the archive."""
    rows = [conn.execute(f"table milepost.{t}".encode()).fetchall() for t in TABLES]
    return str(rows)


def test_files_in_an_object_store(
    mp: Milepost, conn: Connection, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    positions = numbered(conn, 250)
    before = everything(mp)
    with caplog.at_level(logging.DEBUG):
        mp.retention(keep_messages=0, archive=place)
        archive_all(mp, FileSize(file_messages=100))
        assert mp.remove_old().number == 250
        assert everything(mp) == before
        assert [m.position for m in mp.read(positions[120], topics=["topic-1"])] == [
            position for position in positions[121:] if position.position % 2 == 0
        ]
    found = files(conn)
    assert [(file.messages, file.location) for file in found] == [
        (n, place) for n in (100, 100, 50)
    ]
    assert left(conn) == []
    name, parameters = found[0].name, place.partition("?")[2]
    assert found[0].address == f"s3://bucket/some/prefix/{name}?{parameters}"
    for text in (caplog.text, stored(conn), repr(found), repr(mp), repr(Location(place))):
        refuse_secrets(text)


def test_the_commands(mp: Milepost, url: str, conn: Connection, place: str) -> None:
    numbered(conn, 20)
    cli = Cli(url, CREDENTIALS)
    assert cli.run("retention", "set", "--keep-messages", "0", "--archive", place).code == 0
    results = [
        cli.run(*words)
        for words in (
            ["archive", "run", "--once"], ["retention", "run"], ["archive"], ["archive", "--json"],
            ["retention"], ["read", "--from", "beginning"], ["doctor"], ["status"], ["processors"],
        )
    ]  # fmt: skip
    assert [result.code for result in results if result.code] == [], results
    assert results[1].stdout.startswith("removed 20 messages")
    assert results[3].document()[0]["location"] == place
    assert len(results[5].lines()) == 20
    for result in results:
        refuse_secrets(result.stdout + result.stderr)


def test_a_store_that_cannot_be_reached_is_waited_for(
    mp: Milepost, conn: Connection, store: Store, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By the archiver. A reader fails. Both find out after seconds, so they do at the same time."""
    numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    archive_all(mp)
    mp.remove_old()
    numbered(conn, 20)
    before = everything(mp)
    forget_files()
    store.stop()
    with ThreadPoolExecutor(1) as pool, running(archiver_of(mp, FileSize(least_messages=1))):
        reading = pool.submit(everything, mp)
        wait_until(lambda: "ArchiveUnwritable" in stored(conn))
        query = "select state from milepost.processors"
        assert one(conn.execute(query).fetchone()) == ("retrying",)
        assert mp.remove_old().number == 0
        with pytest.raises(ArchiveFileError) as unreachable:
            reading.result(60)
        store.start()
        wait_until(lambda: len(files(conn)) == 2)
    mp.remove_old()
    assert everything(mp) == before
    refuse_secrets(caplog.text + stored(conn))
    refuse_secrets("".join(traceback.format_exception(unreachable.value)))


def test_a_bucket_that_does_not_exist(mp: Milepost, conn: Connection, store: Store) -> None:
    numbered(conn, 20)
    mp.retention(archive=store.address("nowhere/at/all"))
    with pytest.raises(ArchiveUnwritable, match="nowhere") as unwritable:
        archiver_of(mp, retry=ONCE).run("caught_up")
    assert files(conn) == []
    refuse_secrets("".join(traceback.format_exception(unwritable.value)) + stored(conn))


def test_an_address_with_credentials_is_refused(
    mp: Milepost, url: str, conn: Connection, store: Store
) -> None:
    """And not shown."""
    inside = store.address(BUCKET).replace("s3://", f"s3://{ACCESS_KEY}:{SECRET_KEY}@")
    beside = f"{store.address(BUCKET)}&secret_key={SECRET_KEY}"
    for address in (inside, beside):
        with pytest.raises(InvalidArchive) as refused:
            set_policy(conn, Policy(archive=address))
        refuse_secrets("".join(traceback.format_exception(refused.value)))
        result = Cli(url).run("retention", "set", "--archive", address)
        assert result.code == 1
        refuse_secrets(result.stdout + result.stderr)
    assert conn.execute("table milepost.retention").fetchall() == []
