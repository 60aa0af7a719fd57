"""An application that runs pipelines, and writes down all that Spark and Milepost show to anybody.

In a process of its own: it needs a session with pages and an event log. Run it as
`python -m tests.pipeline.indiscreet PLACE`, with MILEPOST_URL, WRONG_URL and AWAY_URL.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from milepost import Append, Files, Milepost, RecordedMessage, ToLog, ToQueue, Upsert
from milepost.db import Connection
from milepost.pipeline import history, spark_session
from tests.pipeline.own_spark import BRIEF
from tests.pipeline.running import orders, parsed, per_customer
from tests.waiting import wait_until

COUNT = 5_000  # more than go through the driver
MODES = ("simple", "extended", "codegen", "cost", "formatted")
PAGES = ("SQL", "environment", "jobs", "stages", "StreamingQuery", "executors", "storage")
API = (
    "sql?details=true&planDescription=true&length=1000", "environment", "jobs", "executors",
    "stages?details=true", "storage/rdd",
)  # fmt: skip
BY_CUSTOMER = Upsert("customers", key=["customer"], add=["total", "orders"])
said: list[str] = []


def note(work: Callable[[], object]) -> None:
    """What it gives, or how it fails."""
    try:
        said.append(str(work()))
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody would see it
        said.append(f"{error!r} {error} {traceback.format_exc()}")


def explained(df: DataFrame) -> Iterator[str]:
    jvm: Any = df.sparkSession._jvm
    for mode in MODES:
        yield str(jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), mode))


def start_session(place: Path) -> SparkSession:
    (place / "events").mkdir()
    spark = spark_session("indiscreet", "local[2]", {
        **BRIEF,
        "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.sql.ui.explainMode": "extended",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(place / "events"),
        "spark.eventLog.compress": "false", "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"), "spark.sql.shuffle.partitions": "2",
    }, is_quiet=False)  # fmt: skip
    spark.sparkContext.setLogLevel("INFO")
    return spark


def running_totals(messages: DataFrame) -> DataFrame:
    return parsed(messages).groupBy("customer").agg(f.sum("total").alias("total"))


def as_messages(messages: DataFrame) -> DataFrame:
    return messages.where("position < 50").select(f.lit("Seen").alias("type"), "data", "key")


def as_jobs(messages: DataFrame) -> DataFrame:
    return messages.where("position < 50").select(f.col("data").alias("content"))


def handle(messages: list[RecordedMessage], tx: Connection) -> None:
    tx.execute("select 1")


def define(mp: Milepost, place: Path) -> None:
    """One of each kind."""

    @mp.pipeline("customers", topics=["orders"], sink=BY_CUSTOMER)
    def customers(messages: DataFrame) -> DataFrame:
        output = per_customer(messages)
        note(lambda: list(explained(output)))
        return output

    topics = ["orders"]
    mp.pipeline("rows", topics=topics, sink=Append("order_rows"))(parsed)
    mp.pipeline("echo", topics=topics, sink=ToLog("echoes"))(as_messages)
    mp.pipeline("tasks", topics=topics, sink=ToQueue("tasks"))(as_jobs)
    files = Files(str(place / "files"), partition_by=["day"])
    mp.pipeline("files", topics=topics, sink=files)(parsed)
    totals = Upsert("totals", key=["customer"])
    mp.pipeline("totals", topics=topics, stateful=True, sink=totals)(running_totals)
    mp.processor("handled", segments=2, engine="spark", batch_size=1000)(handle)


def fail(mp: Milepost, name: str, function: Callable[[DataFrame], DataFrame]) -> None:
    sink = Upsert("customers" if name == "misfit" else name, key=["customer"])
    pipeline = mp.pipeline(name, topics=["orders"], sink=sink)(function)
    note(lambda: pipeline.run("caught_up"))


def fail_in_every_way(mp: Milepost) -> None:
    """The output's, the function's, a task's, the table's, and the server's fault."""
    boom = f.udf(lambda _: 1 // 0, "bigint")
    fail(mp, "unresolved", lambda m: m.select("nope"))
    fail(mp, "keyless", lambda m: m.select("topic"))
    fail(mp, "typeless", lambda m: m.select(f.col("topic").alias("customer"), f.lit(None)))
    fail(mp, "null_key", lambda m: m.select(f.lit(None).cast("string").alias("customer")))
    fail(mp, "task", lambda m: m.select(f.col("key").alias("customer"), boom("position")))
    fail(mp, "misfit", lambda m: m.select(f.col("position").alias("customer")))
    for variable in ("WRONG_URL", "AWAY_URL"):
        other = Milepost(os.environ[variable])
        note(lambda other=other: repr(other))  # type: ignore[misc]  # bound now
        pipeline = other.pipeline("customers", sink=BY_CUSTOMER)(per_customer)
        note(lambda pipeline=pipeline: repr(pipeline))  # type: ignore[misc]
        note(lambda pipeline=pipeline: pipeline.run("caught_up"))  # type: ignore[misc]
        note(lambda pipeline=pipeline: pipeline.rebuild())  # type: ignore[misc]
        processor = other.processor("handled", segments=2, engine="spark")(handle)
        note(lambda processor=processor: processor.run("caught_up"))  # type: ignore[misc]


def note_queries(spark: SparkSession) -> None:
    """Those that run now."""
    for query in spark.streams.active:
        running: Any = query
        note(lambda q=running: (q.name, q.status, q.lastProgress, q.recentProgress))  # type: ignore[misc]
        for is_extended in (False, True):
            note(lambda q=running, e=is_extended: q._jsq.explainInternal(e))  # type: ignore[misc]


def note_pages(spark: SparkSession) -> None:
    root = spark.sparkContext.uiWebUrl
    api = f"{root}/api/v1/applications"
    application = json.loads(fetched(api))[0]["id"]
    executions = json.loads(fetched(f"{api}/{application}/sql?length=1000"))
    stages = json.loads(fetched(f"{api}/{application}/stages"))[:20]
    addresses = [f"{api}/{application}/{path}" for path in API]
    addresses += [f"{root}/{page}/" for page in PAGES]
    addresses += [f"{root}/StreamingQuery/statistics/?id={q.runId}" for q in spark.streams.active]
    addresses += [f"{root}/SQL/execution/?id={e['id']}" for e in executions]
    addresses += [f"{root}/stages/stage/?id={s['stageId']}&attempt=0" for s in stages]
    said.extend(map(fetched, addresses))


def fetched(address: str) -> str:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - Spark's own pages
        return str(answer.read().decode())


def run(mp: Milepost, spark: SparkSession) -> None:
    """Everything at once, looked at while it runs; then once more as a rebuild."""
    stop = threading.Event()
    members = mp.members()
    threads = [threading.Thread(target=m.run, args=("stopped", stop)) for m in members]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(p.caught_up() for p in mp.pipelines.values()), 200, 0.5)
    note_queries(spark)
    note_pages(spark)
    stop.set()
    for thread in threads:
        thread.join(60)
    note(mp.pipelines["customers"].rebuild)


def read_archived(mp: Milepost, spark: SparkSession, directory: Path) -> None:
    """The same once more, from files."""
    mp.retention(keep_messages=0, archive=str(directory))
    mp.run_archiver("caught_up")
    note(mp.remove_old)
    note(lambda: list(explained(history(spark))))
    note(mp.pipelines["customers"].rebuild)


def lose_files(mp: Milepost, spark: SparkSession, directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()
    note(lambda: history(spark).count())
    note(mp.pipelines["customers"].rebuild)


def main(place: Path) -> None:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)
    spark = start_session(place)
    mp = Milepost()
    define(mp, place)
    with mp.connect() as conn:
        for first in range(0, COUNT, 1000):
            mp.append(conn, *orders(first, 1000))
    run(mp, spark)
    read_archived(mp, spark, place / "archive")
    fail_in_every_way(mp)
    lose_files(mp, spark, place / "archive")
    note_pages(spark)
    (place / "said.json").write_text(json.dumps(said))
    # While Spark's own files are there: it removes most when it ends.
    password = os.environ["PASSWORD"].encode()
    files = [file for file in place.rglob("*") if file.is_file()]
    leaks = [str(file) for file in files if password in content(file)]
    folders = sorted({file.relative_to(place).parts[0] for file in files})
    (place / "leaks.json").write_text(json.dumps([folders, leaks]))
    spark.stop()


def content(file: Path) -> bytes:
    """Nothing if Spark has removed it meanwhile, as it does with what nobody needs any more."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
