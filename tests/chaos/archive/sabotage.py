"""What the torture must notice: each takes out one thing that prevents a loss. Each makes sure that
the moment comes at which the loss happens, whatever the machine does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Semaphore

import pytest

from milepost.archive import FileSize
from milepost.archive.plan import next_file
from milepost.db import Connection
from milepost.log import read
from milepost.log.history import History
from milepost.records import Position
from tests.chaos.archive import instance
from tests.chaos.archive.instances import Instances
from tests.chaos.archive.torture import removed, start_all
from tests.chaos.log.reader import SELECTIONS
from tests.chaos.log.torture import START_SECONDS
from tests.waiting import wait_until

# As if what is in the table were all there is.
READ_THE_TABLE_ALONE = """
create or replace function milepost.refuse_gone(after milepost.position) returns boolean
language sql stable as $$ select true $$
"""
_GATES = """
create or replace function milepost.retention_gates()
returns table (
  consumer text, version integer, segment integer, transaction_id bigint, "position" bigint
)
language sql volatile as $$
  select c.processor, c.version, c.segment, c.transaction_id, c."position"
  from milepost.checkpoints as c where c.processor {which} like 'milepost.%'
$$
"""
REMOVE_WITHOUT_THE_ARCHIVES_GATE = _GATES.format(which="not")
REMOVE_WITHOUT_THE_PROCESSORS_GATE = _GATES.format(which="")


def archive_after_removal(instances: Instances, conn: Connection) -> None:
    """With the gate, nothing would ever be removed."""
    instances.start("remover", "processor")
    wait_until(lambda: removed(conn) > Position.BEGINNING, START_SECONDS)
    instances.start("archiver", "compactor")


def commit_a_row_before_its_file(instances: Instances, conn: Connection) -> None:
    """And be killed between the two. Then all is done as it should be."""
    wait_until(lambda: next_file(conn, "milepost", FileSize(), is_last=True), START_SECONDS)
    instances.start(instance.HASTY)
    instances.wait_for_its_own_kill(instance.HASTY)
    start_all(instances, conn)


class ManifestFirst:
    """A reader that asks the manifest, and then the table. All readers of the torture are held
    between the two questions, until what they look for has moved."""

    def __init__(self) -> None:
        self._asked = Semaphore(0)
        self._moved = Event()

    def fetch(self, conn: Connection, wanted: read._Wanted, history: History) -> object:
        if wanted.horizon.position > wanted.after:
            if history.find(conn, wanted.after):
                return read._read_cold(conn, history, wanted)
            self._asked.release()
            self._moved.wait(START_SECONDS)
        return read._read_table(conn, wanted, history.schema)

    def begin(self, instances: Instances, conn: Connection) -> None:
        for name in SELECTIONS:
            assert self._asked.acquire(timeout=START_SECONDS), name
        start_all(instances, conn)
        wait_until(lambda: removed(conn) > Position.BEGINNING, START_SECONDS)
        self._moved.set()


@contextmanager
def manifest_first(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManifestFirst]:
    sabotage = ManifestFirst()
    with monkeypatch.context() as patched:
        patched.setattr(read, "_fetch_batch", sabotage.fetch)
        yield sabotage
