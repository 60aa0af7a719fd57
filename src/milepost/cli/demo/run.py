"""Writers write, a reader follows, a processor keeps balances while its instances are killed, and
all of it is held against what was committed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import sql
from milepost.cli.demo import balances
from milepost.cli.demo.balances import Balances
from milepost.cli.demo.instances import Instances
from milepost.cli.demo.naive_reader import NaiveReader
from milepost.cli.demo.tally import Counts, Sighting, Tally
from milepost.cli.demo.writers import Writers, Written, started_writers

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from milepost.app import Milepost
    from milepost.cli.demo.place import Place
    from milepost.log import Batch, Reader
    from milepost.records import RecordedMessage

# Often enough to see the writers end.
POLL_SECONDS = 0.1
# Longer than an instance takes to start, so that some work gets done between two kills.
KILL_EVERY_SECONDS = 2.0
CATCH_UP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened: `reader` reads to the horizon, `naive` reads to max(position)."""

    writers: int
    seconds: float
    written: Written
    reader: Counts
    naive: Counts
    kills: int
    balances: Balances

    @property
    def holds(self) -> bool:
        """Whether the reader got everything, the table holds what writers committed, and the
        processor's balances are the log's, though it was killed."""
        return (
            self.reader.is_faultless
            and self.reader.committed == self.written.committed
            and self.balances.is_faultless
            and self.kills > 0
        )


def run(place: Place, writers: int, seconds: float, show: Callable[[str], None]) -> Outcome:
    balances.make_table(place.mp)
    with (
        Instances(place, KILL_EVERY_SECONDS) as instances,
        started_writers(place, writers, seconds) as group,
        NaiveReader(place.mp) as naive,
    ):
        with place.mp.reader() as reader:
            tally = _follow(reader, group, show)
            end = reader.after
        written = group.written()
        naive_tally = naive.finish()
        instances.spare()
        show("waiting for the balances")
        balances.balances_processor(place.mp).wait_for(end, CATCH_UP_SECONDS)
    committed = _committed(place.mp)
    return Outcome(
        writers, seconds, written, tally.counted(committed), naive_tally.counted(committed),
        instances.kills, balances.check(place.mp),
    )  # fmt: skip


def _follow(reader: Reader, writers: Writers, show: Callable[[str], None]) -> Tally:
    """Until the writers have ended and a horizon taken after that has been reached."""
    tally = Tally()
    began = time.monotonic()
    is_last = False
    for batch in reader.batches(POLL_SECONDS):
        for message in batch.messages:
            tally.see(_sighting(message))
        if is_last and _is_at_the_end(batch):
            break
        # Only after a batch that was not full does the reader take a new horizon.
        is_last = not batch.is_full and writers.have_ended()
        show(f"{time.monotonic() - began:3.0f} s: read {tally.read:,} messages")
    return tally


def _is_at_the_end(batch: Batch) -> bool:
    return not batch.is_full and not batch.is_held


def _sighting(message: RecordedMessage) -> Sighting:
    data = message.data
    return Sighting(message.id, message.position, data["writer"], data["number"], data["is_kept"])


def _committed(mp: Milepost) -> set[UUID]:
    with mp.connect() as conn:
        return {id_ for (id_,) in conn.execute(sql.query("demo_committed", mp.schema))}
