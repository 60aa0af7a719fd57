"""Spark's types and PostgreSQL's."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from milepost.errors import InvalidOutput
from milepost.pipeline.write.column_types import Column, columns_of


def schema(kind: t.DataType, name: str = "c") -> t.StructType:
    return t.StructType([t.StructField(name, kind)])


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (t.ByteType(), Column("c", "smallint", "smallint")),
        (t.LongType(), Column("c", "bigint")),
        (t.DecimalType(12, 3), Column("c", "numeric(12,3)")),
        (t.TimestampType(), Column("c", "timestamp with time zone")),
        (t.TimestampNTZType(), Column("c", "timestamp without time zone")),
        (t.ArrayType(t.StringType()), Column("c", "text[]")),
        (t.ArrayType(t.ArrayType(t.StringType())), Column("c", "jsonb", "json")),
        (t.MapType(t.StringType(), t.LongType()), Column("c", "jsonb", "json")),
        (t.StructType([]), Column("c", "jsonb", "json")),
        (t.VariantType(), Column("c", "jsonb", "json")),
    ],
)
def test_a_type_has_its_like(kind: t.DataType, column: Column) -> None:
    assert columns_of("p", schema(kind)) == [column]


def test_an_array_of_numbers_is_no_number() -> None:
    assert Column("c", "integer").is_number
    assert Column("c", "numeric(5,2)").is_number
    assert not Column("c", "integer[]").is_number


def test_json_is_staged_as_text() -> None:
    assert Column("c", "jsonb", "json").staged_type == "text"
    assert Column("c", "bigint").staged_type == "bigint"


@pytest.mark.parametrize("kind", [t.NullType(), t.DayTimeIntervalType(), t.YearMonthIntervalType()])
def test_a_type_without_a_like_is_refused(kind: t.DataType) -> None:
    with pytest.raises(InvalidOutput, match="'c' of its output is of type"):
        columns_of("p", schema(kind))


def test_names_that_staging_uses_or_that_come_twice_are_refused() -> None:
    with pytest.raises(InvalidOutput, match="staging"):
        columns_of("p", schema(t.LongType(), "_attempt"))
    twice = t.StructType([t.StructField("a", t.LongType()), t.StructField("a", t.LongType())])
    with pytest.raises(InvalidOutput, match="more than once"):
        columns_of("p", twice)
