"""A password in the URL is nowhere to be seen: plans, pages, event log, checkpoints, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from milepost import Milepost
from tests.pipeline.sourcing import append

PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - the server asks for none

# In a process of its own: it needs a session with pages and an event log. Reads and writes, in
# batches and as a stream, fails in all of them, and writes down everything that Spark shows.
SCRIPT = """
import json, os, sys, urllib.request
from pathlib import Path
from pyspark.errors import PySparkException
from milepost.pipeline import spark_session

place, bad, good = Path(sys.argv[1]), sys.argv[2], os.environ["MILEPOST_URL"]
(place / "events").mkdir()
spark = spark_session("secrets", "local[2]", {
    "spark.ui.enabled": "true", "spark.ui.port": "0",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(place / "events"),
    "spark.eventLog.compress": "false", "spark.local.dir": str(place / "local"),
    "spark.sql.warehouse.dir": str(place / "warehouse"),
}, is_quiet=False)
said = []

def note(work):
    try:
        said.append(str(work()))
    except Exception as error:
        said.append(f"{error!r} {error}")

messages = spark.read.format("milepost").load()
assert messages.where("topic = 'orders'").count() == 20
query = messages.groupBy("topic").count()._jdf.queryExecution()
for mode in ("simple", "extended", "codegen", "cost", "formatted"):
    note(lambda: spark._jvm.PythonSQLUtils.explainString(query, mode))
note(lambda: (messages, messages.schema, repr(messages)))
messages.createOrReplaceTempView("messages")
note(lambda: spark.sql("describe extended messages").collect())

stream = spark.readStream.format("milepost").load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", str(place / "check"))
query = writer.trigger(availableNow=True).start(str(place / "out"))
query.awaitTermination(100)
note(lambda: query.lastProgress)
note(lambda: query._jsq.explainInternal(True))

given = {"url": bad}
note(lambda: spark.read.format("milepost").options(**given).load().count())
note(lambda: spark.read.format("milepost").options(topic="x", **given).load())
note(lambda: spark.readStream.format("milepost").options(**given).load().writeStream
     .format("noop").start().processAllAvailable())
note(lambda: spark.read.format("milepost").options(url="x" + bad).load().count())
note(lambda: spark.read.format("milepost").options(**given).load().explain("extended"))

rows = messages.select("type", "data")
rows.write.format("milepost").mode("append").options(url=good, topic="copies").save()
copying = (stream.select("type", "data").writeStream.format("milepost")
           .option("checkpointLocation", str(place / "copying")).trigger(availableNow=True))
query = copying.options(url=good, topic="copies").start()
query.awaitTermination(100)
note(lambda: query.lastProgress)
note(lambda: query._jsq.explainInternal(True))
assert spark.read.format("milepost").option("topics", "copies").load().count() == 60
for given in ({"url": bad, "topic": "t"}, {"url": "x" + bad}, {"url": bad, "topics": "t"}):
    given = {"topic": "t", "retrySeconds": "0", **given}
    note(lambda: rows.write.format("milepost").mode("append").options(**given).save())
    note(lambda: copying.options(**given).start().processAllAvailable())
note(lambda: rows.selectExpr("type", "'nonsense' as data").write.format("milepost").mode("append")
     .options(url=good, topic="t").save())

root = f"{spark.sparkContext.uiWebUrl}"
api = f"{root}/api/v1/applications"
app = json.load(urllib.request.urlopen(api))[0]["id"]
pages = [f"{api}/{app}/{p}" for p in ("sql?details=true&planDescription=true", "environment",
         "jobs", "stages?details=true", "executors")]
pages += [f"{root}/{p}/" for p in ("SQL", "environment", "jobs", "stages", "StreamingQuery")]
for page in pages:
    said.append(urllib.request.urlopen(page).read().decode())
(place / "said.json").write_text(json.dumps(said))
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.parametrize("order", ["append"])
def test_a_password_shows_up_nowhere(mp: Milepost, url: str, tmp_path: Path) -> None:
    append(mp, 20)
    secret = make_conninfo(url, password=PASSWORD)
    bad = f"postgresql://ada:{PASSWORD}@127.0.0.1:1/shop"  # nobody listens there
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), bad],
        env=os.environ | {"MILEPOST_URL": secret},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr.replace(PASSWORD, "<the password>")[-3000:]

    shown = json.loads((tmp_path / "said.json").read_text())
    assert len(shown) > 20
    assert any("BatchScan" in text for text in shown)  # plans are among them
    assert any("is not known" in text for text in shown)  # and errors
    assert [text for text in shown if PASSWORD in text] == []
    assert PASSWORD not in done.stdout + done.stderr
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("events" in str(file) for file in written)
    assert any("offsets" in str(file) for file in written)
    assert [file for file in written if PASSWORD.encode() in file.read_bytes()] == []
