"""Write messages into a Parquet file: in order, in row groups that a reader can skip.

Version 1 of the format. Plain Parquet, so that any tool reads it: the columns of the log, the hash
of the key (for segments), and `recorded_at_text` for times that are not in the years 1 to 9999,
where `recorded_at` is null.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from milepost import adbc
from milepost.errors import ArchiveUnwritable
from milepost.log import time_text
from milepost.records import Position, key_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

FORMAT_VERSION = 1
ROWS_PER_GROUP = 131_072
# Messages may be large: a row group is read as a whole.
BYTES_PER_GROUP = 64 * 1024 * 1024
MOST_LISTED = 1_000  # topics or types in the manifest
_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("transaction_id", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("key_hash", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("data", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("recorded_at", _TIME),
        pa.field("recorded_at_text", pa.string()),
    ]
)
# What the log has; the rest is computed.
STORED = tuple(n for n in SCHEMA.names if n not in ("key_hash", "recorded_at_text"))
# Where values differ from row to row, as numbers that grow, and texts that begin alike. All readers
# that are tested know these encodings.
_ENCODINGS = dict.fromkeys(
    ("transaction_id", "position", "key_hash", "recorded_at"), "DELTA_BINARY_PACKED"
) | dict.fromkeys(("id", "key", "data", "metadata"), "DELTA_BYTE_ARRAY")
_OFTEN_REPEATED = ("key", "key_hash", "metadata")
_NEVER_SELECTED = ("id", "data", "metadata")
# With more keys in a row group the filter is wrong more often, 1 in 3 at worst, instead of larger.
_MOST_FILTERED = ROWS_PER_GROUP // 2
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_TIME, _LAST_TIME, _EPOCHS_APART = (
    (time.replace(tzinfo=UTC) - _UNIX_EPOCH) // timedelta(microseconds=1)
    for time in (datetime.min, datetime.max, datetime(2000, 1, 1, tzinfo=UTC))
)


@dataclass(frozen=True, slots=True)
class Content:
    """What the manifest says of a file's content."""

    messages: int
    bytes: int
    sha256: str
    recorded_from: datetime | None
    recorded_to: datetime | None
    topics: tuple[str, ...] | None
    types: tuple[str, ...] | None


def write(path: Path, batches: Iterable[pa.RecordBatch]) -> Content:
    """Batches of `STORED` columns, in order, into a new file."""
    return _write(path, batches, _with_computed)


def write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> Content:
    """The same with the columns of `SCHEMA`, as they are in another file."""
    return _write(path, batches, lambda group: pa.Table.from_batches(group, SCHEMA))


def _write(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    table_of: Callable[[list[pa.RecordBatch]], pa.Table],
) -> Content:
    """While one row group is compressed, the next one is read."""
    with (
        closing(_GroupWriter(path)) as writer,
        ThreadPoolExecutor(1, "milepost-archive") as pool,
    ):
        writing: Future[None] = pool.submit(lambda: None)
        for group in _row_groups(batches):
            writing.result()
            writing = pool.submit(lambda group: writer.add(table_of(group)), group)
        writing.result()
        if writer.facts.messages == 0:
            writer.add(SCHEMA.empty_table())
    with _explained(path):
        return writer.facts.content(path)


class _GroupWriter:
    """Opens the file with the first row group, whose values decide how columns are encoded."""

    def __init__(self, path: Path) -> None:
        self.facts = Facts()
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        with _explained(self._path):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, SCHEMA, **_options(table))
            if table.num_rows:
                self._writer.write_table(table, row_group_size=table.num_rows)
                self.facts.add(table)

    def close(self) -> None:
        if self._writer is not None:
            with _explained(self._path):
                self._writer.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Only around what uses the file: an OSError of what is read is a lost server."""
    try:
        yield
    except OSError as error:
        raise ArchiveUnwritable(str(path.parent), str(error)) from error


def _options(first: pa.Table) -> dict[str, Any]:
    """For values as in the first row group (figures: benchmarks/notes/archive.md). Statistics
    are for what readers select by; of the rest they would only take space."""
    keys = pc.count_distinct(first.column("key")).as_py()
    frequent = {name for name in _OFTEN_REPEATED if _repeats(first, name)}
    return {
        "compression": "zstd",
        "compression_level": 1,  # on JSON, 2 to 5 take longer and save nothing
        "use_dictionary": sorted({"topic", "type"} | frequent),
        "column_encoding": {name: how for name, how in _ENCODINGS.items() if name not in frequent},
        "write_statistics": [name for name in SCHEMA.names if name not in _NEVER_SELECTED],
        "write_page_index": True,
        "write_page_checksum": True,
        "sorting_columns": [pq.SortingColumn(0), pq.SortingColumn(1)],
        "bloom_filter_options": {"key": {"ndv": max(1, min(keys, _MOST_FILTERED)), "fpp": 0.05}},
    }


def _repeats(table: pa.Table, name: str) -> bool:
    """Whether a dictionary pays."""
    return bool(4 * pc.count_distinct(table.column(name)).as_py() < table.num_rows)


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_PER_GROUP or size >= BYTES_PER_GROUP:
            yield waiting
            waiting, rows, size = [], 0, 0
    if rows:
        yield waiting


def _with_computed(batches: list[pa.RecordBatch]) -> pa.Table:
    columns = {
        name: pa.chunked_array([adbc.plain(batch.column(name)) for batch in batches])
        for name in STORED
    }
    columns["key_hash"] = _hashes(columns["key"].combine_chunks())
    times = columns["recorded_at"].combine_chunks()
    columns["recorded_at"], columns["recorded_at_text"] = _times(times)
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def in_format(batch: pa.RecordBatch) -> pa.RecordBatch:
    """All columns of a file, for a batch of `STORED` columns: for other writers than this one."""
    return _with_computed([batch]).combine_chunks().to_batches()[0]


def _hashes(keys: pa.Array) -> pa.Array:
    """Each key once: a row group has many messages of the same one."""
    encoded = keys.dictionary_encode()
    of_each = pa.array([key_hash(key) for key in encoded.dictionary.to_pylist()], pa.int64())
    return pc.fill_null(of_each.take(encoded.indices), key_hash(None))


def _times(times: pa.Array) -> tuple[pa.Array, pa.Array]:
    """What is in the years 1 to 9999, and the others as text. The driver adds the difference of
    the epochs to an infinite time, which wraps around."""
    numbers = times.cast(pa.int64())
    is_odd = pc.or_(pc.less(numbers, _FIRST_TIME), pc.greater(numbers, _LAST_TIME))
    if not pc.any(is_odd).as_py():
        return times.cast(_TIME), pa.nulls(len(times), pa.string())
    texts = [
        _odd_time(number) if odd else None
        for number, odd in zip(numbers.to_pylist(), is_odd.to_pylist(), strict=True)
    ]
    plain = pc.if_else(is_odd, pa.scalar(None, pa.int64()), numbers)
    return plain.cast(_TIME), pa.array(texts, pa.string())


def _odd_time(microseconds: int) -> str:
    return time_text((microseconds - _EPOCHS_APART + 2**63) % 2**64 - 2**63)


@dataclass(slots=True)
class Facts:
    """What is counted while a file is written or read."""

    messages: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    has_odd_times: bool = False
    topics: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    last: Position | None = None

    def add(self, table: pa.Table) -> None:
        self.messages += table.num_rows
        times = table.column("recorded_at")
        limits = pc.min_max(times).as_py()
        self.has_odd_times |= times.null_count > 0
        if limits["min"] is not None:
            self.first_time = min(limits["min"], self.first_time or limits["min"])
            self.last_time = max(limits["max"], self.last_time or limits["max"])
        for name, seen in (("topic", self.topics), ("type", self.types)):
            if len(seen) <= MOST_LISTED:
                seen.update(pc.unique(table.column(name)).to_pylist())
        self.last = Position(*(table.column(n)[-1].as_py() for n in ("transaction_id", "position")))

    @property
    def times(self) -> tuple[datetime | None, datetime | None]:
        return (None, None) if self.has_odd_times else (self.first_time, self.last_time)

    @property
    def listed_topics(self) -> tuple[str, ...] | None:
        return _listed(self.topics)

    @property
    def listed_types(self) -> tuple[str, ...] | None:
        return _listed(self.types)

    def content(self, path: Path) -> Content:
        return Content(
            self.messages,
            path.stat().st_size,
            sha256_of(path),
            *self.times,
            self.listed_topics,
            self.listed_types,
        )


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(names: set[str]) -> tuple[str, ...] | None:
    return tuple(sorted(names)) if len(names) <= MOST_LISTED else None
