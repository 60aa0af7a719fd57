"""Writers place orders, a reader follows, a processor keeps balances while its instances are
killed, Spark pipelines keep revenues while their driver is killed. At the end everything is
compared with what was committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from threading import Thread

from milepost import db
from milepost.log import Reader
from milepost_demo import balances
from milepost_demo.balances import Balances, Instances
from milepost_demo.display import Progress
from milepost_demo.naive_reader import naive_reader
from milepost_demo.place import Place
from milepost_demo.story import Revenue, Story
from milepost_demo.tally import Counts, Tally
from milepost_demo.writers import Writers, Written, started_writers

# Often enough to detect the end of the writers.
POLL_SECONDS = 0.1
# Longer than the start of an instance, so that it does some work between two kills.
KILL_EVERY_SECONDS = 4.0
KILL_EVERY_SECONDS_WITH_SPARK = 12.0  # it needs the cores
CATCH_UP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results: `reader` reads to the horizon, `naive` reads to max(position)."""

    writers: int
    seconds: float
    written: Written
    reader: Counts
    naive: Counts
    kills: int
    # The longest time until the segments of a killed instance had moved.
    takeover_seconds: float | None
    balances: Balances
    revenue: Revenue | None

    @property
    def failure(self) -> str | None:
        """None if the reader got everything, the log has what the writers committed, and the tables
        of the processor and the pipelines match the log, although they were killed."""
        if not self.balances.is_faultless:
            return "the balances differ from the log"
        if self.revenue is not None and not self.revenue.is_faultless:
            return "the revenues differ from the log"
        if not self.kills:
            return "no instance was killed: pass a longer --seconds"
        if not self.reader.read:
            return "nothing was read"
        if not self.reader.is_faultless:
            return "see the column of milepost's reader"
        if self.reader.committed != self.written.committed:
            return "the log does not have what the writers committed"
        return None


def run(
    place: Place, writers: int, seconds: float, shown: Progress, *, with_spark: bool
) -> Outcome:
    balances.make_table(place.mp)
    kill_every = KILL_EVERY_SECONDS_WITH_SPARK if with_spark else KILL_EVERY_SECONDS
    with (
        closing(Instances(place, kill_every, shown.tell)) as instances,
        started_writers(place, writers) as group,
        naive_reader(place.mp) as finish_naive_reader,
    ):
        began = time.monotonic()
        story = Story(place, shown.tell) if with_spark else None
        conductor = _stop_in_time(group, seconds, story)
        with place.mp.reader() as reader:
            tally = _follow(reader, group, shown.show)
            end = reader.after
        conductor.join()
        wrote_seconds = time.monotonic() - began
        written = group.written()
        naive = finish_naive_reader()
        instances.spare()
        shown.show("waiting for the balances")
        place.mp.processors["balances"].wait_for(end, CATCH_UP_SECONDS)
        shown.show("waiting for the pipelines")
        revenue = story.finish() if story else None
    with place.mp.connect() as conn:
        committed = {id_ for (id_,) in db.fetch_all(conn, place.mp.schema, "demo_committed")}
    return Outcome(
        writers=writers,
        seconds=wrote_seconds,
        written=written,
        reader=tally.counted(committed),
        naive=naive.counted(committed),
        kills=instances.kills,
        takeover_seconds=max(instances.takeovers, default=None),
        balances=balances.check(place.mp),
        revenue=revenue,
    )


def _stop_in_time(writers: Writers, seconds: float, story: Story | None) -> Thread:
    """Stop the writers after `seconds`, but not before the story has ended."""

    def stop() -> None:
        writers.wait_until_writing()
        time.sleep(seconds)
        if story:
            story.has_told.wait()
        writers.stop()

    conductor = Thread(target=stop, name="conductor", daemon=True)
    conductor.start()
    return conductor


def _follow(reader: Reader, writers: Writers, show: Callable[[str], None]) -> Tally:
    """Until the writers have ended and the reader has reached a horizon that was taken later."""
    tally = Tally()
    began = time.monotonic()
    is_last = False
    for batch in reader.batches(POLL_SECONDS):
        for message in batch.messages:
            tally.see(message.id, message.position, message.data)
        if is_last and not batch.is_full and not batch.is_held:
            break
        # The reader takes a new horizon only after a batch that was not full.
        is_last = not batch.is_full and writers.have_ended()
        show(f"{time.monotonic() - began:3.0f} s: read {tally.read:,} messages")
    return tally
