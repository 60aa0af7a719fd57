"""How the process that Spark starts for a stream's reader ends."""

from __future__ import annotations

import subprocess
import sys

# As pyspark's python_streaming_source_runner ends, with its own functions, on a real socket.
ENDING = """
import socket
from pyspark.serializers import read_int
from pyspark.util import handle_worker_exception
from milepost.pipeline.source.readers import StreamReader
from milepost.pipeline.source.options import parse

reader = StreamReader(parse({{"url": "postgresql://nowhere"}}, {{}}))
ours, sparks = socket.socketpair()
file = ours.makefile("rwb", 65536)
sparks.close()
try:
    try:
        {call}
    finally:
        reader.stop()
except BaseException as error:
    handle_worker_exception(error, file)
    file.flush()
"""


def stderr_after(call: str) -> str:
    command = [sys.executable, "-c", ENDING.format(call=call)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_stream_that_spark_stops_prints_nothing() -> None:
    assert stderr_after("read_int(file)") == ""


def test_a_failure_is_printed() -> None:
    assert "ValueError: a fault" in stderr_after("raise ValueError('a fault')")
