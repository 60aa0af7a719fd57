"""settings.MILEPOST, and the URL of settings.DATABASES."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import override_settings
from psycopg.conninfo import conninfo_to_dict

from milepost import Milepost, db
from milepost.contrib.django.apps import check_settings
from milepost.contrib.django.settings import database_url
from milepost.errors import MilepostError

SECRET = "p@ss/w ord"  # noqa: S105 - of nobody


@contextmanager
def database(**changes: Any) -> Iterator[None]:
    own = connections.settings["other"]
    before = dict(own)
    own.update(changes)
    try:
        yield
    finally:
        own.update(before)
        del connections["other"]


def parts(**changes: Any) -> dict[str, Any]:
    with database(**changes):
        return conninfo_to_dict(db.conninfo(database_url("other"), "x"))


def test_the_url_has_everything_that_django_connects_with() -> None:
    found = parts(
        NAME="shop", USER="me", PASSWORD=SECRET, HOST="/run/pg", PORT="5433",
        OPTIONS={"sslmode": "prefer", "options": "-c search_path=shop", "isolation_level": 2,
                 "prepare_threshold": 3, "pool": False, "server_side_binding": True},
    )  # fmt: skip
    expected = {
        "dbname": "shop", "user": "me", "password": SECRET, "host": "/run/pg", "port": "5433",
        "sslmode": "prefer", "options": "-c search_path=shop -c TimeZone=UTC",
    }  # fmt: skip
    assert expected.items() <= found.items()
    assert "isolation_level" not in found


def test_a_service_and_a_role_are_passed_on() -> None:
    found = parts(NAME="", OPTIONS={"service": "shop", "assume_role": "the owner"})
    assert found["service"] == "shop"
    assert found["options"] == r"-c TimeZone=UTC -c role=the\ owner"


def test_behind_pgbouncer_the_session_is_left_alone() -> None:
    with override_settings(MILEPOST={"PGBOUNCER": True}), database(NAME="shop"):
        url = database_url("other")
        assert db.leads_to_pgbouncer(url)
        assert "options" not in conninfo_to_dict(db.conninfo(url))
    with (
        override_settings(MILEPOST={"PGBOUNCER": True}),
        database(NAME="shop", OPTIONS={"assume_role": "x"}),
        pytest.raises(ImproperlyConfigured, match="assume_role"),
    ):
        database_url("other")


def test_the_password_is_in_no_error_and_no_repr() -> None:
    wrong = {"NAME": "shop", "PASSWORD": SECRET, "HOST": "/nowhere", "USER": "me"}
    with database(**wrong):
        mp = Milepost.from_django("other")
        with pytest.raises(Exception) as raised, mp.connect():  # noqa: PT011 - any
            pass
    with database(**wrong, OPTIONS={"nonsense": 1}), pytest.raises(ImproperlyConfigured) as refused:
        database_url("other")
    for text in (repr(mp), repr(vars(mp)), str(raised.value), str(refused.value)):
        assert SECRET not in text
        assert "p%40ss" not in text
    assert "nonsense" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"SCHEMAS": "x"}, "unknown key 'SCHEMAS'. Did you mean 'SCHEMA'"),
        ({"MAX_CONNECTIONS": "5"}, "is '5': expected a value of type int"),
        ({"MAX_CONNECTIONS": True}, "expected a value of type int"),
        ({"MAX_CONNECTIONS": 0}, "expected at least 1"),
        ({"USING": "nowhere"}, "expected a key of settings.DATABASES ('default', 'other')"),
        ({"APP": "shop"}, "expected MODULE:NAME"),
        ({"SCHEMA": "No Schema"}, "not a valid schema name"),
        ([], "is a list: expected a dict"),
    ],
)
def test_wrong_settings_are_refused_with_words(given: Any, text: str) -> None:
    with override_settings(MILEPOST=given):
        with pytest.raises(ImproperlyConfigured) as raised:
            Milepost.from_django()
        (found,) = check_settings()
    assert text in str(raised.value)
    assert text in found.msg


def test_another_kind_of_database_is_refused() -> None:
    with (
        database(ENGINE="django.db.backends.sqlite3", NAME=":memory:"),
        pytest.raises(ImproperlyConfigured, match="SQLite: Milepost works on PostgreSQL"),
    ):
        Milepost.from_django("other")


def test_options_reach_milepost(project: None) -> None:
    given = {"SCHEMA": "other", "MAX_CONNECTIONS": 7, "MAX_PAYLOAD_BYTES": 10}
    with override_settings(MILEPOST=given):
        mp = Milepost.from_django()
    assert (mp.schema, mp.max_payload_bytes, mp._runtime.max_connections) == ("other", 10, 7)
    with pytest.raises(MilepostError, match="other"), mp.connect():
        pass


def test_the_database_may_be_renamed_after_the_application_was_made(url: str) -> None:
    """As Django's test runner does it."""
    from tests.integration.contrib.django.configured import on_database

    mp = Milepost.from_django()
    with on_database(url), mp.connect() as conn:
        assert conn.info.dbname == conninfo_to_dict(url)["dbname"]
        assert mp.horizon() is not None
