"""Rows of a key are added up only where the result is beyond doubt."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.pipeline.write.presum import Sums

KEYS = st.sampled_from(["a", "b", "", None])
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def totals(table: pa.Table) -> dict[str | None, int]:
    """As the server sums: a null adds nothing, and nothing is out of range."""
    found: dict[str | None, int] = {}
    for row in table.to_pylist():
        found[row["k"]] = found.get(row["k"], 0) + (row["n"] or 0)
    return found


@given(st.lists(st.tuples(KEYS, NUMBERS)))
def test_the_sums_are_those_of_the_rows(pairs: list[tuple[str | None, int | None]]) -> None:
    table = pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.string()),
            "n": pa.array([number for _, number in pairs], pa.int64()),
        }
    )
    assert totals(Sums(("k",), ("n",)).of(table)) == totals(table)


def test_one_row_a_key_in_the_types_that_came() -> None:
    table = pa.table(
        {
            "k": ["a", "b", "a", None],
            "l": pa.array([1, 1, 1, 1], pa.int16()),
            "i": pa.array([1, 2, 3, None], pa.int32()),
            "d": pa.array([Decimal("1.10"), None, Decimal("0.05"), None], pa.decimal128(10, 2)),
            "f": pa.array([0.5, 1, 0.25, None], pa.float32()),
        }
    )
    summed = Sums(("k", "l"), ("i", "d", "f")).of(table)
    assert summed.schema == table.schema
    assert summed.to_pylist() == [
        {"k": "a", "l": 1, "i": 4, "d": Decimal("1.15"), "f": 0.75},
        {"k": "b", "l": 1, "i": 2, "d": None, "f": 1.0},
        {"k": None, "l": 1, "i": None, "d": None, "f": None},
    ]


def test_sums_go_on_over_tables_while_they_are_few() -> None:
    table = pa.table({"n": [1, 2, 3], "k": ["a", "b", "a"]})
    sums = Sums(("k",), ("n",))
    found = list(sums.over([table] * 5, most_bytes=1_000))
    assert [(one.to_pydict(), rows) for one, rows in found] == [
        ({"k": ["a", "b"], "n": [20, 10]}, 15)
    ]


def test_sums_that_are_many_are_not_kept() -> None:
    tables = [pa.table({"k": [f"{n}{m}" for m in range(4)], "n": [1] * 4}) for n in range(5)]
    found = list(Sums(("k",), ("n",)).over(tables, most_bytes=2 * tables[0].nbytes - 1))
    assert [(one.num_rows, rows) for one, rows in found] == [(8, 8), (8, 8), (4, 4)]
    assert pa.concat_tables(one for one, _ in found) == pa.concat_tables(tables)


def test_columns_that_are_never_null_may_be_kept() -> None:
    schema = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    table = pa.table({"k": ["a"], "n": [1]}, schema=schema)
    found = list(Sums(("k",), ("n",)).over([table, table], most_bytes=1_000))
    assert [(one.to_pylist(), rows) for one, rows in found] == [([{"k": "a", "n": 2}], 2)]


def test_keys_alone_are_told_once() -> None:
    table = pa.table({"k": ["a", "b", "a"]})
    assert Sums(("k",), ()).of(table).to_pydict() == {"k": ["a", "b"]}


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([2**62, 2**62], pa.int64()),
        pa.array([-(2**31), 1], pa.int32()),
        pa.array([Decimal("9.9"), Decimal("0.1")], pa.decimal128(2, 1)),
    ],
)
def test_what_may_leave_its_type_is_left_to_the_server(numbers: pa.Array) -> None:
    table = pa.table({"k": ["a", "a"], "n": numbers})
    assert Sums(("k",), ("n",)).of(table) is table


def test_keys_that_arrow_cannot_compare_are_left_to_the_server() -> None:
    table = pa.table({"k": [["a"], ["a"]], "n": [1, 2]})
    assert Sums(("k",), ("n",)).of(table) is table
