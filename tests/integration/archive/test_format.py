"""How a file is encoded: small, whatever the messages are like, and by its first row group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.sample import orders

from milepost import Message, append
from milepost.archive.parquet_file import SCHEMA, write_rows
from tests.archiving import Archive

pytestmark = pytest.mark.parametrize("order", ["append"])
COUNT = 20_000


def metadata_of(archive: Archive, messages: list[Message]) -> pq.FileMetaData:
    *_, last = append(archive.conn, *messages)
    return pq.read_metadata(archive.directory / archive.archive(last).name)


def encodings(metadata: pq.FileMetaData) -> dict[str, set[str]]:
    group = metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: set(column.encodings) for column in columns}


def test_a_message_takes_at_most_50_bytes(archive: Archive) -> None:
    """In a file that is large enough for its footer not to count. What its times take would depend
    on how fast they were appended."""
    *_, last = append(archive.conn, *orders(100_000))
    archive.conn.execute(
        "update milepost.messages "
        "set recorded_at = timestamptz '2026-11-15' + position * interval '20 microseconds'"
    )
    file = archive.archive(last)
    assert file.bytes / file.messages <= 50


@pytest.mark.parametrize(
    ("key", "has_dictionary"),
    [(lambda n: f"k{n}", False), (lambda n: f"k{n % 100}", True), (lambda _: None, True)],
)
def test_a_dictionary_is_used_where_keys_repeat(
    archive: Archive, key: Callable[[int], str | None], has_dictionary: bool
) -> None:
    messages = [Message("T", {"n": n}, key=key(n)) for n in range(COUNT)]
    found = encodings(metadata_of(archive, messages))
    for name in ("key", "key_hash"):
        assert ("RLE_DICTIONARY" in found[name]) == has_dictionary
    assert "RLE_DICTIONARY" in found["topic"]
    assert "DELTA_BINARY_PACKED" in found["position"]
    assert "DELTA_BYTE_ARRAY" in found["data"]


def test_readers_can_select_by_what_they_select_by(archive: Archive) -> None:
    metadata = metadata_of(archive, [Message("T", {"n": n}, key=f"k{n}") for n in range(100)])
    group = metadata.row_group(0)
    selected = {
        group.column(number).path_in_schema
        for number in range(group.num_columns)
        if group.column(number).is_stats_set and group.column(number).statistics.has_min_max
    }
    assert selected == {
        "transaction_id", "position", "topic", "key", "key_hash", "type", "recorded_at",
    }  # fmt: skip
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    assert group.column(names.index("key")).bloom_filter_offset is not None
    assert [sorting.column_index for sorting in group.sorting_columns] == [0, 1]


def test_a_file_without_messages_is_a_file(archive: Archive, tmp_path: Path) -> None:
    """As an erasure may leave it."""
    path = tmp_path / "empty.parquet"
    content = write_rows(path, [pa.RecordBatch.from_pylist([], schema=SCHEMA)])
    assert (content.messages, content.recorded_from, content.topics) == (0, None, ())
    assert pq.read_table(path).num_rows == 0
