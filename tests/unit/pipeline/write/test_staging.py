"""What a task copies, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from milepost.pipeline.names import staging_name
from milepost.pipeline.write import staging


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(values)})


def test_batches_are_put_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", 16)  # two numbers
    found = staging.chunks(iter([batch(1), batch(), batch(2), batch(3)]))
    assert [chunk["n"].to_pylist() for chunk in found] == [[1, 2], [3]]


def test_nothing_makes_no_chunk() -> None:
    assert list(staging.chunks(iter([batch()]))) == []


def test_rows_are_tagged_and_numbered() -> None:
    table = staging.tagged(pa.Table.from_batches([batch(7, 8)]), 99, 10, is_ordered=True)
    assert table.to_pydict() == {"n": [7, 8], "_attempt": [99, 99], "_row": [10, 11]}


def test_a_staging_table_has_a_name_of_its_own_within_63_bytes() -> None:
    names = {staging_name(name, 1) for name in ("a b", "a_b", "a-b", "ä" * 255)}
    assert len(names) == 4
    assert all(len(name.encode()) <= 63 for name in names)
