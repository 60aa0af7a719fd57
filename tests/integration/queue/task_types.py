"""Type checkers know the arguments of a task. `make check` is the test: mypy passes what fits, and
finds what does not, or it would say that a `type: ignore` is not used.

Nothing here is run, and pytest does not collect it.
"""

from __future__ import annotations

from datetime import timedelta

from milepost import SUPPLIED, Milepost, TakenJob
from milepost.db import AsyncConnection, Connection

mp = Milepost("postgresql://nowhere/nothing")


@mp.task
def send(order: int, to: str = "all") -> str:
    return f"{order} {to}"


@mp.task(channel="stored", keep_for=timedelta(hours=1))
def store(tx: Connection, order: int) -> None: ...


@mp.task(channel="stored")
def look(job: TakenJob, tx: Connection, order: int) -> None: ...


@mp.task(channel="async")
async def fetch(tx: AsyncConnection, url: str, *, client: list[int] = SUPPLIED) -> int:
    return len(client)


def use(conn: Connection) -> None:
    text: str = send(1, to="me")
    number: int = send.put(conn, 1, to="me").id
    store.put(conn, order=number)
    look.options(priority=1).put(conn, 1)
    fetch.put(conn, url=text)
    mp.put(conn, send.job(order=1))


async def use_async(conn: AsyncConnection) -> None:
    handle = await fetch.put(conn, "url")
    result: int | None = await handle.wait_async(5)
    assert result


def misuse(conn: Connection) -> None:
    """Each of them is an error: the ignores are needed."""
    send.put(conn, "one")  # type: ignore[call-overload]
    send.put(conn)  # type: ignore[call-overload]
    send.put(conn, order=1, cc=2)  # type: ignore[call-overload]
    store.put(conn, order="one")  # type: ignore[call-overload]
    look.job(order="one")  # type: ignore[arg-type]
    look.options(size=1)  # type: ignore[call-arg]
    send.put(order=1)  # type: ignore[call-overload]
