"""What the figures of Spark read: a log of orders by 100,000 customers, and the projections that
both sides make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from milepost import Milepost, Upsert, db
from milepost.records import Position

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from milepost.pipeline.pipeline import Pipeline

Transform: TypeAlias = "Callable[[DataFrame], DataFrame]"
CUSTOMERS = 100_000
MESSAGES_PER_BATCH = 100_000

# Some 300 bytes each, as `sample.orders`, but written by the server: millions of them, and the
# same ones each time. The customers come as if drawn by lot.
_FILL = """
insert into milepost.messages (id, topic, key, type, data, metadata)
select
  gen_random_uuid(), 'orders', 'customer-' || customer, 'OrderPlaced',
  format(
    '{"order": %%s, "customer": "customer-%%s", "cents": %%s, "placed_on": "2026-11-15", '
    '"currency": "EUR", "lines": [{"sku": "SKU-%%s", "name": "writing desk", "quantity": %%s, '
    '"price": 129.5}, {"sku": "SKU-42", "name": "lamp, small", "quantity": 1, "price": 17.25}]}',
    number, customer, number * 104729 %% 50000, number %% 10000, 1 + number %% 4
  )::json,
  format('{"correlation": "request-%%s"}', number)::json
from (
  select number, abs(hashint8(number)::bigint) %% %(customers)s as customer
  from generate_series(%(first)s::bigint, %(last)s::bigint) as number
) as numbered
"""
_AT_ONCE = 500_000


def fill(url: str, count: int, already: int = 0) -> int:
    """Let the log have `count` messages, of which some are there; vacuumed, as one is that has
    been there for a while. How many there are."""
    with db.connect(url) as conn:
        for first in range(already, count, _AT_ONCE):
            last = min(first + _AT_ONCE, count) - 1
            conn.execute(_FILL, {"first": first, "last": last, "customers": CUSTOMERS})
        conn.execute("vacuum analyze milepost.messages")
    return count


@dataclass(frozen=True, slots=True)
class Projection:
    """What every side does with a batch: a row for each order, to be added up by customer."""

    name: str
    columns: tuple[str, ...]  # of a message, that are read
    add: tuple[str, ...]
    transform: Transform


def _summed(messages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    order = f.from_json("data", "customer string, cents bigint").alias("order")
    return messages.select(order).select("order.customer", "order.cents", f.lit(1).alias("orders"))


def _counted(messages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return messages.select(f.col("key").alias("customer"), f.lit(1).alias("orders"))


def _summed_content(messages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return messages.select(
        f.variant_get("content", "$.customer", "string").alias("customer"),
        f.variant_get("content", "$.cents", "bigint").alias("cents"),
        f.lit(1).alias("orders"),
    )


TOTALS = Projection("sums from JSON", ("data",), ("cents", "orders"), _summed)
CONTENTS = Projection("sums from content", ("content",), ("cents", "orders"), _summed_content)
COUNTS = Projection("counts by key", ("key",), ("orders",), _counted)


def totals_pipeline(
    url: str, directory: Path, projection: Projection = TOTALS, start: int = 0,
    at_once: int = MESSAGES_PER_BATCH,
) -> Pipeline:  # fmt: skip
    """A pipeline that has never run, called as its directory, into a new table `totals`."""
    with db.connect(url) as conn:
        conn.execute("drop view if exists totals")
        conn.execute("drop table if exists totals__v1")
    return Milepost(url).pipeline(
        directory.name,
        topics=["orders"],
        columns=projection.columns,
        sink=Upsert("totals", key=["customer"], add=projection.add),
        max_messages_per_batch=at_once,
        start_from=Position(0, start),
        checkpoint_dir=directory.as_uri(),
    )(projection.transform)
