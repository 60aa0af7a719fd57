"""A password in the URL, and the credentials of an archive, are nowhere to be seen: plans, pages,
event log, checkpoints, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from milepost import Milepost
from tests.object_store import ACCESS_KEY, BUCKET, SECRET_KEY, Store, object_store
from tests.pipeline.archived import archive_of
from tests.pipeline.own_spark import JAVA_OPTIONS
from tests.pipeline.sourcing import append

PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - the server asks for none
SECRETS = (PASSWORD, ACCESS_KEY, SECRET_KEY)

# In a process of its own: it needs a session with pages and an event log. Reads and writes, in
# batches and as a stream, reads a history, of which some is in files that Java reads, some in an
# object store that only Python reads, and some in the table; fails in all of them, and writes down
# everything that Spark shows.
SCRIPT = """
import json, os, sys, urllib.request
from pathlib import Path
from pyspark.errors import PySparkException
from milepost.log.history import Location
from milepost.pipeline import history, spark_session

place, bad, directory, store, options, *names = sys.argv[1:]
place, good = Path(place), os.environ["MILEPOST_URL"]
(place / "events").mkdir()
spark = spark_session("secrets", "local[2]", {
    "spark.ui.enabled": "true", "spark.ui.port": "0",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(place / "events"),
    "spark.eventLog.compress": "false", "spark.local.dir": str(place / "local"),
    "spark.sql.warehouse.dir": str(place / "warehouse"), "spark.driver.extraJavaOptions": options,
}, is_quiet=False)
said = []

def note(work):
    try:
        said.append(str(work()))
    except Exception as error:
        said.append(f"{error!r} {error}")

messages = spark.read.format("milepost").load()
assert messages.where("topic = 'orders'").count() == 20
whole = history(spark)
assert whole.count() == 20
for frame in (messages, whole):
    query = frame.groupBy("topic").count()._jdf.queryExecution()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        note(lambda: spark._jvm.PythonSQLUtils.explainString(query, mode))
note(lambda: (whole, whole.schema, repr(whole)))
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

note(lambda: history(spark, bad).count())
for address, name in zip((store, directory), reversed(names)):
    location = Location.parse(address)
    location.filesystem().delete_file(location.path(name))
    note(lambda: whole.collect())
    note(lambda: history(spark).collect())
    note(lambda: messages.collect())

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


@pytest.fixture
def store() -> Iterator[Store]:
    with object_store() as started:
        yield started


@pytest.mark.soak
@pytest.mark.timeout(500)
@pytest.mark.parametrize("order", ["append"])
def test_a_secret_shows_up_nowhere(
    mp: Milepost, url: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = append(mp, 20)
    store.make_bucket(monkeypatch)
    place, directory = tmp_path / "place", tmp_path / "archive"
    place.mkdir()
    addresses = [str(directory), store.address(f"{BUCKET}/log")]
    names = []
    for address, end in zip(addresses, (positions[6], positions[13]), strict=True):
        with archive_of(mp, url, address) as archive:
            names.append(archive.archive(end).name)
            archive.remove()
    bad = f"postgresql://ada:{PASSWORD}@127.0.0.1:1/shop"  # nobody listens there
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(place), bad, *addresses, JAVA_OPTIONS, *names],
        env=os.environ | {"MILEPOST_URL": make_conninfo(url, password=PASSWORD)},
        capture_output=True,
        text=True,
        timeout=450,
    )
    assert done.returncode == 0, hidden(done.stderr)[-3000:]

    shown = json.loads((place / "said.json").read_text())
    assert len(shown) > 30
    for words in ("BatchScan", "FileScan parquet", "MapInArrow"):  # plans are among them
        assert any(words in text for text in shown), words
    for words in ("is not known", "ArchiveFileMissing", names[0], names[1]):  # and errors
        assert any(words in text for text in shown), words
    assert [hidden(text) for text in shown if is_leaking(text)] == []
    assert not is_leaking(done.stdout + done.stderr)
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("events" in str(file) for file in written)
    assert any("offsets" in str(file) for file in written)
    assert [file for file in written if is_leaking(file.read_bytes().decode("latin-1"))] == []


def is_leaking(text: str) -> bool:
    return any(secret in text for secret in SECRETS)


def hidden(text: str) -> str:
    for secret in SECRETS:
        text = text.replace(secret, "<a secret>")
    return text
