"""One Spark session for all tests of this room: starting one takes seconds; commands run in this
process to use it. And for tests that stop the server, one of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from milepost import Milepost
from milepost.archive import parquet_file
from milepost.cli.app import app_for
from milepost.embedded import EmbeddedServer
from milepost.pipeline.start_spark import spark_session
from tests.pipeline.archived import GROUP, Archive, archive_of
from tests.pipeline.own_spark import BRIEF
from tests.server import postgres

APPLICATION = "tests.pipeline.application"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    **BRIEF,
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in this process, on two cores. A task that fails is tried once more, which is enough to
    show what a retry does: each try starts a Python process."""
    place: Path = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    session = spark_session("milepost-tests", "local[2,2]", settings)
    yield session
    session.stop()


@pytest.fixture
def spark_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Spark's checkpoint directories of a test are, instead of below the current one."""
    directory = tmp_path / "spark"
    monkeypatch.setenv("MILEPOST_SPARK_DIR", directory.as_uri())
    return directory


@pytest.fixture
def in_process(
    url: str, spark: SparkSession, spark_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Result]]:
    """Runs `milepost` on the test's database, which the application finds in its environment."""
    monkeypatch.setenv("MILEPOST_URL", url)
    monkeypatch.delitem(sys.modules, APPLICATION, raising=False)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app_for(words), words)

    yield run
    sys.modules.pop(APPLICATION, None)


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """Durable, as servers are; not the one of the run, which other tests use. But for its ANALYZE,
    which holds the horizon of a log in transaction order for a moment."""
    with postgres({"autovacuum": "off"}) as server:
        server.start()
        yield server


@pytest.fixture
def archive(
    mp: Milepost, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Archive]:
    """Of the test's log, in a directory; row groups are small."""
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", GROUP)
    with archive_of(mp, url, tmp_path / "archive") as made:
        yield made
