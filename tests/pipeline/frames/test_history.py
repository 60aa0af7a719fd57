"""`history`: the archive and the head as one DataFrame. Spark itself reads the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.pipeline import history
from milepost.pipeline.frames.files_frame import files_frame
from milepost.pipeline.names import COLUMNS
from milepost.pipeline.source import Conditions
from tests.pipeline.archived import Archive, archive_of, thirds
from tests.pipeline.sourcing import append, numbers_of, table
from tests.undecodable import append_undecodable

append_order = pytest.mark.parametrize("order", ["append"])


def plan(frame: DataFrame) -> str:
    text: Any = frame._jdf.queryExecution().toString()
    return str(text)


def test_the_archive_and_the_head_are_one_log(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive
) -> None:
    """All columns are as the source reads them from the table, wherever the messages are."""
    positions = append(mp, 60)
    expected = sorted(table(spark, url).collect())
    archive.up_to(*thirds(positions))
    archive.remove_up_to(positions[29])
    both = history(spark, url)
    assert both.schema == table(spark, url).schema
    assert ("FileScan parquet" in plan(both), "MapInArrow" in plan(both)) == (True, True)
    assert sorted(both.collect()) == expected
    archive.up_to(positions[-1])
    archive.remove_up_to(positions[-1])
    assert "MapInArrow" not in plan(history(spark, url))
    assert sorted(history(spark, url).collect()) == expected


def test_a_selection_of_it(spark: SparkSession, mp: Milepost, url: str, archive: Archive) -> None:
    positions = append(mp, 25)
    positions += append(mp, 15, topic="other", first=25)
    positions += append(mp, 20, first=40)
    archive.up_to(positions[29], positions[49])
    archive.remove_up_to(positions[34])
    cases: list[tuple[int, int, list[str] | None, list[str] | None]] = [
        (4, 54, None, None),
        (4, 17, ["orders"], None),
        (9, 59, ["other"], ["Odd"]),
        (0, 59, None, ["Never"]),
        (59, 59, None, None),
    ]
    for after, last, topics, types in cases:
        found = history(
            spark,
            url,
            topics=topics,
            types=types,
            start=positions[after],
            end=positions[last],
            columns=["data"],
        )
        expected = [
            n
            for n in range(after + 1, last + 1)
            if (topics is None or ("other" if 25 <= n < 40 else "orders") in topics)
            and (types is None or ("Odd" if n % 2 else "Even") in types)
        ]
        assert numbers_of(found) == expected
        assert found.columns == ["data"]


def test_files_that_have_nothing_of_it_are_not_in_the_plan(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive
) -> None:
    first, second = append(mp, 20, topic="other"), append(mp, 20)
    files = archive.up_to(first[-1], second[-1])
    found = history(spark, url, topics=["orders"], columns=["position"])
    assert found.count() == 20
    assert [Path(name).name for name in found.inputFiles()] == [files[1].name]
    assert "ReadSchema: struct<position:bigint>" in plan(found)  # all of that file is selected
    part = history(spark, url, start=second[4], end=second[9], columns=["data"])
    assert "PushedFilters: [" in plan(part)
    assert numbers_of(part) == [5, 6, 7, 8, 9]


@append_order
def test_content_is_parsed_where_it_is_not_stored(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive
) -> None:
    positions = append(mp, 30)
    archive.up_to(positions[9])
    archive.remove_up_to(positions[9])
    found = history(spark, url, columns=["content", "key"])
    assert found.columns == ["key", "content"]
    sums = found.groupBy("key").agg(f.sum(f.variant_get("content", "$.n", "bigint")).alias("n"))
    assert {row.key: row.n for row in sums.collect()} == {
        f"k{k}": sum(range(k, 30, 5)) for k in range(5)
    }


@append_order
@pytest.mark.parametrize("data", ['{"a": 1, "a": 2}', '"\\ud83d"'])
def test_json_that_a_variant_cannot_hold_is_an_error_that_names_the_message(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive, conn: Connection, data: str
) -> None:
    append(mp, 3)
    conn.execute("insert into milepost.messages (type, data) values ('Odd', %s)", [data])
    for is_archived in (False, True):
        if is_archived:
            archive.up_to(list(mp.read())[-1].position)
        with pytest.raises(Exception, match="The message at 0:4 cannot be given as `content`"):
            history(spark, url, columns=["content"]).write.format("noop").mode("overwrite").save()
        assert history(spark, url, columns=["data"]).count() == 4


@append_order
def test_a_time_that_spark_lacks_is_refused_as_by_the_source(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive, conn: Connection
) -> None:
    odd = append_undecodable(conn, "infinity")
    (last,) = mp.append(conn, Message("T", 2))
    archive.up_to(last)
    with pytest.raises(Exception, match=f"UnreadableMessage.*{odd}"):
        history(spark, url).collect()
    assert history(spark, url, columns=["data", "position"]).count() == 2


@append_order
def test_nothing_is_skipped_whatever_the_session_says(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive
) -> None:
    positions = append(mp, 40)
    first, second = archive.up_to(positions[19], positions[39])
    archive.remove_up_to(positions[-1])
    settings = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
    for name in settings:
        spark.conf.set(name, "true")
    try:
        found = history(spark, url, columns=["data"])
        archive.damage(first)
        with pytest.raises(Exception, match=f"FAILED_READ_FILE(.|\n)*{first.name}"):
            found.collect()
        archive.path(second).unlink()
        with pytest.raises(Exception, match=f"FAILED_READ_FILE(.|\n)*({first.name}|{second.name})"):
            found.collect()
        with pytest.raises(Exception, match="ArchiveFileMissing"):
            history(spark, url, start=positions[19], columns=["data"]).collect()
    finally:
        for name in settings:
            spark.conf.unset(name)


@append_order
def test_a_file_that_spark_leaves_out_is_noticed(
    spark: SparkSession, mp: Milepost, url: str, archive: Archive
) -> None:
    """It was there when Spark looked, and was removed before Spark listed it. An empty directory is
    the same to Spark: it exists, and no file is listed."""
    positions = append(mp, 20)
    first, second = archive.up_to(positions[9], positions[19])
    found = files_frame(spark, [first, second], ["data"], Conditions())
    assert found is not None
    assert found.count() == 20
    archive.path(second).unlink()
    archive.path(second).mkdir()
    assert files_frame(spark, [first, second], ["data"], Conditions()) is None


@append_order
def test_a_directory_may_have_any_name(
    spark: SparkSession, mp: Milepost, url: str, tmp_path: Path
) -> None:
    directory = tmp_path / "a {b} [c]* d=1 %20?"
    directory.mkdir()
    positions = append(mp, 20)
    with archive_of(mp, url, directory) as archive:
        archive.up_to(positions[9])
        archive.remove_up_to(positions[9])
    found = history(spark, url)
    assert "FileScan parquet" in plan(found)
    assert numbers_of(found) == list(range(20))
    assert found.columns == list(COLUMNS)


@append_order
def test_the_source_has_no_content_and_says_who_has(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match=r"milepost\.pipeline\.history"):
        table(spark, url, columns="content")
    reader = spark.read.format("milepost").options(url=url).schema("content variant")
    with pytest.raises(Exception, match=r"milepost\.pipeline\.history"):
        reader.load().collect()


def test_words_and_names_are_checked(spark: SparkSession, url: str) -> None:
    with pytest.raises(ValueError, match="expected 'beginning'"):
        history(spark, url, start="earliest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="There are: "):
        history(spark, url, columns=["contents"])
    with pytest.raises(ValueError, match="expected a list"):
        history(spark, url, topics="orders")
