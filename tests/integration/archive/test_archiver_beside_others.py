"""Writers, archivers that come and go, a remover and readers, all at the same time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from milepost import Message, Milepost, Position, append
from milepost.archive import FileSize, Remover
from milepost.db import Connection
from milepost.runtime import Timing
from tests.integration.archive.archiving import (
    Running,
    archiver_of,
    everything,
    files,
    left,
    running,
)
from tests.waiting import wait_until

WRITERS = 4
MESSAGES = 1500
FILES = 4  # that two archivers write before others take over
SMALL = FileSize(file_messages=40, least_messages=5)


@pytest.fixture
def timing() -> Timing:
    return Timing(
        orders_seconds=0.05, archive_seconds=0.01, report_seconds=0.1, removal_seconds=0.02
    )


def write(mp: Milepost, number: int, stop: Event) -> None:
    """In transactions of different lengths, some of which are rolled back."""
    chance = random.Random(number)
    with mp.connect() as conn:
        while not stop.is_set():
            with conn.transaction(force_rollback=chance.random() < 0.1):
                for _ in range(chance.randrange(1, 8)):
                    append(conn, Message("T", {"writer": number}, key=f"key-{number}"))
                    stop.wait(chance.random() * 0.005)


def archive(mp: Milepost, stop: Event) -> None:
    """Two at a time: the second stands by, and takes over when the first is stopped. They go when
    they have written some files, however long that takes them."""
    with mp.connect() as conn:
        while not stop.is_set():
            wanted = len(files(conn)) + FILES
            with running(archiver_of(mp, SMALL)), running(archiver_of(mp, SMALL)):
                wait_until(partial(has_files, conn, wanted, stop))


def has_files(conn: Connection, wanted: int, stop: Event) -> bool:
    return stop.is_set() or len(files(conn)) >= wanted


@contextmanager
def running_all(*runs: Running) -> Iterator[None]:
    with ExitStack() as stack:
        for run in runs:
            stack.callback(run.end)
        yield


def test_every_reader_sees_one_log(
    mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    mp.retention(keep_messages=20, archive=str(tmp_path))
    seen: list[Position] = []
    runs = [Running(partial(write, Milepost(url), n)) for n in range(WRITERS)]
    runs.append(Running(partial(archive, Milepost(url))))
    runs.append(Running(partial(Remover(Milepost(url)._runtime).run, "stopped")))
    with running_all(*runs):
        while len(seen) < MESSAGES or not is_archived_by_several(conn):
            found = [message.position for message in mp.read()]
            assert found[: len(seen)] == seen
            assert len(set(found)) == len(found)
            seen = found
    found = [message.position for message in everything(mp)]
    assert found[: len(seen)] == seen
    assert len(left(conn)) < len(found)


def is_archived_by_several(conn: Connection) -> bool:
    found = files(conn)
    enough = sum(file.messages for file in found) > MESSAGES / 2
    return enough and len({file.epoch for file in found}) >= 3
