from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost.db import conninfo, read_only
from milepost.errors import InvalidUrl


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:a@b@host:1/none",
        "postgresql://someone:a@b/c@host:1/none",
        "postgresql://someone:a/b@host:1/none",
        "postgresql://someone:1/b@host:1/none",
        "postgresql://someone:a@b:c@host:1/none",
        "postgresql://someone:a%zz@host/none",
        "postgresql://someone:a@[::1/none",
        "host=h port=1 password=a b",
        "host=h port=1 password=a b=c",
        "nothing like a URL",
    ],
)
def test_a_url_of_which_a_part_of_the_password_would_be_shown_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl) as refusal:
        conninfo(url)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("driver", ["+asyncpg", "+psycopg", "+psycopg2"])
def test_a_url_of_sqlalchemy_is_refused_with_what_to_remove(driver: str) -> None:
    with pytest.raises(InvalidUrl, match=rf"remove '\{driver}', so that it begins") as refusal:
        conninfo(f"postgresql{driver}://someone:secret@host/none")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:a%40b%2Fc@host:1/none",
        "postgresql://someone:a?b:c@host/none?application_name=x@y",
        "postgresql://one,two:5433/none",
        "postgresql://a:b@[::1]:5432/none",
        "postgresql:///none?host=@abstract",
        "host=h port=1,2 password='a@b / c' dbname=odd@name",
        "",
    ],
)
def test_a_url_that_means_what_it_says_is_accepted(url: str) -> None:
    conninfo(url)


@pytest.mark.parametrize(
    ("url", "environ", "options"),
    [
        ("postgresql://host/none", {}, ""),
        ("postgresql://host/none?options=-c%20jit%3Doff", {"PGOPTIONS": "-c x.y=1"}, "-c jit=off "),
        ("", {"PGOPTIONS": "-c x.y=1"}, "-c x.y=1 "),
    ],
)
def test_a_read_only_url_keeps_other_options(
    url: str, environ: dict[str, str], options: str
) -> None:
    found = conninfo_to_dict(read_only(url, environ))
    assert found["options"] == f"{options}-c default_transaction_read_only=on"
    assert found.get("host") == ("host" if url else None)
