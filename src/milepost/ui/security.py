"""Who may see and change what: the login, the tokens of forms, the Host header, the headers.

Without a login only this machine is served, by a name that means this machine: a foreign page whose
name was made to point here (DNS rebinding) has a foreign Host header. What a proxy passes on comes
from this machine, too, but not its user.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import RedirectResponse

from milepost.errors import WeakToken
from milepost.ui.drawn.render import link

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("milepost.ui")
# Returns the name of the user, or True; None or False refuse.
Authorize: TypeAlias = "Callable[[Request], str | bool | Awaitable[str | bool | None] | None]"
SESSION, CSRF, NOTICE = "milepost_session", "milepost_csrf", "milepost_notice"
SESSION_SECONDS = 12 * 3600
SHORTEST_TOKEN = 16
DELAY_SECONDS = 0.5  # after the first wrong token; then twice as long each time
LONGEST_DELAY_SECONDS = 5.0
MOST_CLIENTS = 1000
_OF_PROXIES = ("forwarded", "via", "x-real-ip")
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs what browsers keep for us, so that they cannot make it up."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, token: str | None) -> Signer:
        """With a token, all processes that have it accept each other's signatures."""
        if token is None:
            return cls(secrets.token_bytes(32))
        return cls(hashlib.sha256(b"milepost ui\0" + token.encode()).digest())

    def sign(self, purpose: str, value: str) -> str:
        return hmac.new(self.key, f"{purpose}\0{value}".encode(), "sha256").hexdigest()

    def seal(self, purpose: str, value: str) -> str:
        return f"{self.sign(purpose, value)}.{value}"

    def unseal(self, purpose: str, sealed: str) -> str | None:
        """The value; None if it was not sealed here for this purpose."""
        signature, _, value = sealed.partition(".")
        return value if self.is_signed(purpose, value, signature) else None

    def is_signed(self, purpose: str, value: str, signature: str) -> bool:
        return hmac.compare_digest(self.sign(purpose, value).encode(), signature.encode())


@dataclass(slots=True)
class Logins:
    """Wrong tokens, by the address that sent them. For a while nothing that it sends is looked at,
    however many requests it makes concurrently. Used on one event loop."""

    clock: Callable[[], float] = time.monotonic
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict, init=False)

    def wait_seconds(self, request: Request) -> float:
        """How long nothing is looked at; 0: now."""
        _, until = self._failures.get(_client(request), (0, 0.0))
        return max(until - self.clock(), 0.0)

    def failed(self, request: Request) -> None:
        client = _client(request)
        count = self._failures.pop(client, (0, 0.0))[0] + 1
        delay = min(DELAY_SECONDS * 2 ** min(count - 1, 10), LONGEST_DELAY_SECONDS)
        self._failures[client] = count, self.clock() + delay
        while len(self._failures) > MOST_CLIENTS:
            del self._failures[next(iter(self._failures))]
        log.warning("Wrong token for the dashboard from %s: %s in a row.", client, count)

    def succeeded(self, request: Request) -> None:
        client = _client(request)
        self._failures.pop(client, None)
        log.info("Login to the dashboard from %s.", client)


@dataclass(frozen=True, slots=True)
class Access:
    """`is_local_only`: there is no login, and only this machine is served."""

    signer: Signer
    authorize: Authorize | None = None
    token: str | None = field(default=None, repr=False)
    is_read_only: bool = False
    is_local_only: bool = False
    logins: Logins = field(default_factory=Logins)

    async def who(self, request: Request) -> str | None:
        """The name for the audit; None: refused."""
        if self.authorize is not None:
            answer = self.authorize(request)
            found = await answer if isawaitable(answer) else answer
            return found if isinstance(found, str) and found else "authorized" if found else None
        if self.token is not None:
            return "token" if self._has_session(request) or self._has_bearer(request) else None
        if self.is_local_only:
            return "local" if is_local(request) else None
        return "anybody"

    def is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(self.token.encode(), given.encode())

    def start_session(self, request: Request, response: Response, now: float) -> None:
        value = self.signer.seal("session", f"{int(now + SESSION_SECONDS)}")
        set_cookie(request, response, SESSION, value, SESSION_SECONDS)

    def _has_session(self, request: Request) -> bool:
        expires = self.signer.unseal("session", request.cookies.get(SESSION, ""))
        return expires is not None and int(expires) > time.time()

    def _has_bearer(self, request: Request) -> bool:
        """For Prometheus, which cannot fill in a form."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or self.logins.wait_seconds(request) > 0:
            return False
        if not self.is_token(given):
            self.logins.failed(request)
            return False
        return True


def set_cookie(
    request: Request, response: Response, name: str, value: str, seconds: int | None = None
) -> None:
    """Neither scripts nor requests from other sites have it."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def is_local(request: Request) -> bool:
    """Both: whoever connects from elsewhere can send any Host header."""
    client = request.client
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    is_direct = not is_from_proxy(request)
    return is_direct and is_loopback(host) and (client is None or is_loopback(client.host))


def is_from_proxy(request: Request) -> bool:
    """No browser sends these headers, nor HTTP/1.0, which nginx speaks by default: it sends none of
    these headers then, and its own address as Host."""
    names = request.headers.keys()
    is_passed_on = any(each in _OF_PROXIES or each.startswith("x-forwarded-") for each in names)
    return is_passed_on or request.scope.get("http_version") == "1.0"


def _client(request: Request) -> str:
    return "unknown" if request.client is None else request.client.host


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_origin(request: Request) -> bool:
    """A browser sends Origin with each form. What sends none is no browser, or an old one."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


@dataclass(frozen=True, slots=True)
class FormTokens:
    """The token in each form is a signature of a cookie that only this browser has."""

    signer: Signer

    def cookie_of(self, request: Request) -> str:
        return request.cookies.get(CSRF) or secrets.token_hex(16)

    def token(self, cookie: str) -> str:
        return self.signer.sign("csrf", cookie)

    def is_valid(self, request: Request, given: str) -> bool:
        cookie = request.cookies.get(CSRF, "")
        signed = bool(cookie) and self.signer.is_signed("csrf", cookie, given)
        return signed and is_same_origin(request)


@dataclass(frozen=True, slots=True)
class SecurityHeaders:
    """Adds the headers to each answer. Only the script and the styles may be cached."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)


def to_login(request: Request, here: str) -> Response:
    root = request.scope.get("root_path", "")
    return RedirectResponse(link(root, "/login", back=here), status_code=303)


def check_token(token: str | None) -> str | None:
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise WeakToken(len(token), SHORTEST_TOKEN)
    return token


def local_back(path: str) -> str:
    """Where to return to: a path of the dashboard, never another site."""
    is_path = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_path and path.isprintable() else "/"


def fields_of(form: Any) -> dict[str, str]:
    """The fields of a form; the values of one that was sent several times, joined by commas."""
    names = dict.fromkeys(form.keys())
    return {name: ",".join(str(value) for value in form.getlist(name)) for name in names}
