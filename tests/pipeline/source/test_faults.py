"""What goes wrong around a read: the server restarts, the log is another one, messages are gone."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from milepost import Message, Milepost, Position, db
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.errors import BeyondHorizon, LogRestored, RangeRemoved, UnreadableMessage
from milepost.pipeline.source.options import parse
from milepost.pipeline.source.planner import Planner
from milepost.pipeline.source.range_reader import RangeReader
from milepost.pipeline.source.ranges import Range
from milepost.sql import LogOrder
from tests.pipeline.sourcing import append, drain, numbers_in, numbers_of, stream, table, to_files
from tests.undecodable import KINDS, append_undecodable

append_order = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def own(own_server: EmbeddedServer, order: LogOrder) -> Milepost:
    milepost = Milepost(own_server.url())
    milepost.migrate(order=order)
    return milepost


def reader_of(url: str, retry_seconds: int = 60) -> RangeReader:
    return RangeReader(parse({"url": url, "retrySeconds": str(retry_seconds)}, {}))


def whole(url: str) -> Range:
    with closing(Planner(parse({"url": url}, {}))) as planner:
        return Range(Position.BEGINNING, planner.horizon())


@append_order
def test_a_stream_goes_on_after_a_restart_of_the_server(
    spark: SparkSession, own: Milepost, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    url = own_server.url()
    assert url is not None
    append(own, 10)
    query = to_files(stream(spark, url), tmp_path, is_following=True)
    try:
        query.processAllAvailable()
        assert numbers_in(spark, tmp_path) == list(range(10))
        own_server.stop()
        own_server.start()
        append(own, 10, first=10)
        query.processAllAvailable()  # raises what has ended the query
    finally:
        query.stop()
    assert numbers_in(spark, tmp_path) == list(range(20))


@append_order
def test_a_read_goes_on_behind_the_last_batch_when_the_server_restarts(
    own: Milepost, own_server: EmbeddedServer
) -> None:
    """In the middle of the stream of batches: what came stays, the rest follows, in order."""
    url = own_server.url()
    assert url is not None
    with own.connect() as conn:
        own.append(conn, *(Message("Big", {"n": n, "pad": "x" * 20_000}) for n in range(1500)))
    batches = reader_of(url).batches(whole(url))
    seen = [next(batches)]
    own_server.stop()
    restarted = threading.Thread(target=own_server.start)
    restarted.start()
    seen += list(batches)
    restarted.join()
    positions = pa.Table.from_batches(seen)["position"].to_pylist()
    assert len(seen) > 2
    assert positions == list(range(1, 1501))


@append_order
def test_patience_with_a_server_that_stays_away_ends(
    own: Milepost, own_server: EmbeddedServer
) -> None:
    url = own_server.url()
    assert url is not None
    append(own, 3)
    range_ = whole(url)
    own_server.stop()
    with pytest.raises(Exception, match=r"(?i)connect"):
        list(reader_of(url, retry_seconds=0).batches(range_))


def test_a_server_that_was_never_there_is_an_error_at_once() -> None:
    planner = Planner(parse({"url": "host=/nowhere dbname=none"}, {}))
    with pytest.raises(psycopg.OperationalError):
        planner.horizon()


def remove_up_to(mp: Milepost, position: Position) -> None:
    """As retention does: the mark and the deletion in one transaction."""
    with mp.connect() as conn, conn.transaction():
        conn.execute(
            "update milepost.log set removed_transaction_id = %s, removed_position = %s",
            [position.transaction_id, position.position],
        )
        conn.execute(
            "delete from milepost.messages where (transaction_id, position) <= (%s, %s)",
            [position.transaction_id, position.position],
        )


@append_order
def test_a_removed_range_is_an_error_that_names_what_is_left(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    positions = append(mp, 10)
    drain(stream(spark, url), tmp_path / "done")
    remove_up_to(mp, positions[4])

    with pytest.raises(Exception, match=f"removed: the log begins after {positions[4]}"):
        table(spark, url).count()
    with pytest.raises(Exception, match="RangeRemoved"):
        drain(stream(spark, url), tmp_path / "new")
    assert numbers_of(table(spark, url, startingPosition=positions[4])) == [5, 6, 7, 8, 9]
    drain(stream(spark, url), tmp_path / "done")  # it had read them all


def test_what_is_removed_between_planning_and_reading_is_noticed(mp: Milepost, url: str) -> None:
    positions = append(mp, 10)
    range_ = whole(url)
    remove_up_to(mp, positions[4])
    with pytest.raises(RangeRemoved, match="Start from"):
        list(reader_of(url).batches(range_))


def test_an_executor_refuses_a_range_its_server_has_not_reached(mp: Milepost, url: str) -> None:
    """Such as a standby that lags behind what the driver saw elsewhere."""
    last = append(mp, 3)[-1]
    beyond = Position(last.transaction_id + 1_000_000, last.position)
    with pytest.raises(BeyondHorizon) as caught:
        list(reader_of(url).batches(Range(Position.BEGINNING, beyond)))
    assert caught.value.position == beyond


@pytest.mark.parametrize("option", ["startingPosition", "endingPosition"])
def test_a_position_the_log_has_not_reached_is_refused(
    spark: SparkSession, mp: Milepost, url: str, option: str
) -> None:
    append(mp, 3)
    with pytest.raises(Exception, match="is above the horizon"):
        table(spark, url, **{option: "999999999:1"}).count()


@append_order
def test_a_log_restored_without_its_sequence_is_refused(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 10)
    range_ = whole(url)
    with mp.connect() as conn:
        conn.execute("alter sequence milepost.messages_position_seq restart with 3")
    with pytest.raises(LogRestored, match="milepost rebase"):
        list(reader_of(url).batches(range_))
    with pytest.raises(Exception, match=r"LogRestored.*milepost rebase"):
        table(spark, url).count()


@pytest.mark.parametrize("order", ["transaction"])
def test_a_log_of_another_cluster_is_refused(spark: SparkSession, mp: Milepost, url: str) -> None:
    append(mp, 10)
    range_ = whole(url)
    with mp.connect() as conn:
        conn.execute("update milepost.log set system_identifier = 1")
    with pytest.raises(LogRestored, match="milepost rebase"):
        list(reader_of(url).batches(range_))
    with pytest.raises(Exception, match=r"LogRestored.*milepost rebase"):
        table(spark, url).count()


@append_order
def test_an_isolation_level_of_the_database_does_not_matter(
    spark: SparkSession, mp: Milepost, url: str
) -> None:
    append(mp, 3)
    with mp.connect() as conn:
        name = conn.info.dbname
        conn.execute(
            f"alter database {name} set default_transaction_isolation = 'serializable'".encode()
        )
    assert numbers_of(table(spark, url)) == [0, 1, 2]


def test_a_database_without_the_schema_says_so(spark: SparkSession, empty_database: str) -> None:
    with pytest.raises(Exception, match="milepost migrate"):
        table(spark, empty_database).count()


@append_order
def test_a_connection_that_was_cut_between_two_tasks_is_replaced(mp: Milepost, url: str) -> None:
    append(mp, 3)
    reader = reader_of(url)
    assert sum(batch.num_rows for batch in reader.batches(whole(url))) == 3
    with db.connect(url) as conn:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'milepost-spark' and datname = current_database()"
        )
    assert sum(batch.num_rows for batch in reader.batches(whole(url))) == 3


@pytest.mark.parametrize("kind", ["infinity", "-infinity", "BC", "far"])
def test_a_time_that_spark_lacks_is_an_error_that_names_the_message(
    mp: Milepost, url: str, conn: Connection, kind: str
) -> None:
    mp.append(conn, Message("T", 1))
    odd = append_undecodable(conn, kind)
    (last,) = mp.append(conn, Message("T", 2))
    reader = reader_of(url)
    with pytest.raises(UnreadableMessage, match=f"{odd} .*{KINDS[kind][0]}") as caught:
        list(reader.batches(Range(Position.BEGINNING, last)))
    assert caught.value.position == odd
    behind = Range(caught.value.position, last)
    assert sum(batch.num_rows for batch in reader.batches(behind)) == 1
