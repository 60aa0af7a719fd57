"""What Spark may add up for the server, and what is copied of its sums."""

from __future__ import annotations

from decimal import Decimal
from math import inf

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from milepost.pipeline.write.column_types import Column, columns_of
from milepost.pipeline.write.spark_sums import SparkSums, pays, spark_sums

K = Column("k", "text")


def column(kind: t.DataType) -> Column:
    return columns_of("p", t.StructType([t.StructField("c", kind)]))[0]


def sums(*types: str) -> SparkSums:
    found = spark_sums([K], [Column(f"n{n}", type_) for n, type_ in enumerate(types)])
    assert found is not None
    return found


def received(found: SparkSums, *arrays: pa.Array) -> list[tuple[object, ...]]:
    """What is copied of rows with the keys a, b ... that were two each."""
    keys = pa.array([chr(ord("a") + n) for n in range(len(arrays[0]))])
    counts = pa.array([2] * len(keys), pa.int64())
    columns = [keys, *arrays, counts]
    table, rows = found.received(pa.table(columns, names=[str(n) for n in range(len(columns))]))
    assert rows == 2 * len(keys)
    assert table.column_names == ["k", *(one.name for one in found.add)]
    return [tuple(row.values()) for row in table.to_pylist()]


def bigints(*numbers: int | None) -> pa.Array:
    """As Spark adds them up, by halves."""
    half = 2**32
    halves = [(None, None) if n is None else divmod(n, half) for n in numbers]
    high, low = (pa.array([pair[n] for pair in halves], pa.int64()) for n in (0, 1))
    return pa.StructArray.from_arrays([high, low], names=["high", "low"])


@pytest.mark.parametrize(
    "kind",
    [
        t.StringType(),
        t.BooleanType(),
        t.ByteType(),
        t.ShortType(),
        t.IntegerType(),
        t.LongType(),
        t.DecimalType(38, 10),
        t.BinaryType(),
        t.DateType(),
        t.TimestampType(),
        t.TimestampNTZType(),
    ],
)
def test_spark_groups_by_what_both_take_for_equal(kind: t.DataType) -> None:
    assert spark_sums([column(kind)], []) is not None


@pytest.mark.parametrize(
    "kind",
    [
        t.FloatType(),
        t.DoubleType(),
        t.StringType("UTF8_LCASE"),
        t.CharType(3),
        t.VarcharType(3),
        t.ArrayType(t.StringType()),
        t.ArrayType(t.ArrayType(t.LongType())),
        t.StructType([]),
        t.MapType(t.StringType(), t.LongType()),
        t.VariantType(),
    ],
)
def test_spark_does_not_group_by_what_may_be_equal_for_one_only(kind: t.DataType) -> None:
    assert spark_sums([K, column(kind)], []) is None


def test_decimals_whose_sum_may_need_too_many_digits_are_left_to_the_tasks() -> None:
    assert spark_sums([K], [Column("n", "numeric(27,2)")]) is not None
    assert spark_sums([K], [Column("n", "numeric(28,2)")]) is None


@pytest.mark.parametrize(
    ("messages", "cores", "expected"),
    [(2_000_000, 2, False), (100_000, 64, False), (250_000, 8, True)],
)
def test_the_shuffle_is_for_many_rows_on_many_cores(
    messages: int, cores: int, *, expected: bool
) -> None:
    assert pays(messages, cores) is expected


def test_sums_are_copied_in_the_types_of_their_columns() -> None:
    found = sums("smallint", "integer", "bigint", "numeric(4,2)", "real", "double precision")
    arrays = [
        pa.array([2, None], pa.int64()),
        pa.array([2**31 - 1, -(2**31) + 1], pa.int64()),
        bigints(2**63 - 1, None),
        pa.array([Decimal("99.99"), Decimal("-0.01")], pa.decimal128(14, 2)),
        pa.array([0.5, None]),
        pa.array([-inf, 0.1]),
    ]
    assert received(found, *arrays) == [
        ("a", 2, 2**31 - 1, 2**63 - 1, Decimal("99.99"), 0.5, -inf),
        ("b", None, -(2**31) + 1, None, Decimal("-0.01"), None, 0.1),
    ]


def test_a_sum_that_the_column_cannot_hold_becomes_rows_that_the_server_cannot_add_up() -> None:
    found = sums("bigint", "double precision")
    copied = received(found, bigints(7, 2**63, 2**70, None), pa.array([1.0, inf, None, None]))
    most = 2**63 - 1
    assert copied == [
        ("a", 7, 1.0), ("b", most, inf), ("c", most, None), ("d", None, None),
        ("b", 1, None), ("c", most, None),
    ]  # fmt: skip


def test_the_lowest_integer_is_kept() -> None:
    assert received(sums("bigint"), bigints(-(2**63))) == [("a", -(2**63) + 1), ("a", -1)]


@pytest.mark.parametrize(
    ("type_", "kind", "most"),
    [
        ("smallint", pa.int64(), Decimal(2**15 - 1)),
        ("integer", pa.int64(), Decimal(2**31 - 1)),
        ("bigint", None, Decimal(2**63 - 1)),
        ("numeric(5,2)", pa.decimal128(15, 2), Decimal("999.99")),
        ("numeric(27,0)", pa.decimal128(37, 0), Decimal(10**27 - 1)),
    ],
)
@given(data=st.data())
def test_the_server_finds_the_same_sums_or_none(
    type_: str, kind: pa.DataType | None, most: Decimal, data: st.DataObject
) -> None:
    unit = Decimal(1).scaleb(int(most.as_tuple().exponent))
    ends, steps = st.sampled_from([-most, Decimal(0), most]), st.integers(-3, 3)
    near = st.builds(lambda end, step: end + step * unit, ends, steps)
    totals = data.draw(st.lists(st.none() | near, min_size=1, max_size=5))
    array = (
        bigints(*(None if total is None else int(total) for total in totals))
        if kind is None
        else pa.array(totals, pa.decimal128(38, 2)).cast(kind)
    )
    found: dict[object, Decimal | None] = {}
    for key, number in received(sums(type_), array):
        if number is not None:
            assert abs(Decimal(str(number))) <= most
            found[key] = (found.get(key) or Decimal(0)) + Decimal(str(number))
        found.setdefault(key, None)
    assert list(found.values()) == totals
