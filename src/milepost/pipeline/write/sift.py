"""Take out the rows that violate an expectation: marked by Spark in the pass that computes them,
and counted, dropped or set aside by the server in the transaction of the merge.

The merges know nothing of it: what violates an expectation is not in staging any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from milepost import db
from milepost.errors import ExpectationViolated, InvalidExpectation, InvalidOutput
from milepost.pipeline.names import REJECTED, rejected_name
from milepost.pipeline.sinks import TableName, ToLog, ToQueue
from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.target import find_target

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from milepost.checkpoints import CheckpointKey
    from milepost.db import Connection
    from milepost.pipeline.expectations import Expectations
    from milepost.pipeline.sinks import PostgresSink
    from milepost.pipeline.source import Range
    from milepost.pipeline.write.staging import Staged

VIOLATED = Column("_violated", "bigint")  # of staging: a bit for each expectation
_REJECTED_COLUMNS = (
    Column("rejected_at", "timestamp with time zone"),
    Column("expectations", "text[]"),
    Column("data", "jsonb"),
    Column("after_transaction_id", "bigint"),
    Column("after_position", "bigint"),
    Column("last_transaction_id", "bigint"),
    Column("last_position", "bigint"),
)


def marked(df: DataFrame, expectations: Expectations) -> DataFrame:
    """With a column that says which expectations each row violates. A condition that is null is not
    true."""
    bits = [
        f.when(_condition(text), f.lit(0)).otherwise(f.lit(1 << n)).cast("bigint")
        for n, text in enumerate(expectations.conditions.values())
    ]
    return df.withColumn(VIOLATED.name, reduce(add, bits))


def refuse_other_conditions(pipeline: str, df: DataFrame, expectations: Expectations) -> None:
    """What cannot be asked of each row: an unknown column, a sum, a number."""
    if VIOLATED.name in df.columns:
        raise InvalidOutput(pipeline, VIOLATED.name, "has a name that expectations use. Rename it.")
    for name, text in expectations.conditions.items():
        try:
            df.filter(_condition(text)).schema  # noqa: B018 - Spark Connect analyses it only then
        except AnalysisException as error:
            reason = str(error).strip().partition("\n")[0].rstrip(". ")
            raise InvalidExpectation(pipeline, name, text, reason) from error


def _condition(text: str) -> SparkColumn:
    return f.expr(f"({text})")


@dataclass(frozen=True, slots=True)
class Sift:
    """How the rows of one output are sifted."""

    pipeline: CheckpointKey
    expectations: Expectations
    columns: Sequence[Column]  # of the output
    key: Sequence[str]  # of these, the ones that name a row in an error
    rejected: str | None  # the table for rows that are set aside

    def run(self, conn: Connection, schema: str, range_: Range, staged: Staged) -> None:
        """In the transaction of the merge."""
        rows = db.fetch_all(
            conn,
            schema,
            "sift_staged",
            pipeline=self.pipeline.processor,
            version=self.pipeline.version,
            **staged.parameters(),
            **range_.parameters(),
            total=staged.rows,
            expectations=self.expectations.names,
            on_violation=self.expectations.on_violation,
            rejected=self.rejected,
            columns=[column.name for column in self.columns],
            types=[column.type for column in self.columns],
            key_columns=list(self.key),
        )
        if self.expectations.on_violation == "fail":
            self._refuse(rows, staged.rows)

    def _refuse(self, rows: Sequence[tuple[str, int, str | None]], total: int) -> None:
        for name, violated, example in rows:
            if violated:
                shown = None if example is None else f"({', '.join(self.key)}) = {example}"
                condition = self.expectations.conditions[name]
                raise ExpectationViolated(
                    self.pipeline.processor, name, condition, violated, total, shown
                )


def prepare_sift(
    conn: Connection,
    pipeline: CheckpointKey,
    sink: PostgresSink,
    expectations: Expectations,
    columns: Sequence[Column],
    schema: str,
) -> Sift:
    """Makes the table for rows that are set aside."""
    key = [name for name in _key_of(sink) if any(column.name == name for column in columns)]
    rejected = None
    if expectations.on_violation == "set_aside":
        rejected = _prepare_rejected(conn, pipeline, sink, schema)
    return Sift(pipeline, expectations, columns, key, rejected)


def _key_of(sink: PostgresSink) -> Sequence[str]:
    if isinstance(sink, ToLog | ToQueue):
        return ("key",) if isinstance(sink, ToLog) else ("unique_key",)
    key: Sequence[str] = getattr(sink, "key", ())  # Append has none
    return key


def _prepare_rejected(
    conn: Connection, pipeline: CheckpointKey, sink: PostgresSink, schema: str
) -> str:
    """Beside the target: a table for each version, and a view of that of the active one."""
    if isinstance(sink, ToLog | ToQueue):
        name = TableName(schema, rejected_name(pipeline.processor))
    else:
        name = TableName.parse(sink.table).beside(REJECTED)
    target = find_target(conn, pipeline, name, schema)
    target.prepare(_REJECTED_COLUMNS, ())
    version = {"pipeline": pipeline.processor, "version": pipeline.version}
    db.run(conn, schema, "pipeline_rejected", **version, rejected=name.name)
    if target.shown not in (None, target.table):  # that of another version
        shown = {"target_schema": target.schema, "view_name": target.view}
        db.run(conn, schema, "show_rejected", **version, **shown, table_name=target.table)
    return target.qualified
