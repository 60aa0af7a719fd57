"""What the driver does with staged rows: one transaction with the fence, and what is left after it.

It runs in a Python process that Spark starts for each batch, so nothing is kept between batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from pyspark.sql.datasource import WriterCommitMessage

from milepost import adbc, db, sql
from milepost.errors import MilepostError, ServerLostInWrite
from milepost.pipeline.write.staging import Staged
from milepost.runtime import Patience, is_server_lost

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.sink.options import SinkOptions
    from milepost.pipeline.sink.rows import Rows

T = TypeVar("T")
# What a table of merged rows may keep until it is emptied: the next merges read it too.
_MOST_BYTES = 4 * 1024 * 1024
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt(WriterCommitMessage):
    """What one attempt of a task has staged. Spark gives the driver those that count, in the order
    of the partitions. Without rows, nothing is staged."""

    query: str
    staging: str
    tags: tuple[int, ...]  # one for each COPY
    rows: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Writes what was staged for a batch."""

    options: SinkOptions
    rows: Rows

    def write(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> bool:
        """Whether there was something new to write. After a lost server, the fence tells whether
        the transaction has committed."""
        attempts = [each for each in messages if isinstance(each, Attempt) and each.rows]
        if not attempts:
            return False
        found, first = staged(attempts), attempts[0]
        fence = {"query_id": first.query, "batch": batch, "rows": found.rows}
        seconds = self.options.retry_seconds
        with lost_server_told(seconds, is_in_doubt=True):
            return self._ask(lambda conn: self._merge(conn, found, fence), seconds)

    def open(self, query: str, *, is_stream: bool, retry_seconds: int) -> str:
        """The staging table of a write, which exists from now on."""
        schema = self.options.schema

        def question(conn: Connection) -> str:
            db.check_schema(conn, schema)
            (staging,) = db.fetch_one(
                conn, schema, "open_spark_write", query_id=query, is_stream=is_stream
            )
            return str(staging)

        return self._ask(question, retry_seconds)

    def close(self, query: str) -> None:
        """Forget a batch write. If that fails, its table is dropped a week later: what was written
        is not in doubt."""
        schema = self.options.schema
        try:
            self._ask(lambda conn: db.run(conn, schema, "close_spark_write", query_id=query), 0)
        except (psycopg.Error, MilepostError) as error:
            _logger.warning("The staging table of a write is left for now: %s", error)

    def _ask(self, question: Callable[[Connection], T], retry_seconds: int) -> T:
        """On a connection of its own. Asks again after a restart of the server."""
        patience = Patience(retry_seconds)
        while True:
            try:
                with (
                    db.connect(self.options.conninfo) as conn,
                    db.acting(conn, "append"),
                    db.translated(self.options.schema, who=conn),
                ):
                    return question(conn)
            except psycopg.OperationalError as error:
                patience.wait_or_raise(error)

    def _merge(self, conn: Connection, found: Staged, fence: dict[str, Any]) -> bool:
        db.check_schema(conn, self.options.schema)
        try:
            with conn.transaction():
                is_new = self._is_new(conn, fence)
                if is_new:
                    self._execute(conn, "check_staged", found, {"rows": found.copied})
                    self._execute(conn, self.rows.merge.query, found, self.rows.merge.parameters)
        except psycopg.Error as error:
            explained = None if conn.closed else self.rows.explained(error, conn, found)
            if explained is None:
                raise
            raise explained from error
        self._sweep(conn, found)
        return is_new

    def _is_new(self, conn: Connection, fence: dict[str, Any]) -> bool:
        """First: the lock of its row keeps a second driver out of the merge."""
        may_differ = self.options.may_differ
        (is_new,) = db.fetch_one(
            conn, self.options.schema, "note_spark_write", **fence, may_differ=may_differ
        )
        return bool(is_new)

    def _sweep(self, conn: Connection, found: Staged) -> None:
        """The rows of a batch, and those of attempts that do not count. Only between two batches of
        this driver. A batch of another driver that loses its rows finds out when it merges."""
        db.run(
            conn,
            self.options.schema,
            "sweep_spark_staging",
            staging=found.staging,
            most_bytes=_MOST_BYTES,
        )

    def _execute(
        self, conn: Connection, query: str, found: Staged, parameters: dict[str, Any]
    ) -> None:
        statement = sql.query(query, self.options.schema)
        conn.execute(statement, {**found.parameters(), **parameters})


def staged(attempts: Sequence[Attempt]) -> Staged:
    rows = sum(each.rows for each in attempts)
    tags = [tag for each in attempts for tag in each.tags]
    return Staged(attempts[0].staging, tags, rows, rows)


@contextmanager
def lost_server_told(seconds: int, *, is_in_doubt: bool = False) -> Iterator[None]:
    """Around what has waited so long for a lost server. `is_in_doubt`: it may have committed."""
    try:
        yield
    except (psycopg.OperationalError, adbc.Error) as error:
        if not is_server_lost(error):
            raise
        cause = str(error).strip().partition("\n")[0]
        raise ServerLostInWrite(seconds, cause, is_in_doubt) from error
