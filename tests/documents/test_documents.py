"""Every block of the documents runs, from top to bottom, on a fresh database; those that need Spark
in tests/pipeline/test_documents.py, the README in tests/integration/test_readme.py, the quickstart
in test_quickstart.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import zygote
from tests.documents.blocks import DOCUMENTS, ROOT, RUN, SHOWN, blocks_of, needs_spark, to_run
from tests.server import program_of_server

PATIENCE_SECONDS = 200.0  # for all of a document
# They have tests of their own.
ELSEWHERE = (
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("quickstart.md", "django.md", "sqlalchemy.md")),
)
WITHOUT_SPARK = [d for d in DOCUMENTS if d not in ELSEWHERE and not needs_spark(d) and to_run(d)]
# What no test can do, by document. Whoever adds a block that is not run adds its reason here.
NOT_RUN: Mapping[str, list[str]] = {
    "README.md": ["installs packages", "they take minutes, and CI runs them"],
    "docs/archive.md": ["installs packages"],
    "docs/dashboard.md": ["installs packages", "listens for other machines"],
    "docs/quickstart.md": ["installs packages"],
    "docs/production.md": ["changes the services of the machine", "builds images"],
    "docs/retention.md": ["needs a bucket"],
    "docs/spark-cluster.md": [
        "needs a cluster",
        "needs conda and a cluster",
        "needs a cluster",
        "needs a cluster",
        "needs a cluster",
        "installs packages, and needs a Spark Connect server",
    ],
}


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("document", WITHOUT_SPARK, ids=lambda document: document.stem)
def test_the_document_runs(document: Path, url: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(program_of_server("pg_dump").parent), os.environ["PATH"]])
    environment = os.environ | {"MILEPOST_URL": url, "PYTHONPATH": str(ROOT), "PATH": path}
    code, output, errors = zygote.run(
        ["python", "-m", "tests.documents.reading", str(document)],
        environment,
        directory=tmp_path,
        timeout=PATIENCE_SECONDS,
    )
    if code != 0:
        pytest.fail(
            f"{document.relative_to(ROOT)} does not run.\n{output}\n{errors}", pytrace=False
        )


def test_every_block_names_a_language_that_is_run_or_shown() -> None:
    blocks = [block for document in DOCUMENTS for block in blocks_of(document)]
    assert [b.place for b in blocks if b.language not in (*RUN, *SHOWN)] == []


def test_what_is_not_run_is_listed() -> None:
    blocks = [block for document in DOCUMENTS for block in blocks_of(document)]
    found: dict[str, list[str]] = {}
    for block in blocks:
        if block.not_run is not None:
            found.setdefault(str(block.document.relative_to(ROOT)), []).append(block.not_run)
    assert found == NOT_RUN
