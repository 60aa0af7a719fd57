"""`append` in the transaction of another library's object, against that of a psycopg connection.

The appends of one transaction, each of one message, or all in one call; the commit is the same for
both sides. SQLAlchemy's own transactions cost more than psycopg's: where each append has its own,
that is part of what is measured.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import psycopg2
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine
from sqlalchemy.orm import Session

from benchmarks import sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import Message, append

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.workbench import Workbench

_UNIT = "messages/s"
_CALL, _TRANSACTION, _MANY = "one a call", "one a transaction", "all in one call"
# Short slices: the closer two sides are in time, the more alike are their conditions.
_SIZES = {_CALL: 250, _MANY: 5_000, _TRANSACTION: 50}
_PSYCOPG, _SESSION = "append(conn)", "append(session)"
_SIDES = (_PSYCOPG, _SESSION, "psycopg2", "asyncpg")
# Where only SQLAlchemy's overhead of a transaction would be compared, there is no target.
_TARGETS = {_CALL: AtLeast(0.9), _MANY: AtLeast(0.9)}


def measure(bench: Workbench) -> list[Comparison]:
    messages = sample.orders(max(_SIZES.values()))
    with bench.database() as url, ExitStack() as opened:
        append_by = _appending(url, opened)
        return [
            comparison
            for way in (_CALL, _MANY, _TRANSACTION)
            for comparison in _compared(
                bench, way, append_by, messages[: bench.choose(_SIZES[way], 50)]
            )
        ]


def _compared(
    bench: Workbench, way: str, append_by: dict[str, Callable[..., None]], messages: list[Message]
) -> list[Comparison]:
    measured = alternate(
        {
            side: partial(per_second, len(messages), partial(append_by[side], messages, way))
            for side in _SIDES
        },
        rounds=bench.choose(41, 2),
    )
    baseline = measured[_PSYCOPG]
    return [
        Comparison(
            f"{side}, {way}", _PSYCOPG, _UNIT, measured[side], baseline,
            _TARGETS.get(way) if side == _SESSION else None,
        )
        for side in _SIDES[1:]
    ]  # fmt: skip


def _appending(url: str, opened: ExitStack) -> dict[str, Callable[..., None]]:
    conn = opened.enter_context(psycopg.connect(url))
    engine = create_engine(_sqlalchemy_url(url))
    opened.callback(engine.dispose)
    session = opened.enter_context(Session(engine))
    other = opened.enter_context(closing(psycopg2.connect(url)))
    runner = opened.enter_context(asyncio.Runner())
    own = runner.run(_asyncpg(url))
    opened.callback(lambda: runner.run(own.close()))
    return {
        _PSYCOPG: partial(_append, conn),
        _SESSION: partial(_append, session),
        "psycopg2": partial(_append, other),
        "asyncpg": lambda messages, way: runner.run(_append_async(own, messages, way)),
    }


async def _asyncpg(url: str) -> Any:
    parts = conninfo_to_dict(url)
    return await asyncpg.connect(
        host=parts.get("host"), user=parts.get("user"), database=parts["dbname"]
    )


def _append(conn: Any, messages: list[Message], way: str) -> None:
    if way == _MANY:
        append(conn, *messages)
    for message in messages if way != _MANY else ():
        append(conn, message)
        if way == _TRANSACTION:
            conn.commit()
    conn.commit()


async def _append_async(conn: Any, messages: list[Message], way: str) -> None:
    if way == _TRANSACTION:  # each statement is one, where none was begun
        for message in messages:
            await append(conn, message)
        return
    async with conn.transaction():
        for some in [messages] if way == _MANY else [[message] for message in messages]:
            await append(conn, *some)


def _sqlalchemy_url(url: str) -> URL:
    parts = conninfo_to_dict(url)
    return URL.create(
        "postgresql+psycopg",
        username=str(parts.get("user")),
        database=str(parts["dbname"]),
        query={"host": str(parts.get("host"))},
    )


FIGURE = Figure(
    "append_session",
    "append(session) with a Session of SQLAlchemy over psycopg, and other drivers, against "
    "append(conn)",
    measure,
)
