"""Many messages in one transaction from Python, against the least that could be done: COPY of
the same rows, encoded beforehand.

What `append` does on top: it checks and encodes every message before it sends the first, writes
them in COPY's format, and answers with their positions. Binary COPY, because it is the faster
baseline (text was 0.83 to 0.93 of it), in blocks of the size that psycopg sends.
"""

from __future__ import annotations

import io
import subprocess
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from psycopg.copy import Copy, FileWriter

from benchmarks import pgbench, sample
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from milepost import Message, append, db
from milepost.log.encode import DEFAULT_MAX_PAYLOAD_BYTES, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench
    from milepost.db import Connection

_COPY = "copy {table} (id, topic, key, type, data, metadata) from stdin (format binary)"
_TYPES = ("uuid", "text", "text", "text", "text", "text")
_BLOCK_BYTES = 32 * 1024
_UNIT = "messages/s"
_SIZES = (10, 20, 50, 100, 200, 500, 1000)
_OTHERS = "insert into milepost.messages (type, data) values ('Other', '{}');\n"
# The package shows its function `append` under this name.
_append_module = import_module("milepost.log.append")


def measure(bench: Workbench) -> list[Comparison]:
    messages = sample.orders(bench.choose(20_000, 2_000))
    with bench.database() as url, db.connect(url) as conn:
        return [
            *_bulk(bench, url, conn, messages),
            *(_few(bench, conn, messages[:size]) for size in _SIZES),
        ]


def _bulk(
    bench: Workbench, url: str, conn: Connection, messages: list[Message]
) -> list[Comparison]:
    encoded = _encoded(conn, messages)
    count = len(messages)

    def timed(work: partial[None]) -> float:
        conn.execute("truncate milepost.messages, bare.messages")
        return per_second(count, work)

    def beside_others() -> float:
        with _others_appending(bench, url):
            return timed(partial(_append, conn, messages))

    measured = alternate(
        {
            "bare": lambda: timed(partial(_copy, conn, "bare.messages", encoded)),
            "log": lambda: timed(partial(_copy, conn, "milepost.messages", encoded)),
            "append": lambda: timed(partial(_append, conn, messages)),
            "others": beside_others,
        },
        rounds=bench.choose(41, 2),
    )
    name = f"append, {count} messages"
    ours, bare = measured["append"], measured["bare"]
    return [
        Comparison(name, "COPY into a bare table", _UNIT, ours, bare, AtLeast(0.6)),
        Comparison(name, "COPY into the log", _UNIT, ours, measured["log"]),
        Comparison(f"{name}, beside others", "COPY, alone", _UNIT, measured["others"], bare),
    ]


def _few(bench: Workbench, conn: Connection, messages: list[Message]) -> Comparison:
    """Where COPY overtakes the INSERT of arrays; COPY_FROM is where it does. Without the
    commit, which is the same for both."""
    measured = alternate(
        {
            "copy": lambda: _appended_per_second(conn, messages, copy_from=1),
            "arrays": lambda: _appended_per_second(conn, messages, copy_from=len(messages) + 1),
        },
        rounds=bench.choose(15, 2),
    )
    name = f"{len(messages)} messages by COPY"
    return Comparison(name, "INSERT of arrays", _UNIT, measured["copy"], measured["arrays"])


def _appended_per_second(conn: Connection, messages: list[Message], copy_from: int) -> float:
    repeats = max(1, 1000 // len(messages))

    def work() -> None:
        for _ in range(repeats):
            append(conn, *messages)

    configured = _append_module.COPY_FROM
    _append_module.COPY_FROM = copy_from  # type: ignore[attr-defined]  # a module as an object
    try:
        with conn.transaction():
            return per_second(repeats * len(messages), work)
    finally:
        _append_module.COPY_FROM = configured  # type: ignore[attr-defined]  # as above


def _append(conn: Connection, messages: list[Message]) -> None:
    with conn.transaction():
        append(conn, *messages)


def _copy(conn: Connection, table: str, encoded: list[bytes]) -> None:
    with conn.transaction(), conn.cursor().copy(_COPY.format(table=table).encode()) as copy:
        for block in encoded:
            copy.write(block)


def _encoded(conn: Connection, messages: list[Message]) -> list[bytes]:
    file = io.BytesIO()
    with conn.cursor() as cursor, Copy(cursor, binary=True, writer=FileWriter(file)) as copy:
        copy.set_types(_TYPES)
        for message in messages:
            copy.write_row(encode(message, DEFAULT_MAX_PAYLOAD_BYTES))
    whole = file.getvalue()
    return [whole[at : at + _BLOCK_BYTES] for at in range(0, len(whole), _BLOCK_BYTES)]


@contextmanager
def _others_appending(bench: Workbench, url: str) -> Iterator[None]:
    """Someone draws positions in between, so that ours have gaps and must be looked up."""
    script = bench.directory / "others.sql"
    script.write_text(_OTHERS)
    options = ("--rate", "200", "--time", "600")
    with subprocess.Popen(
        pgbench.command(url, script, *options),
        env=pgbench.environment(url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


FIGURE = Figure(
    "append_bulk",
    "append(conn, *messages) in one transaction, against COPY of the same, already encoded rows",
    measure,
)
