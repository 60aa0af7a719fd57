"""The pipelines: delays by carrier and by hour, and how busy the routes are.

Each row of a batch says what one message adds, and the sink adds it up. That is right because every
batch counts exactly once, whatever dies in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost import Milepost, Upsert

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOPIC = "flights"
DEPARTED, ARRIVED, CANCELLED = "FlightDeparted", "FlightArrived", "FlightCancelled"
FLIGHT = "carrier string, origin string, dest string, hour int, delay bigint"

mp = Milepost()


@mp.pipeline(
    "delay-by-carrier",
    topics=[TOPIC],
    sink=Upsert(
        "delay_by_carrier",
        key=["carrier"],
        add=["departed", "departure_delay", "arrived", "arrival_delay", "cancelled"],
    ),
)
def delay_by_carrier(messages: DataFrame) -> DataFrame:
    return flights(messages).groupBy("carrier").agg(*counts_and_delays())


@mp.pipeline(
    "delay-by-hour",
    topics=[TOPIC],
    sink=Upsert(
        "delay_by_hour",
        key=["hour"],
        add=["departed", "departure_delay", "arrived", "arrival_delay", "cancelled"],
    ),
)
def delay_by_hour(messages: DataFrame) -> DataFrame:
    """By the hour in which a flight was to leave."""
    return flights(messages).groupBy("hour").agg(*counts_and_delays())


@mp.pipeline(
    "routes",
    topics=[TOPIC],
    types=[DEPARTED],
    sink=Upsert("routes", key=["origin", "dest"], add=["departed"]),
)
def routes(messages: DataFrame) -> DataFrame:
    return flights(messages).groupBy("origin", "dest").agg(_count(DEPARTED, "departed"))


def flights(messages: DataFrame) -> DataFrame:
    """The messages' type and the fields of their data."""
    from pyspark.sql import functions as f

    return messages.select("type", f.from_json("data", FLIGHT).alias("flight")).select(
        "type", "flight.*"
    )


def counts_and_delays() -> list[Column]:
    return [
        _count(DEPARTED, "departed"),
        _minutes(DEPARTED, "departure_delay"),
        _count(ARRIVED, "arrived"),
        _minutes(ARRIVED, "arrival_delay"),
        _count(CANCELLED, "cancelled"),
    ]


def _count(type_: str, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.count_if(f.col("type") == type_).alias(name)


def _minutes(type_: str, name: str) -> Column:
    from pyspark.sql import functions as f

    late = f.when(f.col("type") == type_, f.col("delay"))
    return f.coalesce(f.sum(late), f.lit(0)).cast("bigint").alias(name)
