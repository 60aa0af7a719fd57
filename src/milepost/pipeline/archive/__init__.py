"""Write files of the archive by Spark: many at the same time, and with `content`, the JSON of each
message as a VARIANT."""

from milepost.pipeline.archive.archiver import SparkArchiver
from milepost.pipeline.archive.compact import SparkCompaction, compact_with_spark
from milepost.pipeline.archive.spark_file import SparkFiles
from milepost.pipeline.archive.write_ranges import archive_with_spark

__all__ = [
    "SparkArchiver",
    "SparkCompaction",
    "SparkFiles",
    "archive_with_spark",
    "compact_with_spark",
]
