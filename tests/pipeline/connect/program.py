"""A program whose Spark is a Connect server: run as `python -m tests.pipeline.connect.program URL
ADDRESS`. It prints what it has seen, as one line of JSON."""

from __future__ import annotations

import json
import sys
from threading import Event, Thread

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from milepost import Milepost, SparkSettings, ToLog, Upsert
from milepost.errors import NeedsClassicSpark
from milepost.pipeline import history, spark_session
from tests.pipeline.running import parsed, per_customer, place

SINK = Upsert("customers", key=["customer"], add=["total", "orders"])


def main(url: str, address: str) -> dict[str, object]:
    mp, settings = Milepost(url), SparkSettings(address)
    customers = mp.pipeline("customers", topics=["orders"], sink=SINK)(per_customer).using(settings)

    @mp.pipeline("copies", topics=["orders"], sink=ToLog("copies"))
    def copies(messages: DataFrame) -> DataFrame:
        return messages.select(f.lit("Copied").alias("type"), "data", "key")

    @mp.pipeline("counts", sink=Upsert("counts", key=["customer"]), stateful=True)
    def counts(messages: DataFrame) -> DataFrame:
        return parsed(messages).groupBy("customer").agg(f.sum("total").alias("total"))

    place(mp, 0, 60)
    for pipeline in (customers, copies.using(settings)):
        pipeline.run(until="caught_up")
    stop = Event()
    following = Thread(target=lambda: customers.run(stop=stop))
    following.start()
    place(mp, 60, 40)
    customers.wait_for(mp.horizon(), timeout=120)
    stop.set()
    following.join()
    rebuilt = customers.rebuild()
    spark = spark_session(master=address)
    return {
        "session": type(spark).__module__,
        "read": spark.read.format("milepost").options(url=url, topics="orders").load().count(),
        "history": history(spark, url, topics=["orders"]).count(),
        "rebuilt": [rebuilt.version, rebuilt.rows],
        "stateful": refused(counts.using(settings)),
    }


def refused(pipeline: object) -> str:
    try:
        pipeline.run(until="caught_up")  # type: ignore[attr-defined]  # a pipeline
    except NeedsClassicSpark as error:
        return str(error)
    return "it ran"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
