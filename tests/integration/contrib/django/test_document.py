"""docs/django.md is followed word for word: its files are written, its commands entered."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import db
from tests.server import TestServer

DOCUMENT = Path(__file__).parents[4] / "docs" / "django.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+/\w+\.py)\n")
NAMES = {"dbname": "PGDATABASE", "user": "PGUSER", "host": "PGHOST", "port": "PGPORT"}
UNSET = ("DJANGO_SETTINGS_MODULE", "MILEPOST_URL", "MILEPOST_SCHEMA", "MILEPOST_APP")


class Reader:
    """Somebody who does what the document says, in a directory of their own."""

    def __init__(self, place: Path, url: str) -> None:
        self.place = place
        own = {key: value for key, value in os.environ.items() if key not in UNSET}
        parts = conninfo_to_dict(url)
        given = {variable: str(parts[name]) for name, variable in NAMES.items() if name in parts}
        scripts = str(Path(sys.executable).parent)
        self.environment = {**own, **given, "PATH": f"{scripts}:{own['PATH']}"}
        self.said: dict[str, str] = {}

    def follow(self, language: str, text: str) -> None:
        if language == "sh":
            for line in text.splitlines():
                self.enter(line)
        elif found := FILE.match(text):
            with (self.place / found[1]).open("a") as file:
                file.write(text)

    def enter(self, line: str) -> None:
        if not line.startswith("pip "):
            self.said[line] = self.run(*shlex.split(line))

    def run(self, *words: str, code: int = 0) -> str:
        ended = subprocess.run(  # noqa: S603 - the document's own words
            words, cwd=self.place, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def manage(self, *words: str, code: int = 0) -> str:
        return self.run("python", "manage.py", *words, code=code)


@pytest.fixture
def reader(server: TestServer, tmp_path: Path) -> Reader:
    """With a database that was never migrated."""
    return Reader(tmp_path, server.url(server.create_database("mysite")))


def test_the_quickstart(reader: Reader) -> None:
    for language, text in BLOCK.findall(DOCUMENT.read_text()):
        reader.follow(language, text)
    assert "billing" in reader.said["python manage.py milepost status"]
    assert "Ran 2 tests" in reader.said["python manage.py test"]
    with db.connect("", application_name="test") if False else db.connect(url_of(reader)) as conn:
        row = conn.execute("select amount, receipt_sent from shop_invoice").fetchall()
    assert row == [(42, True)]
    _migrations_are_clean(reader)
    _commands_are_milepost_s(reader)


def url_of(reader: Reader) -> str:
    return " ".join(
        f"{name}={reader.environment[v]}" for name, v in NAMES.items() if v in reader.environment
    )


def _migrations_are_clean(reader: Reader) -> None:
    assert "No changes detected" in reader.manage("makemigrations", "--check", "--dry-run")
    assert "CANNOT BE WRITTEN AS SQL" in reader.manage("sqlmigrate", "milepost", "0001")
    reader.manage("migrate", "milepost", "zero")
    reader.manage("migrate")
    assert "billing" in reader.manage("milepost", "status")  # nothing was removed


def _commands_are_milepost_s(reader: Reader) -> None:
    assert reader.manage("milepost", "--version").startswith("milepost ")
    assert "Usage: manage.py milepost" in reader.manage("milepost", "--help")
    assert "OrderPlaced" in reader.manage("milepost", "read", "--settings=mysite.settings")
    assert "No such command" in reader.manage("milepost", "nonsense", code=2)
    text = "from django.core.management import call_command; call_command('milepost', 'status')"
    assert "billing" in reader.manage("shell", "-c", text)
    # Also in processes that are started without manage.py.
    reader.environment["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    reader.manage("milepost", "run", "--until", "drained", "--processes", "2")
    reader.run("milepost", "run", "shop.processors:mp", "--until", "drained")
    reader.manage("test", "--parallel", "2")
