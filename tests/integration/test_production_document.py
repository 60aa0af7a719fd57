"""What docs/production.md says about backups and settings does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import Job, Message, Milepost, append, db, put
from milepost.db import Connection
from tests.documents.blocks import to_run
from tests.server import TestServer, program_of_server

DOCUMENT = Path(__file__).parents[2] / "docs" / "production.md"
MESSAGES = 300


@pytest.fixture
def target(server: TestServer) -> Iterator[str]:
    name = server.create_database("restored")
    yield server.url(name)
    server.drop_database(name)


def blocks(language: str, section: str | None = None) -> list[str]:
    found = [block for block in to_run(DOCUMENT) if block.language == language]
    return [block.text for block in found if section in (None, block.heading)]


@pytest.mark.parametrize("order", ["append"])
def test_every_statement_runs(conn: Connection) -> None:
    statements = [each for block in blocks("sql") for each in block.split(";") if each.strip()]
    assert len(statements) >= 5
    for statement in statements:
        conn.execute(statement.encode())
    (options,) = conn.execute(
        "select reloptions from pg_class where oid = 'milepost.jobs'::regclass"
    ).fetchone() or ([],)
    assert "vacuum_truncate=off" in options


def test_backup_and_restore_go_as_it_says(
    url: str, conn: Connection, target: str, tmp_path: Path
) -> None:
    append(conn, *(Message("T", {"n": n}, key=f"k{n}") for n in range(MESSAGES)))
    put(conn, Job("work", 1))
    before = [message.position for message in Milepost(url).read()]
    for block in blocks("sh", "Backup and restore"):
        enter(block, tmp_path, {"MILEPOST_URL": url, "RESTORED_URL": target})
    moved = Milepost(target)
    with moved.connect() as there:
        new = append(there, Message("New", {}))
        (id_,) = put(there, Job("work", 2))
    assert [message.position for message in moved.read()] == before + new
    assert id_ == 2


def enter(block: str, place: Path, variables: dict[str, str]) -> None:
    programs = [program_of_server("pg_dump").parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    result = subprocess.run(
        ["/bin/sh", "-eu", "-c", block],
        cwd=place,
        env=os.environ | variables | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_its_urls_are_urls() -> None:
    urls = re.findall(r"postgresql://[\w.,@/?&=-]+\.org[\w.,@/?&=-]+", DOCUMENT.read_text())
    assert len(urls) == 2
    for url in urls:
        assert conninfo_to_dict(db.conninfo(url))["sslmode"] == "verify-full"
