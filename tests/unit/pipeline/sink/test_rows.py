"""Which DataFrames make messages."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from milepost.errors import InvalidOption, InvalidRows
from milepost.pipeline.sink.json_text import json_texts, text_of
from milepost.pipeline.sink.rows import Rows

TEXT = t.StringType()


def schema(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


def test_type_and_data_are_enough() -> None:
    rows = Rows.of(schema(type=TEXT, data=TEXT), "orders")
    assert rows.merge.parameters == {"default_topic": "orders"}
    assert not rows.texts


def test_a_column_topic_is_enough() -> None:
    assert Rows.of(schema(type=TEXT, data=TEXT, topic=TEXT), None).merge.parameters == {
        "default_topic": None
    }


def test_without_any_topic_a_write_is_refused() -> None:
    with pytest.raises(
        InvalidOption, match="is missing: pass it, or give each row one in a column"
    ):
        Rows.of(schema(type=TEXT, data=TEXT), None)


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ({"type": TEXT}, "The column 'data' is missing: a message needs it. Nothing was written."),
        (
            {"type": TEXT, "data": t.LongType()},
            "The column 'data' is bigint: expected text. Cast it",
        ),
        ({"type": TEXT, "data": TEXT, "n": TEXT}, "'n' is not part of a message .* Drop it"),
        ({"type": TEXT, "data": TEXT, "key": t.LongType()}, "'key' is bigint: expected text"),
        (
            {"type": TEXT, "data": schema(every=t.DayTimeIntervalType())},
            r"contains interval day to second. Use to_json\(data\)",
        ),
        (
            {"type": TEXT, "data": t.MapType(t.DateType(), TEXT)},
            r"contains date. Use to_json\(data\)",
        ),
    ],
)
def test_columns_that_make_no_message_are_refused(
    kinds: dict[str, t.DataType], reason: str
) -> None:
    with pytest.raises(InvalidRows, match=reason):
        Rows.of(schema(**kinds), "orders")


def test_a_name_that_occurs_twice_in_a_struct_is_refused() -> None:
    twice = t.StructType([t.StructField("n", TEXT), t.StructField("n", TEXT)])
    with pytest.raises(InvalidRows, match="a name occurs twice"):
        Rows.of(schema(type=TEXT, data=twice), "orders")


def test_structs_become_json_without_their_nulls() -> None:
    kind = schema(n=t.LongType(), name=TEXT, tags=t.ArrayType(schema(tag=TEXT)))
    values = pa.chunked_array(
        [[{"n": 1, "name": 'a"b', "tags": [None, {"tag": None}]}, None, {"n": 2}]],
        pa.struct(
            [
                ("n", pa.int64()),
                ("name", pa.string()),
                ("tags", pa.list_(pa.struct([("tag", pa.string())]))),
            ]
        ),
    )
    found = json_texts(values, text_of("data", kind)).to_pylist()
    assert [None if each is None else json.loads(each) for each in found] == [
        {"n": 1, "name": 'a"b', "tags": [None, {}]},
        None,
        {"n": 2},
    ]
