"""Writers place orders, a reader follows, a processor keeps balances while its instances are
killed, Spark pipelines keep revenues while their driver is killed, and all of it is held against
what was committed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from milepost import sql
from milepost.cli.demo import balances
from milepost.cli.demo.balances import Balances
from milepost.cli.demo.instances import Instances
from milepost.cli.demo.naive_reader import NaiveReader
from milepost.cli.demo.story import Revenue, Story
from milepost.cli.demo.tally import Counts, Sighting, Tally
from milepost.cli.demo.writers import Writers, Written, started_writers

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from milepost.app import Milepost
    from milepost.cli.demo.display import Progress
    from milepost.cli.demo.place import Place
    from milepost.log import Batch, Reader
    from milepost.records import RecordedMessage

# Often enough to see the writers end.
POLL_SECONDS = 0.1
# Longer than an instance takes to start, so that some work gets done between two kills.
KILL_EVERY_SECONDS = 4.0
KILL_EVERY_SECONDS_WITH_SPARK = 12.0  # it needs the cores
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
    takeover_seconds: float | None  # the longest until a dead instance's segments had moved
    balances: Balances
    revenue: Revenue | None

    @property
    def holds(self) -> bool:
        """Whether the reader got everything, the table holds what writers committed, and what the
        processor and the pipelines keep is the log's, though they were killed."""
        return (
            self.reader.is_faultless
            and self.reader.committed == self.written.committed
            and self.balances.is_faultless
            and self.kills > 0
            and (self.revenue is None or self.revenue.is_faultless)
        )


def run(
    place: Place, writers: int, seconds: float, shown: Progress, *, with_spark: bool
) -> Outcome:
    balances.make_table(place.mp)
    story = Story(place, shown.tell) if with_spark else None
    kill_every = KILL_EVERY_SECONDS_WITH_SPARK if with_spark else KILL_EVERY_SECONDS
    with (
        Instances(place, kill_every, shown.tell) as instances,
        started_writers(place, writers) as group,
        NaiveReader(place.mp) as naive,
    ):
        began = time.monotonic()
        conductor = _stop_in_time(group, seconds, story)
        with place.mp.reader() as reader:
            tally = _follow(reader, group, shown.show)
            end = reader.after
        conductor.join()
        wrote_seconds = time.monotonic() - began
        written = group.written()
        naive_tally = naive.finish()
        instances.spare()
        shown.show("waiting for the balances")
        place.mp.processors["balances"].wait_for(end, CATCH_UP_SECONDS)
        shown.show("waiting for the pipelines")
        revenue = story.finish() if story else None
    committed = _committed(place.mp)
    return Outcome(
        writers, wrote_seconds, written, tally.counted(committed), naive_tally.counted(committed),
        instances.kills, max(instances.takeovers, default=None), balances.check(place.mp), revenue,
    )  # fmt: skip


def _stop_in_time(writers: Writers, seconds: float, story: Story | None) -> Thread:
    """The writers write for so long at least, and until the story is told."""

    def stop() -> None:
        writers.wait_until_writing()
        time.sleep(seconds)
        if story:
            story.has_told.wait()
        writers.stop()

    if story:
        story.start()
    conductor = Thread(target=stop, name="conductor", daemon=True)
    conductor.start()
    return conductor


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
