"""Add up the rows of a key in the task that copies them, so that fewer are copied and merged.

Only if the result is certain to be right. Otherwise the server adds them up, and raises its own
errors (a number out of range).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Sums:
    """The columns that identify a row, and those that are added up. There are no others."""

    key: tuple[str, ...]
    add: tuple[str, ...]

    def over(self, tables: Iterable[pa.Table], most_bytes: int) -> Iterator[tuple[pa.Table, int]]:
        """The sums over as many tables as may be kept, and of how many rows. If the keys are few,
        a task stages one row for each."""
        kept: list[pa.Table] = []
        rows = 0
        for table in tables:
            whole = pa.concat_tables([*kept, table.select([*self.key, *self.add])])
            kept, rows = [self.of(whole)], rows + table.num_rows
            if kept[0].nbytes > most_bytes:
                yield kept.pop(), rows
                rows = 0
        for last in kept:
            yield last, rows

    def of(self, table: pa.Table) -> pa.Table:
        """One row for each key, or the unchanged table if that is not safe."""
        if not self._is_safe(table):
            return table
        grouped = table.group_by(list(self.key), use_threads=False)
        summed = grouped.aggregate([(name, "sum") for name in self.add])
        arrays = [summed.column(name) for name in self.key]
        arrays += [summed.column(f"{name}_sum").cast(table.field(name).type) for name in self.add]
        fields = [table.field(name) for name in (*self.key, *self.add)]
        return pa.table(arrays, schema=pa.schema(fields))

    def _is_safe(self, table: pa.Table) -> bool:
        if any(pa.types.is_nested(table.field(name).type) for name in self.key):
            return False  # Arrow cannot group by lists
        return all(_fits(table.column(name)) for name in self.add)


def _fits(numbers: pa.ChunkedArray) -> bool:
    """Whether no sum of these can overflow: Arrow would wrap around without an error."""
    limit = _limit(numbers.type)
    if limit is None:
        return bool(pa.types.is_floating(numbers.type))
    extremes = pc.min_max(numbers).as_py()
    largest: Decimal = max(abs(Decimal(extremes[end] or 0)) for end in ("min", "max"))
    return bool(largest * numbers.length() <= limit)


def _limit(kind: pa.DataType) -> int | Decimal | None:
    if pa.types.is_signed_integer(kind):
        bits: int = kind.bit_width
        return (1 << (bits - 1)) - 1
    if pa.types.is_decimal128(kind):
        digits: int = kind.precision - kind.scale
        return Decimal(10) ** digits - 1
    return None
