"""Files of the archive, read by Spark itself: no message passes through Python.

Only what Spark reads exactly as the source would. Damaged pages fail by their checksums. Whatever a
session's settings say, no file is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has none
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType, VariantType

from milepost.log.history import Location
from milepost.pipeline.frames.content import with_content
from milepost.pipeline.names import CONTENT, PLACE, stored_columns
from milepost.pipeline.source import Conditions, holds_only, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from milepost.log.history import ArchivedFile
    from milepost.pipeline.source import Range

_OPTIONS = {
    "__globPaths__": "false",  # a path is not a pattern
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
}
_SCHEMES = {"s3": "s3a"}  # other names in Hadoop than in pyarrow
# The file systems that a session does not know.
_unknown: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def address_of(file: ArchivedFile) -> str | None:
    """As Spark understands it. None if it cannot be known: where an endpoint is, for example, is
    said to Spark by its own settings."""
    place, parts = Location(file.location), urlsplit(file.location)
    if place.is_local:
        return f"file://{place.path(file.name)}"
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    return None if parts.query else f"{scheme}://{place.path(file.name)}"


def readable(
    spark: SparkSession, files: Iterable[ArchivedFile], columns: Sequence[str]
) -> set[ArchivedFile]:
    """The files that Spark may read, as far as it is known before. One that does not have the size
    that the manifest says is left to Python, which finds another, or the rows in the table. So is
    one with times that Spark lacks."""
    has_times = "recorded_at" in columns
    known = [
        file
        for file in files
        if (address := address_of(file)) is not None
        and urlsplit(address).scheme not in _unknown.get(spark, ())
        and not (has_times and file.recorded_from is None)
    ]
    places = {file.location for file in known}
    return {
        file
        for place in places
        for file in _as_expected(place, [file for file in known if file.location == place])
    }


def _as_expected(place: str, files: Sequence[ArchivedFile]) -> list[ArchivedFile]:
    location = Location(place)
    try:
        paths = [location.path(file.name) for file in files]
        found = location.filesystem().get_file_info(paths)
    except OSError:
        return []
    pairs = zip(files, found, strict=True)
    return [file for file, info in pairs if info.is_file and info.size == file.bytes]


def files_frame(
    spark: SparkSession,
    files: Sequence[ArchivedFile],
    columns: Sequence[str],
    conditions: Conditions,
    range_: Range | None = None,
) -> DataFrame | None:
    """The selected messages of these files, of which all have `content`, or none has. `range_`: if
    they have others. None if Spark does not know the file system, or does not find all files."""
    has_content = files[0].has_content and CONTENT in columns
    wanted = [*columns] if has_content else [*stored_columns(columns)]
    filters = _filters(files, conditions, range_)
    needed = dict.fromkeys([*wanted, *filters])
    frame = _read(spark, [address_of(file) for file in files], _schema([*needed]))
    if frame is None:
        return None
    for each in filters.values():
        frame = frame if each is None else frame.where(each)
    frame = frame.select(*wanted)
    return frame if has_content else with_content(frame, columns)


def _read(
    spark: SparkSession, addresses: Sequence[str | None], schema: StructType
) -> DataFrame | None:
    paths = [address for address in addresses if address is not None]
    try:
        frame = spark.read.schema(schema).options(**_OPTIONS).parquet(*paths)
        # Spark refuses a path that does not exist, and then lists it. What was removed in between,
        # because it was replaced, is left out without an error, whatever the options say.
        return frame if len(frame.inputFiles()) == len(paths) else None
    except (PySparkException, Py4JError):
        # Spark looks at the paths now. Python reads them, or says what is wrong.
        if (scheme := urlsplit(paths[0]).scheme) != "file":
            _unknown.setdefault(spark, set()).add(scheme)
        return None


def _schema(names: Sequence[str]) -> StructType:
    stored = schema_of(tuple(name for name in names if name != CONTENT))
    fields = {field.name: field for field in stored} | {
        CONTENT: StructField(CONTENT, VariantType())
    }
    return StructType([fields[name] for name in names])


def _filters(
    files: Sequence[ArchivedFile], conditions: Conditions, range_: Range | None
) -> dict[str, Column | None]:
    """By the columns that they need. Those that every message passes are left out."""
    found: dict[str, Column | None] = {}
    if range_ is not None:
        found = dict.fromkeys(PLACE, None) | {PLACE[0]: within(range_)}
    if not all(holds_only(file, conditions) for file in files):
        for name, names in (("topic", conditions.topics), ("type", conditions.types)):
            if names is not None:
                found[name] = f.col(name).isin(sorted(names))
    return found


def within(range_: Range) -> Column:
    """Written so that Spark skips row groups by their statistics."""
    ids, positions = (f.col(name) for name in PLACE)
    after, last = range_.after, range_.last
    if after.transaction_id == last.transaction_id:
        is_between = (positions > after.position) & (positions <= last.position)
        return (ids == after.transaction_id) & is_between
    is_after = (ids == after.transaction_id) & (positions > after.position)
    is_before = (ids == last.transaction_id) & (positions <= last.position)
    return ((ids > after.transaction_id) | is_after) & ((ids < last.transaction_id) | is_before)
