"""Structs, maps, arrays and variants as JSON, as Spark's `to_json` writes them: fields that are
null are left out, times have milliseconds and the zone of the session, bytes are Base64.

Spark gives a Python data source the columns as they are, so it cannot be asked to do this. In a
task it costs more than `to_json` in the DataFrame.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import VariantVal

from milepost.errors import InvalidRows

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

# Of a value that is not null.
Text: TypeAlias = Callable[[Any], str]


def json_texts(values: pa.ChunkedArray, text: Text) -> pa.Array:
    return pa.array(
        (None if value is None else text(value) for value in values.to_pylist()), pa.string()
    )


def text_of(column: str, kind: DataType) -> Text:
    """How values of this type are written. Refuses types that JSON has no form for."""
    if isinstance(kind, spark_types.StructType):
        fields = {field.name: text_of(column, field.dataType) for field in kind.fields}
        if len(fields) < len(kind.fields):
            raise InvalidRows(column, "has a struct in which a name occurs twice. Rename one.")
        return partial(_object, {name: (_string(name), text) for name, text in fields.items()})
    if isinstance(kind, spark_types.ArrayType):
        return partial(_array, text_of(column, kind.elementType))
    if isinstance(kind, spark_types.MapType):
        return partial(_map, _key_of(column, kind.keyType), text_of(column, kind.valueType))
    known = _PLAIN.get(type(kind))
    if known is None:
        raise _no_json(column, kind)
    return known


def _key_of(column: str, kind: DataType) -> Text:
    if isinstance(kind, spark_types.StringType):
        return str
    if isinstance(kind, spark_types.IntegralType | spark_types.BooleanType):
        return _PLAIN[type(kind)]
    raise _no_json(column, kind)


def _no_json(column: str, kind: DataType) -> InvalidRows:
    return InvalidRows(
        column, f"contains {kind.simpleString()}. Use to_json({column}), or cast it to a string."
    )


def _object(fields: dict[str, tuple[str, Text]], value: dict[str, Any]) -> str:
    found = (
        (name, text(value[key])) for key, (name, text) in fields.items() if value[key] is not None
    )
    return "{" + ",".join(f"{name}:{text}" for name, text in found) + "}"


def _array(text: Text, values: list[Any]) -> str:
    return "[" + ",".join("null" if value is None else text(value) for value in values) + "]"


def _map(key: Text, text: Text, pairs: list[tuple[Any, Any]]) -> str:
    found = (
        (_string(key(name)), "null" if value is None else text(value)) for name, value in pairs
    )
    return "{" + ",".join(f"{name}:{value}" for name, value in found) + "}"


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _null(_value: Any) -> str:
    return "null"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _double(value: float) -> str:
    return _finite(value, repr(value))


def _float(value: float) -> str:
    """The shortest text of 32 bits: Python's 64 would have digits of no meaning."""
    return _finite(value, str(np.float32(value)))


def _finite(value: float, text: str) -> str:
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return text


def _timestamp(value: Any) -> str:
    text = value.isoformat(timespec="milliseconds")
    return _string(text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text)


def _date(value: Any) -> str:
    return _string(value.isoformat())


def _binary(value: bytes) -> str:
    return _string(base64.b64encode(value).decode())


def _variant(value: dict[str, bytes]) -> str:
    return VariantVal(value["value"], value["metadata"]).toJson()


_PLAIN: dict[type[DataType], Text] = {
    spark_types.BooleanType: _boolean,
    spark_types.ByteType: str,
    spark_types.ShortType: str,
    spark_types.IntegerType: str,
    spark_types.LongType: str,
    spark_types.FloatType: _float,
    spark_types.DoubleType: _double,
    spark_types.DecimalType: str,
    spark_types.StringType: _string,
    spark_types.CharType: _string,
    spark_types.VarcharType: _string,
    spark_types.BinaryType: _binary,
    spark_types.DateType: _date,
    spark_types.TimestampType: _timestamp,
    spark_types.TimestampNTZType: _timestamp,
    spark_types.VariantType: _variant,
    spark_types.NullType: _null,
}
