"""The documents that need Spark: their Python gets the session of these tests, and their commands
run in this process, to share it (tests/documents says how a document is read)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from milepost.cli.app import app_for
from tests import zygote
from tests.documents.blocks import DOCUMENTS, needs_spark, to_run
from tests.documents.reader import CommandFailed, Reader

WITH_SPARK = [d for d in DOCUMENTS if needs_spark(d) and to_run(d)]
ON_SPARK = ("milepost run", "milepost pipelines")


class SparkReader(Reader):
    """A reader to whom Spark starts immediately."""

    def kind_of(self, line: str) -> str:
        return "in_process" if line.startswith(ON_SPARK) else super().kind_of(line)

    def in_process(self, script: str) -> None:
        for line in script.split("&&"):
            _, *words = shlex.split(line, comments=True)
            result = CliRunner().invoke(app_for(words), words)
            self.said += result.output
            if result.exit_code != 0:
                raise CommandFailed(line, result.exit_code, result.output) from result.exception


@pytest.fixture
def reader(
    url: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkReader]:
    monkeypatch.setenv("MILEPOST_URL", url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # Spark's processes have the environment in which its JVM was started.
    monkeypatch.setitem(spark.sparkContext.environment, "MILEPOST_URL", url)
    yield SparkReader(tmp_path, zygote.zygote().fileno(), {"__name__": "document", "spark": spark})
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("document", WITH_SPARK, ids=lambda document: document.stem)
def test_the_document_runs(document: Path, reader: SparkReader) -> None:
    with reader.reading(to_run(document)):
        pass
