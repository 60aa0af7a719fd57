"""An application with so many pipelines, in a process of its own, until it is ended.

Run as `python -m benchmarks.many_pipelines URL NUMBER`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.spark_log import COUNTS
from milepost import Milepost, SparkSettings, Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(url: str, number: int) -> None:
    mp = Milepost(url)
    for n in range(number):

        @mp.pipeline(
            f"counts-{n}",
            columns=COUNTS.columns,
            sink=Upsert(f"counts_{n}", key=["customer"], add=COUNTS.add),
        )
        def counts(messages: DataFrame) -> DataFrame:
            return COUNTS.transform(messages)

    mp.run(spark=SparkSettings("local[2]", {"spark.ui.enabled": "false"}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
