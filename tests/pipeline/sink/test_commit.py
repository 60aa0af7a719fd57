"""What tasks stage is in the log exactly once, without Spark: by the query, the batch, and the
attempts that count."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from psycopg.sql import SQL, Identifier
from pyspark.sql.types import StringType, StructField, StructType

from milepost import Milepost
from milepost.db import Connection
from milepost.errors import (
    BatchDiffers,
    InvalidRows,
    NotMigrated,
    NotPermitted,
    OldSparkDirectory,
    StagingLost,
)
from milepost.pipeline.sink import commit as commit_module
from milepost.pipeline.sink.commit import Attempt, Commit
from milepost.pipeline.sink.options import parse
from milepost.pipeline.sink.rows import Rows
from milepost.pipeline.sink.writers import BatchWriter, stage
from milepost.sql import LogOrder
from tests.roles import Roles, roles_in
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
SCHEMA = StructType([StructField(name, StringType()) for name in ("type", "data", "key")])
QUERY = str(uuid4())
FENCE_OUT = """
create or replace function milepost.note_spark_write(
  query uuid, batch bigint, rows bigint, may_differ boolean
) returns boolean language sql as 'select true'
"""
WAITING = "select count(*) from pg_locks where not granted"
TABLES = "select count(*) from pg_class where relname like 'staging_spark_%' and relkind = 'r'"


def commit_to(url: str, **options: str) -> Commit:
    parsed = parse({"url": url, "topic": "orders", "retrySeconds": "0", **options}, {})
    return Commit(parsed, Rows.of(SCHEMA, parsed.topic))


def staged(
    commit: Commit, numbers: Sequence[object], query: str = QUERY, *, is_stream: bool = True
) -> Attempt:
    """As a task does it."""
    rows = [{"type": "Counted", "data": str(n), "key": f"k{n}"} for n in numbers]
    batches = [pa.RecordBatch.from_pylist([row]) for row in rows]
    name = "" if is_stream else commit.open(query, is_stream=False, retry_seconds=0)
    return stage(commit, query, iter(batches), name)


def numbers_in(mp: Milepost) -> list[Any]:
    return [message.data for message in mp.read(topics=["orders"])]


def test_rows_come_in_the_order_of_partitions_and_of_their_rows(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    second, first = staged(commit, [3, 4, 5]), staged(commit, [0, 1, 2])
    nothing = staged(commit, [])
    assert commit.write([first, nothing, second], 0)
    assert numbers_in(mp) == [0, 1, 2, 3, 4, 5]
    assert [message.key for message in mp.read()] == [f"k{n}" for n in range(6)]


def test_a_repeated_batch_is_not_written_again(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    assert commit.write([staged(commit, [1, 2])], 7)
    assert not commit.write([staged(commit, [1, 2])], 7)
    assert commit.write([staged(commit, [3])], 8)
    assert numbers_in(mp) == [1, 2, 3]


def test_without_the_fence_a_repeated_batch_is_written_again(
    mp: Milepost, url: str, conn: Connection
) -> None:
    conn.execute(FENCE_OUT)
    commit = commit_to(url)
    for _ in range(2):
        assert commit.write([staged(commit, [1, 2])], 0)
    assert numbers_in(mp) == [1, 2, 1, 2]


def test_attempts_that_do_not_count_are_not_written(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    staged(commit, [1, 2])
    assert commit.write([staged(commit, [1, 2])], 0)
    assert numbers_in(mp) == [1, 2]


def test_the_query_of_a_new_directory_is_another_one(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    assert commit.write([staged(commit, [1])], 0)
    assert commit.write([staged(commit, [1], str(uuid4()))], 0)
    assert numbers_in(mp) == [1, 1]


def test_an_older_batch_is_refused(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    commit.write([staged(commit, [1])], 5)
    with pytest.raises(OldSparkDirectory, match=r"batch 4 .* batch 5.* older copy"):
        commit.write([staged(commit, [2])], 4)
    assert numbers_in(mp) == [1]


def test_a_repeated_batch_with_other_rows_is_refused(mp: Milepost, url: str) -> None:
    commit = commit_to(url)
    commit.write([staged(commit, [1])], 5)
    with pytest.raises(BatchDiffers, match=r"batch 5 .* has 2 rows.* with 1 rows"):
        commit.write([staged(commit, [1, 2])], 5)
    skipping = commit_to(url, repeatedBatch="skip")
    assert not skipping.write([staged(commit, [1, 2])], 5)
    assert numbers_in(mp) == [1]


def test_rows_that_were_lost_in_staging_are_noticed(
    mp: Milepost, url: str, conn: Connection
) -> None:
    commit = commit_to(url)
    attempt = staged(commit, [1, 2])
    conn.execute(SQL("truncate milepost.{}").format(Identifier(attempt.staging)))
    with pytest.raises(StagingLost, match="0 rows of the batch are staged, but 2 were copied"):
        commit.write([attempt], 0)
    assert commit.write([staged(commit, [1, 2])], 0)
    assert numbers_in(mp) == [1, 2]


def test_a_second_driver_waits_and_finds_the_batch_written(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """Seen to double with `for update` taken out of note_spark_write."""
    commit = commit_to(url)
    one, other = staged(commit, [1]), staged(commit, [1])
    answers: list[bool] = []
    second = threading.Thread(target=lambda: answers.append(commit.write([other], 3)))
    noted = "select milepost.note_spark_write(%s::uuid, 3, 1, false)"
    with conn.transaction():
        assert conn.execute(noted, [QUERY]).fetchone() == (True,)
        conn.execute("select milepost.merge_messages(%s, 'orders', %s)", [one.staging, [*one.tags]])
        second.start()
        with mp.connect() as looking:
            wait_until(lambda: looking.execute(WAITING).fetchone() != (0,))
    second.join(30)
    assert answers == [False]
    assert numbers_in(mp) == [1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [("nonsense", "The column 'data' or its metadata is not JSON in some row"), (None, "'data'")],
)
def test_rows_that_are_no_messages_are_explained(
    mp: Milepost, url: str, data: str | None, reason: str
) -> None:
    commit = commit_to(url)
    rows = pa.RecordBatch.from_pylist(
        [{"type": "T", "data": data, "key": "k"}],
        pa.schema([(n, pa.string()) for n in SCHEMA.names]),
    )
    attempt = stage(commit, QUERY, iter([rows]))
    with pytest.raises(InvalidRows, match=reason):
        commit.write([attempt], 0)
    assert numbers_in(mp) == []


def test_staging_is_emptied_when_it_is_large(
    mp: Milepost, url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = commit_to(url)
    attempt = staged(commit, [1, 2])
    count = SQL("select count(*) from milepost.{}").format(Identifier(attempt.staging))
    commit.write([attempt], 0)
    assert conn.execute(count).fetchone() == (2,)
    monkeypatch.setattr(commit_module, "_MOST_BYTES", 0)
    commit.write([staged(commit, [3])], 1)
    assert conn.execute(count).fetchone() == (0,)


def test_a_batch_write_leaves_no_table(mp: Milepost, url: str, conn: Connection) -> None:
    commit, query = commit_to(url), str(uuid4())
    commit.write([staged(commit, [1], query, is_stream=False)], 0)
    commit.close(query)
    assert conn.execute(TABLES).fetchone() == (0,)
    assert conn.execute("select count(*) from milepost.spark_writes").fetchone() == (0,)
    assert numbers_in(mp) == [1]


def test_what_killed_drivers_have_left_is_dropped_a_week_later(
    mp: Milepost, url: str, conn: Connection
) -> None:
    commit = commit_to(url)
    commit.write([staged(commit, [1])], 4)
    staged(commit, [2], str(uuid4()), is_stream=False)
    conn.execute("update milepost.spark_writes set used_at = now() - interval '8 days'")
    new = staged(commit, [3], str(uuid4()), is_stream=False)
    left = conn.execute("select relname from pg_class where relname like 'staging_spark_%'")
    assert left.fetchall() == [(new.staging,)]
    # The fence of the stream is still there, and its table comes back.
    assert not commit.write([staged(commit, [1])], 4)
    assert numbers_in(mp) == [1]


def test_a_table_in_use_is_not_dropped(mp: Milepost, url: str, conn: Connection) -> None:
    commit = commit_to(url)
    old = staged(commit, [1], str(uuid4()), is_stream=False)
    conn.execute("update milepost.spark_writes set used_at = now() - interval '8 days'")
    with conn.transaction():
        conn.execute(SQL("select from milepost.{}").format(Identifier(old.staging)))
        staged(commit, [2], str(uuid4()), is_stream=False)
    assert conn.execute(TABLES).fetchone() == (2,)


@pytest.fixture
def roles(url: str) -> Any:
    with roles_in(url) as made:
        yield made


def test_a_role_that_appends_writes_from_spark(mp: Milepost, roles: Roles, url: str) -> None:
    """And a second one, which is a member of it, continues the same query."""
    first, second = roles.make("append"), roles.make("append")
    roles.run("grant {} to {}", first, second)
    for batch, made in enumerate((first, second)):
        commit = commit_to(made)
        assert commit.write([staged(commit, [batch])], batch)
    query = str(uuid4())
    commit.write([staged(commit, [2], query, is_stream=False)], 0)
    commit.close(query)
    assert numbers_in(mp) == [0, 1, 2]


def test_another_role_is_told_what_it_lacks(roles: Roles) -> None:
    commit = commit_to(roles.make("read"))
    with pytest.raises(NotPermitted, match="append"):
        staged(commit, [1])


def test_a_database_without_milepost_is_named(empty_database: str, order: LogOrder) -> None:
    with pytest.raises(NotMigrated):
        staged(commit_to(empty_database), [1])


def test_a_task_that_is_late_leaves_nothing_of_a_write_that_was_aborted(
    mp: Milepost, url: str, conn: Connection
) -> None:
    """Spark does not wait for the other tasks of a job that has failed."""
    writer = BatchWriter(commit_to(url).options, SCHEMA).begin()
    writer.abort([])
    row = {"type": "Counted", "data": "1", "key": "k"}
    with pytest.raises(Exception, match="does not exist"):
        writer.write(iter([pa.RecordBatch.from_pylist([row])]))
    assert conn.execute(TABLES.encode()).fetchone() == (0,)
    assert conn.execute("select count(*) from milepost.spark_writes").fetchone() == (0,)
