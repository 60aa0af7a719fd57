"""A password in the URL of running pipelines is nowhere to be seen: plans, pages, event log, files,
logs, listings, tables, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from milepost import Milepost
from milepost.embedded import EmbeddedServer
from milepost.embedded.cluster import find
from tests.integration.cli.command import Cli
from tests.pipeline.running import rows

REPOSITORY = Path(__file__).parents[3]
PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a role made here
WRONG = "incorrect-horse-battery-staple"
ROLE = "discreet"
EVERYTHING = "select t::text from milepost.{} as t"
TABLES = "select table_name from information_schema.tables where table_schema = 'milepost'"


@pytest.fixture
def secret_url(own_server: EmbeddedServer) -> str:
    """Of a role that really is asked for its password."""
    admin = own_server.start()
    data = find(own_server.directory)
    assert data is not None
    hba = data / "pg_hba.conf"
    hba.write_text(f"local all {ROLE} scram-sha-256\n{hba.read_text()}")
    with psycopg.connect(admin, autocommit=True) as conn:
        make = sql.SQL("create role {} login password {}")
        conn.execute(make.format(sql.Identifier(ROLE), sql.Literal(PASSWORD)))
        conn.execute(f"create database shop owner {ROLE}")
        conn.execute("select pg_reload_conf()")
    return make_conninfo(admin, dbname="shop", user=ROLE, password=PASSWORD)


def everything_in_tables(mp: Milepost) -> str:
    """Each row of each table of ours, as text."""
    names = [str(name) for (name,) in rows(mp, TABLES)]
    assert {"pipelines", "checkpoints", "messages", "jobs"} <= set(names)
    return "\n".join(str(rows(mp, EVERYTHING.format(name))) for name in names)


def without_passwords(text: str) -> str:
    return text.replace(PASSWORD, "<the password>").replace(WRONG, "<a wrong one>")


def leaking(texts: list[str]) -> list[str]:
    return [without_passwords(t) for t in texts if PASSWORD in t or WRONG in t]


@pytest.mark.soak
@pytest.mark.timeout(500)
def test_a_password_shows_up_nowhere(
    own_server: EmbeddedServer, secret_url: str, tmp_path: Path
) -> None:
    mp = Milepost(secret_url)
    mp.migrate()
    variables = {
        "MILEPOST_URL": secret_url,
        "WRONG_URL": make_conninfo(secret_url, password=WRONG),
        "AWAY_URL": f"postgresql://ada:{PASSWORD}@127.0.0.1:1/shop",  # nobody listens there
        "PASSWORD": PASSWORD,
        "MILEPOST_SPARK_DIR": (tmp_path / "check").as_uri(),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.indiscreet", str(tmp_path)],
        cwd=REPOSITORY, env=os.environ | variables, capture_output=True, text=True, timeout=450,
    )  # fmt: skip
    assert done.returncode == 0, without_passwords(done.stderr)[-3000:]

    shown: list[str] = json.loads((tmp_path / "said.json").read_text())
    for words in (
        "MapInArrow", "BatchScan", "foreachBatch", "StreamingQuery", "nope", "customer", "Rebuilt(",
        "FileScan parquet", "ArchiveFileMissing",
        "authentication failed", "Connection refused", "division or modulo by zero",
    ):  # fmt: skip
        assert any(words in text for text in shown), words
    assert leaking(shown) == []
    assert "state=running" in done.stderr
    assert "INFO" in done.stderr  # Spark's own
    assert leaking((done.stdout + done.stderr).splitlines()) == []

    folders, leaks = json.loads((tmp_path / "leaks.json").read_text())
    assert {"check", "events", "files"} <= set(folders)  # what Spark writes was looked at
    assert leaks == []
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("events" in str(file) for file in written)
    assert any("offsets" in str(file) for file in written)
    assert [file for file in written if PASSWORD.encode() in file.read_bytes()] == []

    tables = everything_in_tables(mp)
    assert "ArithmeticException" in tables or "ZeroDivisionError" in tables  # of the last errors
    assert leaking([tables]) == []
    cli = Cli(secret_url)
    for command in (
        "pipelines", "pipelines --json", "pipelines show task", "pipelines show customers --json",
        "status", "status --json", "processors", "processors --json", "doctor", "queue",
    ):  # fmt: skip
        result = cli.run(*command.split())
        # Some of these pipelines have failed, which the doctor says.
        assert result.code == (command == "doctor"), (command, result)
        assert leaking([result.stdout, result.stderr]) == []
    for url in (variables["WRONG_URL"], variables["AWAY_URL"]):
        for flags in ([], ["--debug"]):
            result = Cli(url).run(*flags, "pipelines")
            assert result.code == 1
            assert leaking([result.stdout, result.stderr]) == []
