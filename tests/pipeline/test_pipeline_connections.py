"""What docs/production.md says about the connections of Spark, against what the server sees."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, RecordedMessage, Upsert
from milepost.pipeline.spark_processor import SparkProcessor
from milepost.sql import LogOrder
from tests.connections import budget, watching
from tests.pipeline.running import catch_up, per_customer, place, running
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("spark_directory")
CORES = 2  # of the session that these tests share
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
