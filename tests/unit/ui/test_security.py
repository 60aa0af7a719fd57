"""Signatures, hosts, and paths to return to."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from milepost.errors import WeakToken
from milepost.ui.security import (
    Access,
    FormTokens,
    Logins,
    Signer,
    check_token,
    is_local,
    is_loopback,
    is_same_origin,
    local_back,
)

TOKEN = "0123456789abcdef"  # noqa: S105


def request(client: str = "127.0.0.1", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, "client": (client, 1), "path": "/"})


def who(access: Access, asked: Request) -> str | None:
    return asyncio.run(access.who(asked))


def test_what_is_sealed_is_read_only_for_its_purpose() -> None:
    signer = Signer.of(None)
    sealed = signer.seal("notice", "done.")
    assert signer.unseal("notice", sealed) == "done."
    assert signer.unseal("session", sealed) is None
    assert signer.unseal("notice", sealed + "x") is None
    assert Signer.of(None).unseal("notice", sealed) is None
    assert signer.unseal("notice", "") is None


def test_processes_with_the_same_token_accept_each_others_signatures() -> None:
    sealed = Signer.of(TOKEN).seal("notice", "a")
    assert Signer.of(TOKEN).unseal("notice", sealed) == "a"


def test_a_key_is_not_shown() -> None:
    assert TOKEN not in repr(Access(Signer.of(TOKEN), token=TOKEN))
    assert "key" not in repr(Signer.of(TOKEN))


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True), ("localhost:8000", True), ("127.0.0.1:8000", True), ("[::1]:80", True),
        ("127.0.0.2", True), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8000", False), ("0.0.0.0:8000", False), ("", False),
    ],
)  # fmt: skip
def test_a_foreign_host_header_is_not_local(host: str, is_ours: bool) -> None:
    assert is_local(request(host=host)) is is_ours


def test_a_foreign_client_is_not_local_whatever_it_says() -> None:
    assert not is_local(request("192.0.2.7", host="localhost"))


@pytest.mark.parametrize(
    "header", ["forwarded", "via", "x_real_ip", "x_forwarded_for", "x_forwarded_host",
               "x_forwarded_proto"]
)  # fmt: skip
def test_what_a_proxy_passes_on_is_not_local(header: str) -> None:
    assert not is_local(request(host="localhost", **{header: "192.0.2.7"}))


def test_the_http_of_a_default_nginx_is_not_local() -> None:
    asked = request(host="127.0.0.1:8000")
    asked.scope["http_version"] = "1.0"
    assert not is_local(asked)


def test_wrong_tokens_are_delayed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    logins = Logins(clock=lambda: now)
    access = Access(Signer.of(TOKEN), token=TOKEN, logins=logins)
    wrong, right = request(authorization="Bearer wrong"), request(authorization=f"Bearer {TOKEN}")
    assert [who(access, wrong), who(access, right)] == [None, None], "not looked at for a while"
    assert who(access, request("192.0.2.8", authorization=f"Bearer {TOKEN}")) == "token"
    delays = []
    for _ in range(6):
        delays.append(logins.wait_seconds(wrong))
        now += delays[-1]
        who(access, wrong)
    assert delays == [0.5, 1, 2, 4, 5, 5]
    assert caplog.messages[-1] == "Wrong token for the dashboard from 127.0.0.1: 7 in a row."
    assert "wrong" not in caplog.text.replace("Wrong", "")
    now += 5
    assert who(access, right) == "token"


def test_without_a_login_only_this_machine_is_served() -> None:
    access = Access(Signer.of(None), is_local_only=True)
    assert who(access, request(host="localhost")) == "local"
    assert who(access, request(host="evil.example")) is None


def test_authorize_names_the_user_or_refuses() -> None:
    async def later(asked: Request) -> str | None:
        return asked.headers.get("x-user")

    access = Access(Signer.of(None), later)
    assert who(access, request(x_user="ada")) == "ada"
    assert who(access, request()) is None
    assert who(Access(Signer.of(None), lambda _: True), request()) == "authorized"
    assert who(Access(Signer.of(None), lambda _: False), request(host="localhost")) is None
    assert who(Access(Signer.of(None), lambda _: ""), request(host="localhost")) is None


def test_a_bearer_token_is_compared_as_a_whole() -> None:
    access = Access(Signer.of(TOKEN), token=TOKEN)
    assert who(access, request(authorization=f"Bearer {TOKEN}")) == "token"
    assert who(access, request(authorization=f"Bearer {TOKEN[:-1]}")) is None
    assert who(access, request(authorization="Bearer é")) is None
    assert who(access, request(host="localhost")) is None


def test_a_session_ends() -> None:
    access = Access(Signer.of(TOKEN), token=TOKEN)
    old = access.signer.seal("session", "1000")
    new = access.signer.seal("session", "99999999999")
    assert who(access, request(cookie=f"milepost_session={old}")) is None
    assert who(access, request(cookie=f"milepost_session={new}")) == "token"
    assert who(access, request(cookie="milepost_session=99999999999")) is None


def test_a_form_needs_the_signature_of_the_browsers_cookie() -> None:
    forms = FormTokens(Signer.of(None))
    asked = request(cookie="milepost_csrf=abc", host="localhost")
    assert forms.is_valid(asked, forms.token("abc"))
    assert not forms.is_valid(asked, forms.token("other"))
    assert not forms.is_valid(asked, "")
    assert not forms.is_valid(request(), forms.token(""))
    foreign = request(cookie="milepost_csrf=abc", host="localhost", origin="http://evil.example")
    assert not forms.is_valid(foreign, forms.token("abc"))


def test_the_origin_must_be_this_host() -> None:
    assert is_same_origin(request(host="localhost:8000", origin="http://localhost:8000"))
    assert not is_same_origin(request(host="localhost:8000", origin="http://localhost:9000"))
    assert not is_same_origin(request(host="localhost:8000", origin="null"))


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "", "/a\r\nb"]
)
def test_one_returns_only_to_the_dashboard(path: str) -> None:
    assert local_back(path) == "/"


def test_one_returns_to_a_view() -> None:
    assert local_back("/log?topic=a") == "/log?topic=a"


def test_a_short_token_is_refused() -> None:
    assert check_token(None) is None
    with pytest.raises(WeakToken, match="has 3 characters"):
        check_token("abc")


def test_loopback_addresses() -> None:
    assert all(is_loopback(host) for host in ("localhost", "::1", "127.9.9.9"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "host"))  # noqa: S104
