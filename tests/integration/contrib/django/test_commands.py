"""manage.py migrate and manage.py milepost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from threading import Thread

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings

from milepost import Milepost, db, sql
from milepost.contrib.django.management.commands.milepost import Command
from milepost.contrib.django.migrating import upgrade
from tests.integration.contrib.django.configured import on_database

VARIABLES = ("MILEPOST_URL", "MILEPOST_SCHEMA", "MILEPOST_APP")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, afterwards."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "of the test")


@pytest.fixture
def empty(empty_database: str) -> Iterator[str]:
    with on_database(empty_database):
        yield empty_database


def applied(url: str, schema: str = "milepost") -> int | None:
    with db.connect(url) as conn:
        return db.applied_number(conn, schema)


def manage(*words: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "milepost", *words])
    return ended.value.code


def test_migrate_makes_the_schema_and_zero_keeps_it(empty: str) -> None:
    assert applied(empty) is None
    for target in ("0001", "zero", "0001"):
        call_command("migrate", "milepost", target, verbosity=0)
        assert applied(empty) == sql.migrations()[-1].number


def test_migrate_makes_the_schema_that_the_settings_name(empty: str) -> None:
    with override_settings(MILEPOST={"SCHEMA": "own"}):
        call_command("migrate", "milepost", verbosity=0)
    assert applied(empty) is None
    assert applied(empty, "own") == sql.migrations()[-1].number


def test_what_a_newer_version_brings_needs_no_other_django_migration(mp: Milepost) -> None:
    call_command("migrate", "milepost", verbosity=0)
    with mp.connect() as conn:
        conn.execute("update milepost.log set functions_digest = 'of an older version'")
        call_command("migrate", "milepost", verbosity=0)
        row = conn.execute("select functions_digest from milepost.log").fetchone()
    assert row == (sql.checksum(sql.functions("append")),)


def test_other_databases_are_left_alone(empty: str) -> None:
    upgrade("other")  # it does not exist: a connection would fail


def test_there_is_nothing_for_makemigrations(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("makemigrations", "milepost", check_changes=True, dry_run=True)
    assert "No changes detected" in capsys.readouterr().out
    call_command("sqlmigrate", "milepost", "0001")
    assert "CANNOT BE WRITTEN AS SQL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--version"], "milepost "),
        (["--help"], "Usage: manage.py milepost"),
        (["status", "--settings=shop.settings", "--pythonpath", "x"], "horizon"),
    ],
)
def test_all_words_are_milepost_s_but_those_of_manage_py(
    mp: Milepost, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert not manage(*words)
    assert said in capfd.readouterr().out


def test_a_command_fails_as_on_the_command_line(
    mp: Milepost, capfd: pytest.CaptureFixture[str]
) -> None:
    assert manage("nonsense") == 2
    assert "No such command" in capfd.readouterr().err
    with pytest.raises(CommandError, match="exit code 1") as raised:
        call_command("milepost", "queue", "show", "4711")
    assert raised.value.returncode == 1


def test_a_thread_may_call_a_command(mp: Milepost, capfd: pytest.CaptureFixture[str]) -> None:
    thread = Thread(target=call_command, args=("milepost", "status"))
    thread.start()
    thread.join()
    assert "horizon" in capfd.readouterr().out


def test_run_runs_the_tasks_of_a_project_that_names_no_application(
    mp: Milepost, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not manage("run", "--until", "drained", "--only", "mail")
    assert "running mail" in capfd.readouterr().err
    assert os.environ["MILEPOST_APP"] == "milepost.contrib.django.default:mp"
    assert connection.settings_dict["NAME"] in os.environ["MILEPOST_URL"]
