"""A URL may say that it leads to PgBouncer, in a parameter that libpq does not know."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import db
from milepost.errors import InvalidUrl

PLACE = {"host": "h", "port": "6432", "dbname": "d"}


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("postgresql://h:6432/d?pgbouncer=true", {}),
        ("postgresql://h:6432/d?pgbouncer=true&sslmode=disable", {"sslmode": "disable"}),
        ("postgresql://h:6432/d?sslmode=disable&pgbouncer=true", {"sslmode": "disable"}),
        (
            "postgresql://h:6432/d?user=u&pgbouncer=true&sslmode=disable",
            {"user": "u", "sslmode": "disable"},
        ),
        ("host=h port=6432 dbname=d pgbouncer=true", {}),
        ("pgbouncer=true host=h port=6432 dbname=d", {}),
    ],
)
def test_the_parameter_is_understood_and_kept_from_libpq(url: str, more: dict[str, str]) -> None:
    assert db.leads_to_pgbouncer(url)
    assert conninfo_to_dict(db.conninfo(url, "x")) == PLACE | more | {
        "fallback_application_name": "x"
    }


def test_alone_it_goes_with_the_variables_of_libpq() -> None:
    assert db.leads_to_pgbouncer("pgbouncer=true")
    assert db.conninfo("pgbouncer=true", "x") == "fallback_application_name=x"


@pytest.mark.parametrize(
    "url", ["", "postgresql://h/d", "postgresql://u:pgbouncer=true@h/d", "host=h dbname=pgbouncer"]
)
def test_other_urls_lead_to_the_server(url: str) -> None:
    assert not db.leads_to_pgbouncer(url)
    db.conninfo(url)


@pytest.mark.parametrize("url", ["postgresql://h/d?pgbouncer=yes", "host=h pgbouncer=1"])
def test_another_value_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        db.conninfo(url)
