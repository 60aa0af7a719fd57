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

DOCUMENT = Path(__file__).parents[4] / "docs" / "django.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+/\w+\.py)\n")
NAMES = {"dbname": "PGDATABASE", "user": "PGUSER", "host": "PGHOST", "port": "PGPORT"}
UNSET = ("DJANGO_SETTINGS_MODULE", "MILEPOST_URL", "MILEPOST_SCHEMA", "MILEPOST_APP")


class Reader:
    """Somebody who does what the document says, in a directory of their own."""

    def __init__(self, place: Path, url: str) -> None:
        self.place, self.url = place, url
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
        ended = subprocess.run(
            words, cwd=self.place, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def manage(self, *words: str, code: int = 0) -> str:
        return self.run("python", "manage.py", *words, code=code)


@pytest.fixture
def reader(empty_database: str, tmp_path: Path) -> Reader:
    return Reader(tmp_path, empty_database)


@pytest.mark.soak  # a project with processes of its own
def test_the_quickstart(reader: Reader) -> None:
    for language, text in BLOCK.findall(DOCUMENT.read_text()):
        reader.follow(language, text)
    assert "billing" in reader.said["python manage.py milepost status"]
    assert "Ran 2 tests" in reader.said["python manage.py test"]
    with db.connect(reader.url) as conn:
        row = conn.execute("select amount, receipt_sent from shop_invoice").fetchall()
    assert row == [(42, True)]
    # Options of manage.py are not Milepost's.
    assert "OrderPlaced" in reader.manage("milepost", "read", "--settings=mysite.settings")
    # Each parallel process of Django's test runner has a database of its own, with another name.
    assert "Ran 2 tests" in reader.manage("test", "--parallel", "2")


def test_processes_that_manage_py_starts_know_the_project(reader: Reader) -> None:
    for language, text in BLOCK.findall(DOCUMENT.read_text()):
        if language == "python" or "startproject" in text:
            reader.follow(language, text)
    reader.manage("migrate", "milepost")
    said = reader.manage("milepost", "run", "--until", "drained", "--processes", "2")
    assert said.count("running billing, default") == 2
