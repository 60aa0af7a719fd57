"""Where no database is named, the embedded one stands in: never silently, and not if forbidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost import Milepost
from milepost.embedded import EmbeddedServer
from milepost.errors import NoDatabaseNamed
from tests.integration.cli.command import Cli

SECRET = "postgresql://me:s3cr3t@host.invalid/shop"  # noqa: S105


@pytest.fixture
def place(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run; `.milepost` leads to it, so that it is cleaned up at the end."""
    (directory / ".milepost").symlink_to(directory)
    monkeypatch.chdir(directory)
    return directory


def test_a_command_says_in_one_line_that_it_uses_the_embedded_server(place: Path) -> None:
    misspelt = Cli("", {"MILEPOST_URI": SECRET, "DATABASE_URL": SECRET})
    migrated = misspelt.run("migrate", "--json")
    assert (migrated.code, "0001_baseline" in json.dumps(migrated.document())) == (0, True), (
        migrated
    )
    (line,) = migrated.stderr.splitlines()
    assert "DATABASE_URL, MILEPOST_URI: set, but not read" in line
    assert f"the embedded PostgreSQL in {place.resolve()}." in line
    assert "MILEPOST_URL=postgresql://" in line
    assert "s3cr3t" not in migrated.stderr

    (place / "shop.py").write_text("from milepost import Milepost\nmp = Milepost()\n")
    ran = misspelt.run("run", "shop:mp")
    first, error = ran.stderr.splitlines()
    assert (first, error.startswith("error: shop:mp has no processors")) == (line, True)

    wanted = Cli("", {"MILEPOST_EMBEDDED": "on"}).run("status")
    assert (wanted.code, wanted.stderr) == (0, "")
    named = Cli(EmbeddedServer(place).start()).run("status")
    assert (named.code, named.stderr) == (0, "")


def test_off_forbids_it_in_commands(place: Path) -> None:
    off = Cli("", {"MILEPOST_EMBEDDED": "off", "MILEPOST_DSN": SECRET})
    (place / "shop.py").write_text("from milepost import Milepost\nmp = Milepost()\n")
    for command in (["status"], ["migrate"], ["demo", "--no-spark"], ["run", "shop:mp"]):
        refused = off.run(*command)
        assert (refused.code, refused.stdout) == (1, ""), command
        (line,) = refused.stderr.splitlines()
        assert line.startswith("error: No database is named, and MILEPOST_EMBEDDED=off forbids")
        assert "MILEPOST_DSN" in line
        assert "s3cr3t" not in line
    assert off.run("doctor").code == 2
    assert not (place / "postgres").exists()


def test_off_forbids_it_in_programs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "MILEPOST_URL",
        "PGHOST",
        "PGPORT",
        "PGDATABASE",
        "PGUSER",
        "PGSERVICE",
        "PGHOSTADDR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILEPOST_EMBEDDED", "off")
    with pytest.raises(NoDatabaseNamed):
        Milepost()
    assert not (place / "postgres").exists()
    Milepost("postgresql://named.invalid/shop")
