"""Add up the rows of a key in Spark, over all tasks, before they reach Python and staging.

Each task adds up its own rows, then a shuffle brings those of a key together: one row for each key
is staged, however many tasks there are. Integers do not wrap around.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from milepost.pipeline.write.column_types import Column

Array: TypeAlias = pa.ChunkedArray
# For each row, the shuffle costs the executors about a microsecond, which their cores share.
# Without it, each task stages a row of a key: 1.5 µs of the server, which merges in one session.
# With few cores or few rows, each task adds up its own rows in Arrow, which costs less
# (docs/decisions/0011).
LEAST_CORES = 8
LEAST_MESSAGES = 250_000
# Spark adds ten digits to those of a sum, enough for 10^10 rows. Decimals have 38 at most, and the
# difference of two sums needs one more.
_MOST_DIGITS = 27
# A decimal that holds sums of 64 bits is an object for each row. Two sums of 32 bits each are not.
_HALF_BITS = 32
_LOW_HALF = 2**_HALF_BITS - 1
_WHOLE = pa.decimal128(20, 0)
_HIGH, _LOW = "high", "low"
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_INTEGERS = {"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}
_FLOATS = {"real": pa.float32(), "double precision": pa.float64()}


def pays(messages: int, cores: int) -> bool:
    """Whether the shuffle costs less than what it spares: rows for the server."""
    return messages >= LEAST_MESSAGES and cores >= LEAST_CORES


def spark_sums(key: Sequence[Column], add: Sequence[Column]) -> SparkSums | None:
    """None if the result might not be the server's: Spark may take other keys for equal, or has no
    type that certainly holds the sums."""
    if not all(column.is_equal_as_in_spark for column in key):
        return None
    sums = [Sum.of(column) for column in add]
    if any(one.digits > _MOST_DIGITS for one in sums):
        return None
    return SparkSums(tuple(column.name for column in key), tuple(sums))


@dataclass(frozen=True, slots=True)
class SparkSums:
    """The columns that identify a row, and those that are added up. There are no others."""

    key: tuple[str, ...]
    add: tuple[Sum, ...]

    def of(self, df: DataFrame, partitions: int) -> DataFrame:
        """One row for each key, and how many rows it was made of.

        The columns are named by number, because the names of the output may be any. The shuffle has
        as many partitions as the session's settings say, 200 by default, and each would be a COPY:
        they are put together.
        """
        keys = [_column(name).alias(str(n)) for n, name in enumerate(self.key)]
        sums = [one.in_spark().alias(str(n)) for n, one in enumerate(self.add, len(keys))]
        count = f.count(f.lit(1)).alias(str(len(keys) + len(sums)))
        return df.groupBy(*keys).agg(*sums, count).coalesce(partitions)

    def received(self, table: pa.Table) -> tuple[pa.Table, int]:
        """In a task: the rows as they are copied, and how many they were before.

        A sum that its column cannot hold becomes two rows, which the server cannot add up either:
        it raises its own error, as if it had added up all rows.
        """
        *arrays, counts = table.columns
        keys = arrays[: len(self.key)]
        parts = zip(self.add, arrays[len(self.key) :], strict=True)
        sums = [one.joined(array) for one, array in parts]
        held = [one.held(array) for one, array in zip(self.add, sums, strict=True)]
        copied = self._named(keys, held)
        if any(first is not array for first, array in zip(held, sums, strict=True)):
            rest = [one.rest(array) for one, array in zip(self.add, sums, strict=True)]
            is_left = reduce(pc.or_, [pc.is_valid(array) for array in rest])
            copied = pa.concat_tables([copied, self._named(keys, rest).filter(is_left)])
        return copied, pc.sum(counts).as_py() or 0

    def _named(self, keys: Sequence[Array], sums: Sequence[Array]) -> pa.Table:
        cast = [array.cast(one.arrow_type) for one, array in zip(self.add, sums, strict=True)]
        return pa.table([*keys, *cast], names=[*self.key, *(one.name for one in self.add)])


@dataclass(frozen=True, slots=True)
class Sum:
    """A column that is added up."""

    name: str
    arrow_type: pa.DataType  # as it is staged
    digits: int = 0  # of a decimal
    limit: Decimal | None = None  # the largest number that it holds; None: it becomes infinite

    @classmethod
    def of(cls, column: Column) -> Sum:
        if column.type in _FLOATS:
            return cls(column.name, _FLOATS[column.type])
        if (numeric := _NUMERIC.fullmatch(column.type)) is None:
            kind = _INTEGERS[column.type]
            return cls(column.name, kind, limit=Decimal(2 ** (kind.bit_width - 1) - 1))
        digits, scale = int(numeric[1]), int(numeric[2])
        limit = Decimal((0, (9,) * digits, -scale))
        return cls(column.name, pa.decimal128(digits, scale), digits, limit)

    @property
    def is_split(self) -> bool:
        return bool(self.arrow_type == pa.int64())

    def in_spark(self) -> SparkColumn:
        """Integers of 32 bits are added up in 64, which 2^31 rows do not fill. Those of 64 bits are
        added up by halves."""
        column = _column(self.name)
        if not self.is_split:
            return f.sum(column)
        whole = column.cast("bigint")  # also of what becomes one, and does not shift
        high, low = f.shiftright(whole, _HALF_BITS), whole.bitwiseAND(f.lit(_LOW_HALF))
        return f.struct(f.sum(high).alias(_HIGH), f.sum(low).alias(_LOW))

    def joined(self, sums: Array) -> Array:
        """The sums themselves, of the halves that `in_spark` has added up."""
        if not self.is_split:
            return sums
        high, low = (pc.struct_field(sums, name) for name in (_HIGH, _LOW))
        try:
            return pc.add_checked(pc.multiply_checked(high, _LOW_HALF + 1), low)
        except pa.ArrowInvalid:  # too large: as a number that the column cannot hold
            shifted = pc.multiply(high.cast(_WHOLE), pa.scalar(Decimal(_LOW_HALF + 1)))
            return pc.add(shifted, low.cast(_WHOLE))

    def held(self, sums: Array) -> Array:
        """As much of them as the column can hold: mostly the same array."""
        extremes = pc.min_max(sums).as_py()
        if self.limit is None or all(
            abs(extremes[end] or 0) <= self.limit for end in ("min", "max")
        ):
            return sums
        most, least = (pa.scalar(sign * self.limit).cast(sums.type) for sign in (1, -1))
        lower = pc.min_element_wise(sums, most, skip_nulls=False)
        return pc.max_element_wise(lower, least, skip_nulls=False)

    def rest(self, sums: Array) -> Array:
        """What is left of them, as far as the column can hold it. Null where nothing is."""
        held = self.held(sums)
        if held is sums:
            return pa.chunked_array([pa.nulls(len(sums), sums.type)])
        left = pc.subtract(sums, held).cast(sums.type)
        is_nothing = pc.equal(left, pa.scalar(Decimal(0)).cast(sums.type))
        return self.held(pc.if_else(is_nothing, pa.scalar(None, sums.type), left))


def _column(name: str) -> SparkColumn:
    return f.col(f"`{name.replace('`', '``')}`")
