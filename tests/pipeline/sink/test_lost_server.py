"""A write with `format("milepost")` whose server is stopped or crashes, or whose answer to the
commit is lost: it waits, or it fails and says so. Every row is in the log once in the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import adbc_driver_manager as adbc
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from milepost import Milepost
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.errors import ServerLostInWrite, StagingLost
from milepost.pipeline.sink.commit import Attempt, Commit
from milepost.pipeline.sink.writers import stage
from milepost.pipeline.write import staging
from milepost.runtime import Patience
from tests.crashing import migrated_database
from tests.integration.processors.proxy import Mischief, Proxy, proxied
from tests.pipeline.crashing import crash, is_merging, locked
from tests.pipeline.running import rows
from tests.pipeline.sink.test_commit import FENCE_OUT, QUERY, commit_to, numbers_in, staged
from tests.pipeline.sink.test_writing import copied, counted, data_of, write
from tests.pipeline.sourcing import append as append_numbers
from tests.server import postgres
from tests.waiting import wait_until

PATIENT = "60"  # seconds
IO = adbc.AdbcStatusCode.IO
WAITING = "select 1 from pg_locks where not granted"


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """One for all of these tests, which stop it and start it again."""
    with postgres({"autovacuum": "off"}) as server:
        yield server


@pytest.fixture
def url(own_server: EmbeddedServer) -> str:
    return migrated_database(own_server)


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with proxied(url) as proxy:
        yield proxy


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A COPY for each batch of a task."""
    monkeypatch.setattr(staging, "CHUNK_BYTES", 1)


@contextmanager
def meanwhile(condition: Callable[[], object], event: Callable[[], object]) -> Iterator[None]:
    """It happens as soon as the condition holds, in a thread, while the block runs."""
    errors: list[Exception] = []

    def run() -> None:
        try:
            wait_until(condition, 100)
            event()
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(100)
    assert errors == []


@contextmanager
def in_merge(url: str, event: Callable[[], object]) -> Iterator[None]:
    """When a merge of the block has noted its batch and waits for the log, it happens: something
    that ends the server, and so the wait."""
    with (
        locked(url, "milepost.messages"),
        meanwhile(lambda: is_merging(url, "^milepost"), event),
    ):
        yield


def restart(server: EmbeddedServer) -> None:
    server.stop()
    server.start()


def crash_and_start(server: EmbeddedServer) -> None:
    crash(server)
    server.start()


def staged_around(commit: Commit, numbers: Sequence[int], event: Callable[[], Any]) -> Attempt:
    """Something happens before the last row."""

    def batches() -> Iterator[pa.RecordBatch]:
        for n in numbers:
            if n == numbers[-1]:
                event()
            yield pa.RecordBatch.from_pylist([{"type": "T", "data": str(n), "key": "k"}])

    return stage(commit, QUERY, batches())


@pytest.mark.usefixtures("small_chunks")
def test_staging_goes_on_after_a_restart_of_the_server(
    mp: Milepost, url: str, own_server: EmbeddedServer
) -> None:
    commit = commit_to(url, retrySeconds=PATIENT)
    assert commit.write([staged_around(commit, [1, 2, 3], lambda: restart(own_server))], 0)
    assert numbers_in(mp) == [1, 2, 3]


@pytest.mark.usefixtures("small_chunks")
def test_staging_waits_until_the_server_is_back(
    mp: Milepost, url: str, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = commit_to(url, retrySeconds=PATIENT)
    is_refused, wait_or_raise = threading.Event(), Patience.wait_or_raise

    def wait_and_tell(patience: Patience, error: Exception) -> None:
        is_refused.set()
        wait_or_raise(patience, error)

    monkeypatch.setattr(Patience, "wait_or_raise", wait_and_tell)
    with meanwhile(is_refused.is_set, own_server.start):
        attempt = staged_around(commit, [1, 2, 3], own_server.stop)
    assert commit.write([attempt], 0)
    assert numbers_in(mp) == [1, 2, 3]


@pytest.mark.usefixtures("small_chunks")
def test_what_a_crash_takes_from_staging_is_noticed_and_staged_again(
    mp: Milepost, url: str, own_server: EmbeddedServer
) -> None:
    commit = commit_to(url, retrySeconds=PATIENT)
    attempt = staged_around(commit, [1, 2, 3], lambda: crash_and_start(own_server))
    with pytest.raises(StagingLost, match="1 rows of the batch are staged, but 3 were copied"):
        commit.write([attempt], 0)
    assert numbers_in(mp) == []
    assert commit.write([staged(commit, [1, 2, 3])], 0)
    assert numbers_in(mp) == [1, 2, 3]


def test_a_copy_whose_answer_was_lost_does_not_count_twice(
    mp: Milepost, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = staging.Staging.copy

    def copy_and_lose_the_answer(self: staging.Staging, rows: pa.Table) -> None:
        monkeypatch.setattr(staging.Staging, "copy", copy)
        copy(self, rows)
        raise adbc.OperationalError("server closed the connection", status_code=IO)

    monkeypatch.setattr(staging.Staging, "copy", copy_and_lose_the_answer)
    commit = commit_to(url, retrySeconds=PATIENT)
    assert commit.write([staged(commit, [1, 2, 3])], 0)
    assert numbers_in(mp) == [1, 2, 3]


def test_staging_that_waits_in_vain_says_that_nothing_is_in_the_log(
    mp: Milepost, url: str, own_server: EmbeddedServer
) -> None:
    commit = commit_to(url)
    assert commit.write([staged(commit, [1])], 0)
    own_server.stop()
    with pytest.raises(ServerLostInWrite, match=r"Nothing of this batch is in the log\. Start the"):
        staged(commit, [2])
    own_server.start()
    assert commit.write([staged(commit, [2])], 1)
    assert numbers_in(mp) == [1, 2]


def test_a_merge_is_repeated_when_its_server_was_restarted(
    mp: Milepost, url: str, own_server: EmbeddedServer
) -> None:
    commit = commit_to(url, retrySeconds=PATIENT)
    attempt = staged(commit, [1, 2])
    with in_merge(url, lambda: restart(own_server)):
        assert commit.write([attempt], 0)
    assert numbers_in(mp) == [1, 2]


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_merge_that_waits_in_vain_says_that_its_outcome_is_not_known(
    mp: Milepost, url: str, own_server: EmbeddedServer, is_stream: bool
) -> None:
    commit = commit_to(url)
    attempt = staged(commit, [1, 2], str(uuid4()), is_stream=is_stream)
    with (
        in_merge(url, own_server.stop),
        pytest.raises(ServerLostInWrite, match="not known whether the rows are in the log"),
    ):
        commit.write([attempt], 0)
    own_server.start()
    assert numbers_in(mp) == []
    assert commit.write([attempt], 0)  # what was staged outlives a clean stop
    assert not commit.write([attempt], 0)
    assert numbers_in(mp) == [1, 2]


def arm_in_merge(proxy: Proxy, mischief: Mischief, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the commit of the merge, which is not the first one on its connection."""
    is_new = Commit._is_new

    def ask_and_arm(self: Commit, conn: Connection, fence: dict[str, Any]) -> bool:
        if not proxy.cut:
            proxy.arm(mischief)
        return is_new(self, conn, fence)

    monkeypatch.setattr(Commit, "_is_new", ask_and_arm)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("mischief", "is_new"), [(Mischief.LOSE_ANSWER, False), (Mischief.LOSE_COMMIT, True)]
)
def test_a_commit_whose_answer_is_lost_is_recognised(
    mp: Milepost, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, mischief: Mischief, is_new: bool,
    is_stream: bool,
) -> None:  # fmt: skip
    commit = commit_to(proxy.url, retrySeconds=PATIENT)
    attempt = staged(commit, [1, 2], str(uuid4()), is_stream=is_stream)
    arm_in_merge(proxy, mischief, monkeypatch)
    assert commit.write([attempt], 0) == is_new
    assert (proxy.cut, numbers_in(mp)) == (1, [1, 2])


def test_without_the_fence_such_a_commit_is_doubled(
    mp: Milepost, conn: Connection, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn.execute(FENCE_OUT)
    commit = commit_to(proxy.url, retrySeconds=PATIENT)
    attempt = staged(commit, [1, 2])
    arm_in_merge(proxy, Mischief.LOSE_ANSWER, monkeypatch)
    assert commit.write([attempt], 0)
    assert numbers_in(mp) == [1, 2, 1, 2]


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_streaming_job_goes_on_when_the_server_restarts_while_its_tasks_copy(
    spark: SparkSession, mp: Milepost, url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    append_numbers(mp, 10)
    copied(spark, url, tmp_path)
    append_numbers(mp, 10, first=10)
    ((table,),) = rows(mp, "select staging from milepost.spark_writes")
    with (
        locked(url, f"milepost.{table}"),
        meanwhile(lambda: rows(mp, WAITING), lambda: restart(own_server)),
    ):
        copied(spark, url, tmp_path)
    assert sorted(each["n"] for each in data_of(mp, "copies")) == list(range(20))


def test_a_batch_job_whose_server_crashes_in_its_merge_has_written_nothing(
    spark: SparkSession, mp: Milepost, url: str, own_server: EmbeddedServer
) -> None:
    """And says so in one line. The next one writes everything."""
    numbers = counted(spark.range(0, 20, 1, 2))
    with (
        in_merge(url, lambda: crash_and_start(own_server)),
        pytest.raises(Exception, match=r"StagingLost: 0 rows .* but 20 were") as caught,
    ):
        write(numbers, url, topic="numbers")
    assert "Traceback" not in str(caught.value)
    assert data_of(mp, "numbers") == []
    write(numbers, url, topic="numbers")
    assert data_of(mp, "numbers") == list(range(20))
