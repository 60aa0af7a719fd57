"""From the columns of a DataFrame to those of a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyspark.sql import types as spark_types

from milepost.errors import InvalidOutput

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

ATTEMPT = "_attempt"  # which task attempt has staged a row
ROW = "_row"  # its number within the attempt
Conversion: TypeAlias = Literal["json", "smallint"]

_PLAIN: dict[type[DataType], str] = {
    spark_types.BooleanType: "boolean",
    spark_types.ByteType: "smallint",
    spark_types.ShortType: "smallint",
    spark_types.IntegerType: "integer",
    spark_types.LongType: "bigint",
    spark_types.FloatType: "real",
    spark_types.DoubleType: "double precision",
    spark_types.StringType: "text",
    spark_types.CharType: "text",
    spark_types.VarcharType: "text",
    spark_types.BinaryType: "bytea",
    spark_types.DateType: "date",
    spark_types.TimestampType: "timestamp with time zone",
    spark_types.TimestampNTZType: "timestamp without time zone",
}
_AS_JSON = (
    spark_types.StructType,
    spark_types.MapType,
    spark_types.ArrayType,  # whose elements PostgreSQL has no array of
    spark_types.VariantType,
)
# Values of these are equal in PostgreSQL exactly if they are equal for Spark when it groups. Not
# floating-point numbers: of a key -0.0, Spark would make 0.0. Not arrays, nor what is copied as
# JSON.
_EQUAL_AS_IN_SPARK = (
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "text",
    "bytea",
    "date",
    "timestamp",
)
_NUMBERS = ("smallint", "integer", "bigint", "real", "double precision", "numeric")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the output, of the target and of staging."""

    name: str
    type: str  # in PostgreSQL, as format_type() writes it
    conversion: Conversion | None = None  # what Spark does to it before it is copied
    is_collated: bool = False  # a string for which Spark has its own equality

    @property
    def staged_type(self) -> str:
        """JSON is copied as text: the binary format of jsonb is different."""
        return "text" if self.conversion == "json" else self.type

    @property
    def is_number(self) -> bool:
        return self.type.startswith(_NUMBERS) and not self.is_array

    @property
    def is_array(self) -> bool:
        return self.type.endswith("[]")

    @property
    def is_equal_as_in_spark(self) -> bool:
        """Whether Spark may group by it for the server."""
        is_plain = self.type.startswith(_EQUAL_AS_IN_SPARK) and not self.is_array
        return is_plain and not self.is_collated


def columns_of(pipeline: str, schema: StructType) -> list[Column]:
    names = [field.name for field in schema.fields]
    for name in names:
        if name in (ATTEMPT, ROW):
            raise InvalidOutput(pipeline, name, "has a name that staging uses. Rename it.")
        if names.count(name) > 1:
            raise InvalidOutput(pipeline, name, "occurs more than once. Rename one.")
    return [_column(pipeline, field.name, field.dataType) for field in schema.fields]


def _column(pipeline: str, name: str, kind: DataType) -> Column:
    plain = _plain(kind)
    if plain is None and isinstance(kind, spark_types.ArrayType):
        element = _plain(kind.elementType)
        plain = None if element is None or element == "smallint" else f"{element}[]"
    if plain is not None:
        is_byte = isinstance(kind, spark_types.ByteType)
        return Column(name, plain, "smallint" if is_byte else None, _is_collated(kind))
    if isinstance(kind, _AS_JSON):
        return Column(name, "jsonb", "json")
    raise InvalidOutput(
        pipeline,
        name,
        f"is of type {kind.simpleString()}, which has no PostgreSQL equivalent. Cast it to a "
        "supported type.",
    )


def _is_collated(kind: DataType) -> bool:
    """Also strings of a length, which Spark compares with blanks added."""
    if isinstance(kind, spark_types.CharType | spark_types.VarcharType):
        return True
    return isinstance(kind, spark_types.StringType) and kind != spark_types.StringType()


def _plain(kind: DataType) -> str | None:
    if isinstance(kind, spark_types.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    return _PLAIN.get(type(kind))
