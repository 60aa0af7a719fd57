"""Every gauge: its value in a small known state, who may read it, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from milepost import Job, Message, Milepost, Retry, append
from milepost.db import Connection
from milepost.log import diagnose
from milepost.observe import look, prometheus
from milepost.observe.listen import Exporter, http_server
from milepost.observe.metrics import from_document
from milepost.observe.prometheus import render
from milepost.pipeline.admin import list_pipelines
from milepost.processors.admin import list_processors
from milepost.queue.admin import list_channels, summary
from milepost.sql import LogOrder
from tests import operated
from tests.roles import roles_in

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
SECRET = "the-payload"  # noqa: S105 - what nobody but the owner of the data may see


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that a busy machine keeps waiting is not given up: there would be no gauges."""

    def limited(conn: Connection, _seconds: float) -> AbstractContextManager[None]:
        return diagnose.limited(conn, 60.0)

    monkeypatch.setattr(prometheus, "limited", limited)


@pytest.fixture
def order() -> LogOrder:
    """Positions are compared in the same way in both orders."""
    return "append"


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_the_gauges_of_a_small_log(mp: Milepost, conn: Connection) -> None:
    operated.busy(mp, conn)
    found = look(conn)
    assert found.log is not None
    assert (found.log.messages, found.log.is_messages_exact) == (4, True)
    assert (found.log.horizon_lag_messages, found.log.horizon_age_seconds) == (0, 0)
    by_name = {each.name: each for each in found.processors}
    assert {name: each.lag_messages for name, each in by_name.items()} == {
        "stuck": 3, "parking": 1, "cut": 1,
    }  # fmt: skip
    assert all(each.is_lag_exact and each.lag_seconds > 0 for each in found.processors)
    assert (by_name["stuck"].state, by_name["cut"].segments) == ("failed", 2)
    parking = by_name["parking"]
    assert (parking.dead_letters, parking.parked_keys) == (2, 1)
    (segments,) = found.segments
    assert (segments.processor, segments.claimed, segments.unclaimed) == ("cut", 0, 2)


def test_the_gauges_of_pipelines_and_jobs(mp: Milepost, conn: Connection) -> None:
    operated.busy(mp, conn)
    found = look(conn)
    kept, active, rebuilt = found.pipelines
    assert (kept.state, kept.lag_messages, kept.progress) == ("kept", 0, None)
    assert (active.is_active, active.lag_messages, active.phases_ms) == (
        True, 3, {"read": 12.5, "stage": 120.4, "merge": 33.3, "spark.addBatch": 200},
    )  # fmt: skip
    assert rebuilt.state == "rebuilding"
    assert rebuilt.progress == pytest.approx(0.25)
    queue = found.queue
    assert queue is not None
    assert (queue.ready, queue.scheduled, queue.waiting, queue.dead) == (4, 1, 1, 2)
    assert (queue.estimated, queue.channel_count) == ([], 2)
    limited, emails = queue.channels
    assert (limited.name, limited.ready, limited.dead, limited.max_concurrency) == (
        "limited", 4, 2, 2,
    )  # fmt: skip
    assert (emails.name, emails.oldest_due_seconds) == ("emails", None)


def test_the_age_of_a_lag_is_that_of_the_first_message_that_passes(
    mp: Milepost, conn: Connection
) -> None:
    """However many others are before it: here, those of nine minutes."""
    conn.execute(
        """insert into milepost.messages (topic, type, data, recorded_at)
        select 'other', 'E', '{}', now() - interval '9 minutes' from generate_series(1, 3000)"""
    )
    conn.execute(
        """insert into milepost.processors (name, version, topics, state)
        values ('rare', 1, '{rare}', 'running'), ('none', 1, '{none}', 'running')"""
    )
    conn.execute(
        """insert into milepost.messages (topic, type, data, recorded_at)
        values ('rare', 'E', '{}', now() - interval '26 seconds')"""
    )
    none, rare = look(conn).processors
    assert 26 <= rare.lag_seconds < 200
    assert (none.lag_messages, none.is_lag_exact, none.lag_seconds) == (0, True, 0)
    assert all(p.lag_seconds < 200 for p in list_processors(conn, "milepost", max_counted=None))


def test_an_open_transaction_holds_the_horizon(mp: Milepost, conn: Connection, url: str) -> None:
    with psycopg.connect(url) as holding:
        mp.append(holding, Message("First", {}))
        with conn.transaction():
            mp.append(conn, Message("Second", {}), Message("Third", {}))
        log = look(conn, sections=["log"]).log
    assert log is not None
    assert (log.holders, log.horizon_lag_messages, log.is_horizon_lag_exact) == (1, 2, True)
    assert log.horizon_age_seconds is not None
    assert log.horizon_age_seconds > 0


def test_the_deepest_channels_have_a_name_and_the_others_are_one_sum(
    mp: Milepost, conn: Connection
) -> None:
    for number in range(1, 7):
        mp.put(conn, *(Job(f"channel-{number}", {}) for _ in range(number)))
    queue = look(conn, max_channels=2).queue
    assert queue is not None
    assert [(each.name, each.ready) for each in queue.channels] == [
        ("channel-6", 6), ("channel-5", 5),
    ]  # fmt: skip
    assert (queue.other.name, queue.other.channels, queue.other.ready) == (None, 4, 10)


def test_labels_are_bounded(mp: Milepost, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.jobs (channel, content)"
        " select 'channel-' || n, '{}' from generate_series(1, 300) as n"
    )
    body, _ = render(mp.connect, mp.schema)
    jobs = families(body.decode())["milepost_queue_jobs"]
    channels = {sample.labels["channel"] for sample in jobs.samples}
    assert len(channels) == 51
    ready = {s.labels["channel"]: s.value for s in jobs.samples if s.labels["state"] == "ready"}
    assert ready["other"] == 250


def test_a_role_for_metrics_sees_no_payload(mp: Milepost, conn: Connection, url: str) -> None:
    content = {"content": SECRET}
    mp.append(conn, Message("Placed", content, key=SECRET, metadata=content))
    mp.put(conn, Job("mails", content, unique_key=SECRET, max_attempts=1))

    @mp.processor("failing", retry=Retry(limit=0), on_failure="park")
    def fail(messages: object, tx: object) -> None:
        raise ValueError(SECRET)

    fail.run("caught_up")
    with roles_in(url) as roles:
        watcher = Milepost(roles.make("metrics"))
        with watcher.connect() as watching:
            (text,) = watching.execute("select milepost.metrics()::text").fetchone() or ("",)
        body, _ = render(watcher.connect, mp.schema)
    assert "failing" in text
    assert SECRET not in text
    assert b"milepost_up 1.0" in body
    assert SECRET.encode() not in body


def test_a_look_is_at_most_three_statements(mp: Milepost) -> None:
    statements: list[object] = []

    class Counting(psycopg.Cursor[tuple[object, ...]]):
        def execute(self, query, *args, **options):  # type: ignore[no-untyped-def]  # any of psycopg's
            statements.append(query)
            return super().execute(query, *args, **options)

    @contextmanager
    def connect() -> Iterator[Connection]:
        with mp.connect() as conn:
            conn.cursor_factory = Counting
            yield conn

    render(connect, mp.schema)
    assert 1 <= len(statements) <= 3


def test_everything_that_lists_says_the_same(mp: Milepost, conn: Connection) -> None:
    """Commands, doctor and dashboard read the lists; the exporters read the look."""
    operated.busy(mp, conn)
    found = look(conn)
    assert gauges(found.processors) == gauges(list_processors(conn, "milepost"))
    assert gauges(found.pipelines) == gauges(list_pipelines(conn, "milepost"))
    status, queue = summary(conn, "milepost"), found.queue
    assert queue is not None
    for name in ("ready", "scheduled", "waiting", "running", "dead", "kept"):
        assert getattr(status, name) == getattr(queue, name)
    listed = {each.name: each for each in list_channels(conn, "milepost")}
    for channel in queue.channels:
        assert listed[str(channel.name)].ready == channel.ready
        assert listed[str(channel.name)].dead == channel.dead
    log, diagnosis = found.log, mp.diagnose()
    assert log is not None
    assert diagnosis.contents is not None
    assert diagnosis.contents.messages == log.messages
    assert diagnosis.contents.newest == log.newest
    assert diagnosis.horizon is not None
    assert diagnosis.horizon.position == log.horizon


def test_a_diagnosis_counts_more_messages_than_a_look(mp: Milepost, conn: Connection) -> None:
    with conn.transaction():
        append(conn, *(Message("E", {}) for _ in range(1_001)))
    log, diagnosis = look(conn).log, mp.diagnose()
    assert log is not None
    assert not log.is_messages_exact
    assert diagnosis.contents is not None
    assert (diagnosis.contents.messages, diagnosis.contents.is_exact) == (1_001, True)


def gauges(found: object) -> list[tuple[object, ...]]:
    names = ("name", "version", "position", "state", "lag_messages", "is_lag_exact", "dead_letters")
    return [tuple(getattr(each, name) for name in names) for each in found]  # type: ignore[attr-defined]  # a list of records


def test_prometheus_reads_what_the_exporter_serves(mp: Milepost, conn: Connection) -> None:
    operated.busy(mp, conn)
    with serving(mp) as root:
        with urlopen(f"{root}/metrics") as answer:  # noqa: S310 - our own address
            assert answer.headers["content-type"].startswith("text/plain; version=")
            found = families(answer.read().decode())
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{root}/other")  # noqa: S310 - our own address
    assert found["milepost_up"].samples[0].value == 1
    lags = found["milepost_processor_lag_messages"].samples
    assert {s.labels["processor"]: s.value for s in lags} == {"stuck": 3, "parking": 1, "cut": 1}
    phases = found["milepost_pipeline_batch_seconds"].samples
    of_active = {s.labels["phase"]: s.value for s in phases if s.labels["version"] == "2"}
    assert of_active["merge"] == pytest.approx(0.0333)


def test_a_database_that_does_not_answer_is_a_gauge() -> None:
    with (
        serving(Milepost("postgresql://x@127.0.0.1:1/x")) as root,
        urlopen(f"{root}/metrics") as answer,  # noqa: S310 - our own address
    ):
        found = families(answer.read().decode())
    assert found["milepost_up"].samples[0].value == 0
    assert sorted(found) == ["milepost_scrape_seconds", "milepost_up"]


def test_the_document_lists_exactly_what_is_exported(mp: Milepost, conn: Connection) -> None:
    """With its labels. The archive has a gauge of its own."""
    operated.busy(mp, conn)
    conn.execute("insert into milepost.retention (archive, keep) values ('file:///none', '1 day')")
    body, _ = render(mp.connect, mp.schema)
    exported = {
        sample.name: set(sample.labels)
        for family in families(body.decode()).values()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    rows = re.findall(r"^\| `(milepost_\w+)` \| (.*?) \|", DOCUMENT.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert documented == exported


def test_a_section_that_does_not_exist_is_refused(conn: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no section wheather"):
        conn.execute("select milepost.metrics(array['log', 'wheather'])")


def test_a_document_of_a_later_release_is_read(conn: Connection) -> None:
    found = look(conn)
    later = found.document | {"log": found.document["log"] | {"colour": "blue"}, "new": []}
    assert from_document(later) == found


@contextmanager
def serving(mp: Milepost) -> Iterator[str]:
    with http_server("127.0.0.1", 0, Exporter(mp.connect, mp.schema)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
