"""What a sink accepts when it is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost import Append, Files, History, ToLog, ToQueue, Upsert
from milepost.pipeline.sinks import Sink, TableName


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Upsert("t", key=[]), "needs a key"),
        (lambda: Upsert("t", key="day"), r"expected a list, \['day'\]"),
        (lambda: Upsert("t", key=["day"], add="total"), r"expected a list, \['total'\]"),
        (lambda: Upsert("t", key=["day"], set=["n"], add=["n"]), "names n twice"),
        (lambda: Upsert("t", key=["day"], delete="day"), "names day twice"),
        (lambda: Upsert("t", key=["day"], add=["n"], delete="gone"), "either add or delete"),
        (lambda: History("t", key=[], at="at"), "needs a key"),
        (lambda: History("t", key="id", at="at"), r"expected a list, \['id'\]"),
        (lambda: History("t", key=["id"], at=""), "needs at"),
        (lambda: History("t", key=["id"], at="id"), "names id twice"),
        (lambda: History("t", key=["id"], at="at", delete="at"), "names at twice"),
        (
            lambda: History("t", key=["valid_to"], at="at"),
            "valid_to is a column that History makes",
        ),
        (lambda: Append("a.b.c"), "expected table or schema.table"),
        (lambda: Append(".c"), "expected table or schema.table"),
        (lambda: Append(""), "expected table or schema.table"),
        (lambda: ToLog(""), "1 to 255"),
        (lambda: ToQueue(""), "1 to 255"),
        (lambda: Files("x", partition_by="day"), "expected a list"),
    ],
)
def test_a_sink_that_means_nothing_is_refused(make: Callable[[], Sink], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_table_is_named_with_or_without_its_schema() -> None:
    assert TableName.parse("revenue") == TableName(None, "revenue")
    assert TableName.parse("sales.revenue") == TableName("sales", "revenue")
    assert TableName.parse("sales.revenue").versioned(3) == "revenue__v3"
    assert str(TableName.parse("sales.revenue")) == "sales.revenue"


def test_a_description_shows_no_path() -> None:
    assert "secret" not in Files("s3a://key:secret@bucket/x").describe()
