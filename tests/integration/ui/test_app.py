"""The dashboard over HTTP: who is let in, what is refused, and where its links lead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from milepost import Milepost
from milepost.sql import LogOrder
from milepost.ui import Dashboard, dashboard
from milepost.ui.observed import log_reads
from milepost.ui.security import DELAY_SECONDS
from tests.server import TestServer

TOKEN = "a-token-of-some-length"  # noqa: S105
Make = Callable[..., TestClient]


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def made(mp: Milepost) -> Iterator[Callable[..., Dashboard]]:
    with ExitStack() as stack:

        def make(**options: object) -> Dashboard:
            new = dashboard(mp, **options)  # type: ignore[arg-type]  # as given
            stack.callback(new.close)
            return new

        yield make


@pytest.fixture
def client(made: Callable[..., Dashboard]) -> Make:
    """A browser on this machine."""

    def make(
        host: str = "localhost:8000", address: str = "127.0.0.1", **options: object
    ) -> TestClient:
        return TestClient(made(**options), f"http://{host}", client=(address, 5000))

    return make


def test_pages_have_the_headers_that_keep_others_out(client: Make) -> None:
    answer = client().get("/")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self'; frame-anc")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_a_foreign_name_for_this_machine_is_refused(client: Make) -> None:
    for answer in (client("evil.example").get("/"), client("evil.example").get("/events?view=/")):
        assert answer.status_code == 403
        assert "Milepost" not in answer.text


def test_a_foreign_machine_is_refused_without_a_login(client: Make) -> None:
    answer = client(address="192.0.2.1").get("/")
    assert answer.status_code == 403
    assert "authorize=" in answer.text


def test_behind_a_proxy_without_a_login_a_token_is_asked_for(client: Make) -> None:
    answer = client().get("/", headers={"x-forwarded-host": "ops.example"})
    assert answer.status_code == 403
    assert "behind a proxy, a token is needed: set MILEPOST_UI_TOKEN" in answer.text


def test_on_another_address_without_a_login_it_is_read_only(client: Make) -> None:
    shown = client("host.example", "192.0.2.1", listens_on="0.0.0.0")  # noqa: S104
    assert "read-only" in shown.get("/").text
    refused = shown.post("/actions/pause-processor", data={"name": "billing"})
    assert (refused.status_code, refused.text) == (
        403,
        "The dashboard is read-only: nothing was changed.",
    )


def test_the_token_is_asked_for_once(made: Callable[..., Dashboard]) -> None:
    now = 100.0
    whole = made(token=TOKEN)
    whole.access.logins.clock = lambda: now
    shown = TestClient(whole, "http://host.example", client=("192.0.2.1", 5000))
    asked = shown.get("/log?topic=a")
    assert asked.url.path == "/login"
    refused = shown.post(str(asked.url), data={"token": "something else"})
    assert refused.status_code == 403
    assert "not the token" in refused.text
    early = shown.post(str(asked.url), data={"token": TOKEN})
    assert (early.status_code, "wait 1 s" in early.text) == (429, True)
    assert shown.get("/", follow_redirects=False).status_code == 303
    now += DELAY_SECONDS
    entered = shown.post(str(asked.url), data={"token": TOKEN})
    assert (entered.url.path, entered.url.query) == ("/log", b"topic=a")
    assert TOKEN not in str(shown.cookies)
    assert shown.get("/").url.path == "/"


def test_streams_and_actions_need_the_token_too(client: Make) -> None:
    shown = client(token=TOKEN)
    assert shown.get("/events?view=/").status_code == 403
    refused = shown.post("/actions/pause-processor", follow_redirects=False)
    assert refused.status_code == 303
    assert "/login" in refused.headers["location"]


def test_authorize_decides_and_names(client: Make) -> None:
    def by_header(request: Request) -> str | None:
        return request.headers.get("x-user")

    shown = client("host.example", "192.0.2.1", authorize=by_header)
    assert shown.get("/").status_code == 403
    assert "ada" in shown.get("/", headers={"x-user": "ada"}).text


def test_a_form_without_the_browsers_token_changes_nothing(client: Make) -> None:
    shown = client()
    shown.get("/")
    for given in ({}, {"csrf": "0" * 64}):
        refused = shown.post("/actions/pause-processor", data={"name": "billing", **given})
        assert refused.status_code == 403
        assert "nothing was changed" in refused.text


def test_what_does_not_exist_is_not_found(client: Make) -> None:
    shown = client()
    beyond = f"/log/{10**22}"
    for path in ("/nothing", "/log/0:12345", "/log/abc", beyond, "/events?view=/nothing"):
        answer = shown.get(path)
        assert answer.status_code == 404, path
        assert "Not found" in answer.text


@pytest.mark.parametrize(
    "path", ["/log?topic=%00", "/log?type=%00", "/log?key=a%00", "/queue/limited?search=%00",
             "/dead-letters?key=%00", "/audit?subject=%00"]
)  # fmt: skip
def test_a_filter_that_nothing_can_match_is_no_filter(client: Make, path: str) -> None:
    """PostgreSQL stores no NUL."""
    assert client().get(path).status_code == 200


def test_what_the_database_refuses_is_not_said_to_be_a_lost_database(
    client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise psycopg.errors.InvalidTextRepresentation("invalid input syntax")

    monkeypatch.setattr(log_reads, "read_tail", refuse)
    answer = client().get("/log")
    assert answer.status_code == 500
    assert "The database refuses this" in answer.text
    assert "invalid input syntax" in answer.text


def test_below_a_prefix_every_link_and_cookie_has_it(made: Callable[..., Dashboard]) -> None:
    whole = Starlette(routes=[Mount("/admin/milepost", made())])
    shown = TestClient(whole, "http://localhost", client=("127.0.0.1", 5000))
    answer = shown.get("/admin/milepost/log?topic=a")
    assert answer.status_code == 200
    assert 'data-events="/admin/milepost/events?view=%2Flog%3Ftopic%3Da"' in answer.text
    links = [part.split('"')[0] for part in answer.text.split('href="')[1:]]
    assert all(each.startswith(("/admin/milepost/", "#")) for each in links)
    assert "Path=/admin/milepost;" in answer.headers["set-cookie"]
    assert shown.get("/admin/milepost/static/live.js").status_code == 200


def test_without_its_database_a_page_says_so_and_shows_no_password(server: TestServer) -> None:
    url = "postgresql://nobody:secret-word@127.0.0.1:1/none"
    gone = dashboard(Milepost(url))
    shown = TestClient(gone, "http://localhost", client=("127.0.0.1", 5000))
    try:
        answer = shown.get("/")
    finally:
        gone.close()
    assert answer.status_code == 503
    assert "does not answer" in answer.text
    assert "secret-word" not in answer.text


def test_a_lost_connection_is_opened_again(client: Make, mp: Milepost) -> None:
    shown = client()
    assert shown.get("/log").status_code == 200
    with mp.connect() as conn:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where pid <> pg_backend_pid() and datname = current_database()"
        )
    codes = [shown.get("/log?key=other").status_code, shown.get("/log?key=third").status_code]
    assert codes[-1] == 200
