"""Connections, and what an error of the server means in our words."""

from __future__ import annotations

import traceback

import psycopg
import pytest
from psycopg import sql as pgsql

from milepost import db
from milepost.db import Connection
from milepost.errors import (
    ConnectionUnusable,
    InvalidUrl,
    LogRestored,
    NotMigrated,
    ReadOnlyServer,
)

append_order = pytest.mark.parametrize("order", ["append"])


def test_a_connection_is_in_autocommit_mode_and_named(empty_database: str) -> None:
    with db.connect(empty_database) as conn:
        assert conn.autocommit
        assert conn.execute("show application_name").fetchone() == ("milepost",)
    with db.connect(empty_database, application_name="ours") as conn:
        assert conn.execute("show application_name").fetchone() == ("ours",)


def test_a_name_in_the_url_is_kept(empty_database: str) -> None:
    url = db.conninfo(empty_database) + " application_name=theirs"
    with db.connect(url) as conn:
        assert conn.execute("show application_name").fetchone() == ("theirs",)


def test_transactions_are_read_committed_whatever_the_default(empty_database: str) -> None:
    with db.connect(empty_database) as conn:
        alter = pgsql.SQL("alter database {} set default_transaction_isolation = serializable")
        conn.execute(alter.format(pgsql.Identifier(conn.info.dbname)))
    with db.connect(empty_database) as conn, conn.transaction():
        assert conn.execute("show transaction_isolation").fetchone() == ("read committed",)


@pytest.mark.parametrize(
    "url", ["postgresql://u:s3cret@[host/db", "password=s3cret nonsense", "s3cret://x"]
)
def test_a_url_that_cannot_be_parsed_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidUrl, match="postgresql://user:password@host:port/database") as caught:
        db.connect(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@append_order
def test_an_error_of_ours_carries_the_hint_and_its_cause(conn: Connection) -> None:
    raising = "do $$ begin raise exception 'what' using errcode = 'MP003', hint = 'do that'; end $$"
    with pytest.raises(LogRestored, match=r"^what\. do that$") as caught, db.translated("x"):
        conn.execute(raising)
    assert isinstance(caught.value.__cause__, psycopg.Error)


@append_order
def test_errors_that_are_not_ours_pass_unchanged(conn: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), db.translated("milepost"):
        conn.execute("select 1 / 0")
    with pytest.raises(psycopg.errors.UndefinedTable), db.translated("milepost"):
        conn.execute("select from somebody_elses_table")


@pytest.mark.parametrize(
    "statement", ["select from absent.messages", "select absent.horizon()", "select absent.f(1)"]
)
def test_a_statement_on_a_missing_schema_means_not_migrated(
    statement: str, empty_database: str
) -> None:
    with db.connect(empty_database) as conn, pytest.raises(NotMigrated), db.translated("absent"):
        conn.execute(statement)


def test_a_write_on_a_read_only_server_is_refused(empty_database: str) -> None:
    with db.connect(empty_database) as conn:
        conn.execute("set default_transaction_read_only = on")
        with pytest.raises(ReadOnlyServer, match="primary"), db.translated("milepost"):
            conn.execute("create table t (n integer)")


def test_without_the_sessions_settings_both_reasons_to_be_read_only_are_named(
    empty_database: str,
) -> None:
    with db.connect(empty_database) as conn:
        conn.read_only = True
        with (
            pytest.raises(ReadOnlyServer, match="or the transaction was begun read-only"),
            db.translated("milepost"),
            conn.transaction(),
        ):
            conn.execute("create table t (n integer)")


def test_a_statement_in_a_failed_transaction_says_so(empty_database: str) -> None:
    with db.connect(empty_database) as conn:
        conn.execute("begin")
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1 / 0")
        with pytest.raises(ConnectionUnusable, match="begin again"), db.translated("milepost"):
            conn.execute("select 1")
        with pytest.raises(ConnectionUnusable, match="begin again"):
            db.check_usable(conn)


def test_the_number_of_a_database_without_us_is_none_and_harms_no_transaction(
    empty_database: str,
) -> None:
    with db.connect(empty_database) as conn, conn.transaction():
        assert db.applied_number(conn, "milepost") is None
        assert conn.execute("select 1").fetchone() == (1,)
