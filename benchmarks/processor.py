"""What exactly once costs: a processor against reading alone, against a consumer that pauses,
and against the same effects without a checkpoint."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import Milepost, append, db
from milepost.log import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection
    from milepost.handlers import Handler
    from milepost.records import RecordedMessage

BATCH = 500
UNIT = "messages/s"
_TOTALS = "create table totals (customer text primary key, total double precision not null)"
UPSERT = """
insert into totals values (%s, %s)
on conflict (customer) do update set total = totals.total + excluded.total
"""


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url:
        no_op = _no_op(bench, url, fill(url, bench.choose(100_000, 5_000)))
    with bench.database() as url:
        return [*no_op, _upserts(bench, url, fill(url, bench.choose(20_000, 2_000)))]


def fill(url: str, number: int) -> int:
    with db.connect(url) as conn:
        conn.execute(_TOTALS)
        append(conn, *sample.orders(number))
        conn.execute("vacuum analyze milepost.messages")
    return number


def _no_op(bench: Workbench, url: str, number: int) -> list[Comparison]:
    names = (f"no-op-{n}" for n in count())
    sides = {
        "ours": partial(process, url, names, number, do_nothing),
        "reading": partial(_read, url, number),
        "pausing": partial(_pausing, url, min(number, 2_000)),
    }
    measured = alternate(sides, rounds=bench.choose(7, 2))
    name = f"processor, a handler that does nothing, batches of {BATCH}"
    return [
        Comparison(name, "reading", UNIT, measured["ours"], measured["reading"], AtLeast(0.5)),
        Comparison(
            name, "100 a batch, then 50 ms", UNIT, measured["ours"], measured["pausing"],
            AtLeast(20),
        ),
    ]  # fmt: skip


def _upserts(bench: Workbench, url: str, number: int) -> Comparison:
    names = (f"upsert-{n}" for n in count())
    sides = {
        "ours": partial(process, url, names, number, upsert),
        "bare": partial(_upsert_unchecked, url, number),
    }
    measured = alternate(sides, rounds=bench.choose(7, 2))
    name = f"processor, one upsert a message, batches of {BATCH}"
    return Comparison(name, "no checkpoint", UNIT, measured["ours"], measured["bare"], AtLeast(0.7))


def do_nothing(messages: list[RecordedMessage], tx: Connection) -> None:
    """Nothing."""


def upsert(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        tx.execute(UPSERT, [message.data["customer"], message.data["total"]])


def process(
    url: str, names: Iterator[str], number: int, handler: Handler, session: Any = None
) -> float:
    """From the beginning to `number`, as a processor that has never run."""
    mp = Milepost(url)
    processor = mp.processor(next(names), batch_size=BATCH, session=session)(handler)
    return per_second(number, lambda: processor.run(until="caught_up"))


def _read(url: str, number: int) -> float:
    """In the same batches, each forgotten as the next one comes, as a processor does."""
    with db.connect(url) as conn:
        reader = Reader(conn, batch_size=BATCH)

        def work() -> None:
            for _ in range(number // BATCH):
                reader.read()

        return per_second(number, work)


def _pausing(url: str, number: int) -> float:
    """The defaults of a well-known consumer: 100 messages, then a pause of 50 ms."""
    with db.connect(url) as conn:
        reader = Reader(conn, batch_size=100)

        def work() -> None:
            for _ in range(number // 100):
                reader.read()
                time.sleep(0.05)

        return per_second(number, work)


def _upsert_unchecked(url: str, number: int) -> float:
    with db.connect(url) as reading, db.connect(url) as writing:
        reader = Reader(reading, batch_size=BATCH)

        def work() -> None:
            for _ in range(number // BATCH):
                messages = reader.read().messages
                with writing.transaction():
                    upsert(messages, writing)

        return per_second(number, work)


FIGURE = Figure("processor", "Exactly-once processors, against the same work without", measure)
