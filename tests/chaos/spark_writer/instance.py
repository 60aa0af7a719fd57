"""A Spark job in a process of its own, to be killed: it streams files of numbers into the log. It
begins when it is given a line: until then it has only started Spark. A query that fails, because a
Python process of Spark was killed, is started again."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from pyspark.errors import StreamingQueryException

from milepost.pipeline import spark_session
from tests.chaos.spark_writer.names import FILES, TOPIC


def main(place: Path, until: str) -> None:
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # It lives for seconds: to optimise would cost more than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark = spark_session("spark-writer", "local[2,4]", config)
    sys.stdin.readline()
    files = spark.readStream.option("maxFilesPerTrigger", 2).text(str(place / FILES))
    # Two tasks, so that one of them may have staged its rows when something is killed.
    rows = files.repartition(2).selectExpr("'Numbered' as type", "value as data")
    writer = rows.writeStream.format("milepost").option("topic", TOPIC)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if until == "caught_up":
        writer.trigger(availableNow=True).start().awaitTermination()
    while until == "stopped":
        with suppress(StreamingQueryException):
            writer.start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
