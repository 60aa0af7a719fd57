from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as pg

from milepost.retry import Retry
from milepost.runtime.lost_server import Patience, is_server_lost

AT_ONCE = Retry(first_seconds=0.0)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection refused"),
        psycopg.OperationalError("FATAL:  the database system is starting up"),
        psycopg.OperationalError("FATAL:  sorry, too many clients already"),
        pg.AdminShutdown("terminating connection due to administrator command"),
        OSError("server closed the connection unexpectedly"),
    ],
)
def test_what_passes_is_waited_for(error: Exception) -> None:
    assert is_server_lost(error)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError('FATAL:  password authentication failed for user "ada"'),
        psycopg.OperationalError('FATAL:  database "shop" does not exist'),
        pg.QueryCanceled("canceling statement due to statement timeout"),
        pg.DiskFull("no space left"),
        ValueError("no server at all"),
        ConnectionRefusedError(111, "Connection refused"),  # by the JVM: psycopg has its own class
        FileNotFoundError("no such file"),
        OSError(28, "No space left on device"),
    ],
)
def test_what_stays_is_not(error: Exception) -> None:
    assert not is_server_lost(error)


def test_patience_ends() -> None:
    error = psycopg.OperationalError("connection refused")
    patience = Patience(0.0, AT_ONCE)
    with pytest.raises(psycopg.OperationalError):
        patience.wait_or_raise(error)


def test_what_goes_well_renews_it() -> None:
    error = psycopg.OperationalError("connection refused")
    patience = Patience(60.0, AT_ONCE)
    for _ in range(3):
        patience.wait_or_raise(error)
        patience.went_well()
    with pytest.raises(ValueError, match="other"):
        patience.wait_or_raise(ValueError("other"))
