"""Files that Spark writes: the same messages, and `content`."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from milepost import Message, Milepost, Position
from milepost.archive import FileSize, Policy, set_policy
from milepost.archive.parquet_file import SCHEMA
from milepost.archive.range_archiver import ARCHIVER, ArchiverFenced, commit_file, tag_of
from milepost.checkpoints import Answer, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import ArchiveFileBroken, ArchiveUnwritable
from milepost.log.history import ArchivedFile, Location, files_between
from milepost.pipeline import history
from milepost.pipeline.archive import SparkFiles, archive_with_spark, compact_with_spark
from milepost.pipeline.archive.compact import groups_to_rewrite
from milepost.pipeline.archive.spark_file import refused_file
from milepost.pipeline.source import Range, RangeReader, SourceOptions
from milepost.pipeline.spark.settings import SparkSettings
from milepost.retry import Retry
from tests.archiving import rows_of
from tests.pipeline.archived import Archive
from tests.pipeline.sourcing import append
from tests.undecodable import append_undecodable

BEGINNING = Position.BEGINNING
append_order = pytest.mark.parametrize("order", ["append"])
# Where the order matters: its positions have two parts that differ.
transaction_order = pytest.mark.parametrize("order", ["transaction"])


def files_of(spark: SparkSession, url: str, conn: Connection, directory: Path) -> SparkFiles:
    place = Location.parse(str(directory))
    return SparkFiles(spark, url, "milepost", place, tag_of(conn, "milepost"))


def begin(conn: Connection) -> int:
    store = PostgresCheckpointStore(conn)
    return store.first(ARCHIVER, lambda: Position.BEGINNING, "tests").epoch


def ranges(*ends: Position) -> list[Range]:
    return [Range(*pair) for pair in zip([Position.BEGINNING, *ends], ends, strict=False)]


def left_over(directory: Path, known: Sequence[ArchivedFile]) -> set[str]:
    return {path.name for path in directory.iterdir()} - {file.name for file in known}


@transaction_order
def test_ranges_are_written_at_the_same_time_and_committed_in_order(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    positions = append(mp, 40)
    positions += [append_undecodable(conn, "infinity")]
    positions += append(mp, 19, first=41)
    directory = tmp_path / "made by it"
    stored = conn.execute(
        "select id::text, data::text, metadata::text, key, topic, type from milepost.messages "
        "order by transaction_id, position"
    ).fetchall()
    done: list[ArchivedFile] = []

    def commit(file: ArchivedFile) -> None:
        commit_file(conn, "milepost", file, "tests")
        done.append(file)

    files, epoch = files_of(spark, url, conn, directory), begin(conn)
    ends = (positions[9], positions[29], positions[59])
    archive_with_spark(files, ranges(*ends), epoch, commit, parallel=2)

    assert [file.last for file in done] == list(ends)
    done = files_between(conn, "milepost", Position.BEGINNING, positions[-1])
    assert [file.messages for file in done] == [10, 20, 30]
    assert all(file.has_content for file in done)
    assert left_over(directory, done) == set()
    for file in done:
        path = directory / file.name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
        assert path.stat().st_size == file.bytes
        schema = pq.read_schema(path)
        assert [schema.field(name) for name in SCHEMA.names] == list(SCHEMA)
    found = [row for file in done for row in rows_of(file)]
    assert [(str(r[5]), r[1], r[4], r[2], r[3], r[0]) for r in found] == stored
    assert [(r[6], r[7]) for r in found] == [(p.transaction_id, p.position) for p in positions]
    assert (done[2].recorded_from, done[1].recorded_from is None) == (None, False)
    assert (done[0].topics, done[0].types) == (("orders",), ("Even", "Odd"))


@append_order
def test_content_is_read_from_the_files_that_have_it(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    """The others have a message whose JSON a VARIANT cannot hold."""
    positions = append(mp, 30)
    conn.execute("insert into milepost.messages (type, data) values ('Odd', '{\"n\":1,\"n\":2}')")
    positions += [Position(0, positions[-1].position + 1), *append(mp, 9, first=31)]
    files, epoch = files_of(spark, url, conn, tmp_path), begin(conn)
    archive_with_spark(
        files,
        ranges(positions[29], positions[-1]),
        epoch,
        lambda file: commit_file(conn, "milepost", file, "tests"),
    )
    found = files_between(conn, "milepost", Position.BEGINNING, positions[-1])
    assert [file.has_content for file in found] == [True, False]
    assert left_over(tmp_path, found) == set()
    whole = history(spark, url, end=positions[29], columns=["content"])
    number = f.variant_get("content", "$.n", "bigint")
    assert whole.agg(f.sum(number)).collect()[0][0] == sum(range(30))
    part = history(spark, url, start=positions[9], end=positions[29], columns=["content"])
    assert part.agg(f.sum(number)).collect()[0][0] == sum(range(10, 30))
    with pytest.raises(Exception, match="message at 0:31 cannot be given as `content`"):
        history(spark, url, columns=["content"]).agg(f.sum(number)).collect()
    assert history(spark, url, columns=["data"]).count() == 40


@append_order
def test_a_page_that_is_damaged_is_noticed_by_both_readers(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    positions = append(mp, 30)
    files, epoch = files_of(spark, url, conn, tmp_path), begin(conn)
    archive_with_spark(
        files,
        ranges(positions[-1]),
        epoch,
        lambda file: commit_file(conn, "milepost", file, "tests"),
    )
    archive = Archive.at(conn, url, tmp_path)
    archive.remove(positions[-1])
    (file,) = archive.files()
    whole = history(spark, url, columns=["data"])
    assert whole.count() == 30
    archive.damage(file)
    with pytest.raises(Exception, match=f"FAILED_READ_FILE(.|\n)*{file.name}"):
        whole.collect()
    with pytest.raises(ArchiveFileBroken, match=file.name):
        list(RangeReader(SourceOptions(url)).batches(Range(Position.BEGINNING, positions[-1])))


@append_order
def test_the_python_process_of_a_file_is_used_for_the_next_one(
    spark: SparkSession, url: str, conn: Connection, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"

    def note_the_process() -> Iterator[pa.RecordBatch]:
        with seen.open("a") as file:
            file.write(f"{os.getpid()}\n")
        yield from ()

    files = files_of(spark, url, conn, tmp_path)
    for _ in range(3):
        files._frame(note_the_process).collect()
    pids = seen.read_text().split()
    assert (len(pids), len(set(pids))) == (3, 1)


@append_order
def test_large_messages_make_files_of_fewer(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    """One job writes them all, and the next range follows."""
    positions = [
        position
        for n in range(30)
        for position in mp.append(conn, Message("Large", {"n": n, "padding": "x" * 500_000}))
    ]
    before = [message.data for message in mp.read()]
    set_policy(conn, Policy(archive=str(tmp_path), archive_after=timedelta(0)))
    size = FileSize(file_messages=20, file_bytes=6_000_000)
    mp.archiver(size, SparkSettings()).run("caught_up")
    archive = Archive.at(conn, url, tmp_path)
    found = archive.files()
    assert len(found) > 2
    assert positions[19] in [file.last for file in found]
    assert found[-1].last == positions[-1]
    assert sum(file.messages for file in found) == 30
    archive.remove()
    assert [message.data for message in mp.read()] == before


@contextmanager
def largest_file_of_java(spark: SparkSession, size: int) -> Iterator[None]:
    """As if the disk were full: its writes fail, in a task."""
    gateway: Any = spark.sparkContext._gateway
    pid = gateway.proc.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@append_order
def test_a_full_disk_is_waited_for(
    spark: SparkSession, mp: Milepost, conn: Connection, tmp_path: Path
) -> None:
    (position,) = mp.append(conn, Message("Random", os.urandom(300_000).hex()))
    set_policy(conn, Policy(archive=str(tmp_path), archive_after=timedelta(0)))
    archiver = replace(mp.archiver(None, SparkSettings()), retry=Retry(limit=0))
    with (
        largest_file_of_java(spark, 100_000),
        pytest.raises(ArchiveUnwritable, match="File too large"),
    ):
        archiver.run("caught_up")
    assert list(tmp_path.iterdir()) == []
    archiver.run("caught_up")
    assert [file.last for file in files_between(conn, "milepost", BEGINNING, position)] == [
        position
    ]


@append_order
def test_a_place_that_cannot_be_used_is_our_error(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    (position,) = append(mp, 1)
    file = tmp_path / "file"
    file.write_text("")
    files = files_of(spark, url, conn, file / "archive")
    with pytest.raises(ArchiveUnwritable, match="archive"):
        files.of_range(Range(BEGINNING, position), 1)


def test_which_failures_are_of_the_place() -> None:
    full = "Job aborted.\nCaused by: java.io.IOException: No space left on device\n\tat java"
    assert refused_file(full) == "No space left on device"
    denied = "java.io.FileNotFoundException: /data/x (Permission denied)"
    assert refused_file(f"{full}\n{denied}") == "/data/x (Permission denied)"
    python = "org.apache.spark.api.python.PythonException: Traceback"
    assert refused_file(f"{python}\nCaused by: java.io.IOException: gone") is None
    assert refused_file("Caused by: java.io.EOFException: null") is None


@append_order
def test_a_commit_that_fails_is_the_last_one(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    """As if another archiver had moved the checkpoint."""
    positions = append(mp, 30)
    files, epoch = files_of(spark, url, conn, tmp_path), begin(conn)
    asked: list[Position] = []

    def commit(file: ArchivedFile) -> None:
        asked.append(file.last)
        if len(asked) == 2:
            store = PostgresCheckpointStore(conn)
            assert store.store(ARCHIVER, positions[9], positions[14], epoch=epoch) is Answer.STORED
        commit_file(conn, "milepost", file, "tests")

    with pytest.raises(ArchiverFenced):
        archive_with_spark(
            files, ranges(positions[9], positions[19], positions[29]), epoch, commit, parallel=2
        )
    assert asked == [positions[9], positions[19]]
    known = files_between(conn, "milepost", Position.BEGINNING, positions[-1])
    assert [file.last for file in known] == [positions[9]]


@append_order
def test_the_archiver_with_spark_as_its_engine(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, tmp_path: Path
) -> None:
    positions = append(mp, 30)
    set_policy(conn, Policy(archive=str(tmp_path), archive_after=timedelta(0)))
    mp.archiver(FileSize(file_messages=20, least_messages=1), SparkSettings()).run("caught_up")
    found = files_between(conn, "milepost", Position.BEGINNING, positions[-1])
    assert [file.messages for file in found] == [20, 10]
    assert all(file.has_content for file in found)
    mp.append(conn, Message("Last", {"n": 30}))
    mp.archiver(FileSize(least_messages=1)).run("caught_up")  # the other engine continues
    assert sum(1 for _ in history(spark, url, columns=["data"]).toLocalIterator()) == 31
    assert "MapInArrow" not in str(history(spark, url)._jdf.queryExecution())


@transaction_order
def test_compacting_joins_small_files_and_adds_content(
    spark: SparkSession, mp: Milepost, url: str, conn: Connection, archive: Archive
) -> None:
    positions = append(mp, 25)
    archive.up_to(*positions[4:25:5])
    archive.remove(positions[14])
    before = sorted(history(spark, url).collect())
    done = compact_with_spark(spark, conn, url, "milepost", target_messages=15)
    assert (done.joined, done.written, done.with_content, done.overtaken) == (5, 2, 2, 0)
    found = archive.files()
    assert [file.messages for file in found] == [15, 10]
    assert sorted(history(spark, url).collect()) == before
    content = history(spark, url, columns=["content"])
    assert content.agg(f.sum(f.variant_get("content", "$.n", "int"))).collect()[0][0] == 300
    again = compact_with_spark(spark, conn, url, "milepost", target_messages=15)
    assert (again.joined, again.written) == (0, 0)


@append_order
def test_a_file_that_was_replaced_meanwhile_is_not_replaced(
    spark: SparkSession,
    mp: Milepost,
    url: str,
    conn: Connection,
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    positions = append(mp, 20)
    archive.up_to(positions[9], positions[19])
    old = archive.files()
    of_files = SparkFiles.of_files

    def late(self: SparkFiles, files: Sequence[ArchivedFile]) -> ArchivedFile:
        made = of_files(self, files)
        archive.replace(old[1])
        return made

    monkeypatch.setattr(SparkFiles, "of_files", late)
    done = compact_with_spark(spark, conn, url, "milepost")
    assert (done.written, done.overtaken) == (0, 1)
    assert left_over(archive.directory, archive.files()) == set()


def test_what_is_rewritten() -> None:
    def file(messages: int, name: str = "a.parquet", *, has_content: bool = False) -> ArchivedFile:
        place = Position.BEGINNING
        return ArchivedFile(
            place, place, "/", name, messages, 0, "", None, None, None, None, 1, has_content, 0
        )

    def groups(*files: ArchivedFile) -> list[list[int]]:
        return [[each.messages for each in group] for group in groups_to_rewrite(files, 100)]

    tried = "x_s0123456789a.parquet"
    assert groups() == []
    assert groups(file(100), file(100)) == [[100], [100]]
    assert groups(file(30), file(40), file(40), file(10)) == [[30, 40], [40, 10]]
    assert groups(file(90, has_content=True), file(10), file(90, tried)) == [[10]]
    assert groups(file(10, has_content=True), file(10, has_content=True)) == [[10, 10]]
    assert groups(file(10, tried)) == []
    assert groups(file(150)) == [[150]]
