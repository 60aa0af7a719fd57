"""The ASGI application: routes, and what each kind of request does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, unquote

import psycopg
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from milepost import db, health
from milepost.errors import MilepostError
from milepost.runtime import naming_loss
from milepost.ui import pages
from milepost.ui.actions import ACTIONS
from milepost.ui.broadcast import Broadcast
from milepost.ui.drawn.error_pages import not_found, refused, reported, unreachable
from milepost.ui.drawn.page import NotFound, Page, PageFunction, View
from milepost.ui.drawn.render import (
    CSRF_PLACEHOLDER,
    Place,
    Rendering,
    environment,
    link,
    render,
)
from milepost.ui.observed import snapshot
from milepost.ui.observed.board import Board, patiently
from milepost.ui.observed.checkup import Checkup
from milepost.ui.observed.history import History
from milepost.ui.observed.sampler import Sampler
from milepost.ui.routes import PageRoute, above, here_of
from milepost.ui.security import (
    CSRF,
    NOTICE,
    Access,
    Authorize,
    FormTokens,
    SecurityHeaders,
    Signer,
    check_token,
    fields_of,
    is_loopback,
    is_same_origin,
    local_back,
    set_cookie,
    to_login,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from milepost.db import Connection
    from milepost.health import Report
    from milepost.ui.action import Action
    from milepost.ui.rebuilds import Rebuilds

_NOTICE_SECONDS = 60
_NOTICE_BYTES = 900  # a browser keeps cookies of 4,096, and each may take four there
_OWN_FIELDS = ("csrf", "back", "confirmed")


class Log(Protocol):
    """What the dashboard needs of a `Milepost`, which is above it."""

    @property
    def schema(self) -> str: ...
    def connect(self) -> AbstractContextManager[Connection]: ...


def dashboard(
    mp: Log,
    *,
    authorize: Authorize | None = None,
    read_only: bool = False,
    token: str | None = None,
    listens_on: str | None = None,
    rebuilds: Rebuilds | None = None,
) -> Dashboard:
    """The dashboard of a log. `authorize(request)` returns the name of the user, or None to refuse.
    With a `token`, a page asks for it. With neither, only this machine is served; if `listens_on`
    says that others reach it, it is read-only. With `rebuilds`, pipelines are rebuilt from their
    pages."""
    has_login = authorize is not None or token is not None
    is_open = not has_login and listens_on is not None and not is_loopback(listens_on)
    access = Access(
        Signer.of(check_token(token)),
        authorize,
        token if authorize is None else None,
        is_read_only=read_only or is_open,
        is_local_only=not has_login and not is_open,
    )
    return Dashboard(mp, access, rebuilds)


class Dashboard:
    """An ASGI application, to be served or mounted. `close` ends its streams and connections."""

    def __init__(self, mp: Log, access: Access, rebuilds: Rebuilds | None = None) -> None:
        self.access = access
        self._mp = mp
        self._forms = FormTokens(access.signer)
        self._rebuilds = rebuilds
        more = [] if rebuilds is None else [rebuilds.action]
        self._actions = {action.name: action for action in (*ACTIONS, *more)}
        self._pages = [PageRoute.of(path, function) for path, function in pages.ROUTES]
        self.board = Board(mp.connect, mp.schema)
        self.history = History()
        self.checkup = Checkup(self._examine)
        self.broadcast = Broadcast()
        self._sampler = Sampler(self.board, self.history, lambda: self.broadcast.is_watched)
        self._app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(SecurityHeaders)],
            exception_handlers={
                NotFound: not_found,
                MilepostError: refused,
                psycopg.OperationalError: unreachable,
                psycopg.Error: reported,
                404: not_found,
            },
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._sampler.start()
        await self._app(scope, receive, send)

    def prepare(self) -> None:
        """Read the templates and look for the first time, so that the first page is quick."""
        for name in environment().list_templates():
            environment().get_template(name)
        snapshot.take(self.board)

    def close(self) -> None:
        """Ends the streams, so that the server can stop. Safe to repeat."""
        self.broadcast.close()
        self.board.pace.end()
        self._sampler.close()
        self.checkup.close()
        self.board.close()

    def _routes(self) -> list[Route | Mount]:
        return [
            Mount("/static", StaticFiles(packages=[("milepost.ui", "static")])),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route("/actions/{name}", self._act, methods=["POST"]),
            *(Route(page.path, self._show) for page in self._pages),
        ]

    def _examine(self) -> Report:
        """The checks of the doctor, within the same number of queries a second as the pages."""
        with self._mp.connect() as conn, db.acting(conn, "metrics"):
            return health.examine(self.board.pace.keep(conn, is_patient=True), self._mp.schema)

    async def _metrics(self, request: Request) -> Response:
        """For Prometheus, which logs in by `Authorization: Bearer`."""
        if await self.access.who(request) is None:
            return PlainTextResponse("Send the token as Authorization: Bearer.", 401)
        accept = request.headers.get("accept", "")
        body, content_type = await run_in_threadpool(self._exported, accept)
        return Response(body, media_type=content_type)

    def _exported(self, accept: str) -> tuple[bytes, str]:
        from milepost.observe.prometheus import encode  # an extra

        return encode(lambda: snapshot.take(self.board), accept)

    async def _show(self, request: Request) -> Response:
        who = await self.access.who(request)
        if who is None:
            return self._refuse(request)
        here, place = here_of(request), self._place(request)
        notice = self.access.signer.unseal("notice", request.cookies.get(NOTICE, ""))
        function, view = self._view(here)
        try:
            page, parts = await run_in_threadpool(_rendered, function, view, Rendering(place))
        except NotFound:
            if notice is None:
                raise
            return RedirectResponse(place.root + above(here), 303)  # the action has removed it
        context = {
            "title": page.title,
            "section": page.section,
            "parts": parts,
            "events": link(place.root, "/events") + "?view=" + quote(here, safe=""),
            "notice": json.loads(notice) if notice else None,
            "sections": pages.SECTIONS,
            "who": who,
        }
        response = self._html(request, "layout.html", place, context)
        if notice is not None:
            response.delete_cookie(NOTICE, path=place.root or "/")
        return response

    async def _events(self, request: Request) -> Response:
        if await self.access.who(request) is None:
            return PlainTextResponse("Log in again.", 403)
        here = local_back(request.query_params.get("view", "/"))
        place = Place(request.scope.get("root_path", ""), here, self.access.is_read_only)
        function, view = self._view(here)
        rendering = Rendering(place)
        token = self._forms.token(self._forms.cookie_of(request))

        def render_later() -> Any:
            with patiently():
                return _rendered(function, view, rendering)[1]

        stream = self.broadcast.stream(place, render_later)
        return StreamingResponse(
            (event.replace(CSRF_PLACEHOLDER, token) async for event in stream),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _act(self, request: Request) -> Response:
        who = await self.access.who(request)
        if who is None:
            return self._refuse(request)
        if self.access.is_read_only:
            return PlainTextResponse("The dashboard is read-only: nothing was changed.", 403)
        fields = fields_of(await request.form())
        if not self._forms.is_valid(request, fields.get("csrf", "")):
            return PlainTextResponse(
                "The form is not from this dashboard, or too old: nothing was changed. "
                "Open the page again and repeat the action.",
                403,
            )
        action = self._actions.get(request.path_params["name"])
        if action is None:
            raise NotFound(f"There is no action {request.path_params['name']!r}.")
        back = local_back(fields.get("back", "/"))
        arguments = {name: value for name, value in fields.items() if name not in _OWN_FIELDS}
        if action.confirm is not None and fields.get("confirmed") != "yes":
            return self._confirm(request, action, arguments, back)
        notice = await run_in_threadpool(self._perform, action, who, arguments)
        return self._back(request, back, notice)

    def _perform(self, action: Action, who: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """What is refused is shown on the page that the action came from."""
        try:
            with naming_loss(), self._mp.connect() as conn, db.acting(conn, "operate"):
                said, is_done = action.perform(conn, self._mp.schema, who, fields), True
        except (MilepostError, ValueError) as error:
            said, is_done = " ".join(str(error).split()), False
        finally:
            self.board.forget()
        return {"text": _shortened(said), "ok": is_done}

    def _confirm(
        self, request: Request, action: Action, fields: Mapping[str, str], back: str
    ) -> Response:
        place = Place(request.scope.get("root_path", ""), back)
        context = {
            "title": action.label,
            "question": action.question(fields),
            "action": action,
            "fields": fields,
        }
        return self._html(request, "confirm.html", place, context)

    def _back(self, request: Request, back: str, notice: dict[str, Any]) -> Response:
        response = RedirectResponse(request.scope.get("root_path", "") + back, status_code=303)
        sealed = self.access.signer.seal("notice", json.dumps(notice))
        set_cookie(request, response, NOTICE, sealed, _NOTICE_SECONDS)
        return response

    async def _login(self, request: Request) -> Response:
        back = local_back(request.query_params.get("back", "/"))
        root = request.scope.get("root_path", "")
        if self.access.token is None:
            return RedirectResponse(root + back, status_code=303)
        if request.method == "GET":
            return self._login_page(request, back, "")
        given = fields_of(await request.form()).get("token", "")
        if (seconds := self.access.logins.wait_seconds(request)) > 0:
            text = f"The last token was wrong: wait {ceil(seconds)} s, then try again."
            return self._login_page(request, back, text, 429)
        if not is_same_origin(request) or not self.access.is_token(given):
            self.access.logins.failed(request)
            return self._login_page(request, back, "This is not the token.", 403)
        self.access.logins.succeeded(request)
        response = RedirectResponse(root + back, status_code=303)
        self.access.start_session(request, response, time.time())
        return response

    def _login_page(
        self, request: Request, back: str, error: str, status_code: int = 200
    ) -> Response:
        place = Place(request.scope.get("root_path", ""), back)
        context = {"title": "Log in", "error": error}
        return self._html(request, "login.html", place, context, status_code)

    def _refuse(self, request: Request) -> Response:
        if self.access.token is not None:
            return to_login(request, here_of(request) if request.method == "GET" else "/")
        if self.access.authorize is not None:
            return PlainTextResponse("You may not see this dashboard.", 403)
        return PlainTextResponse(
            "This dashboard has no login, so it serves only this machine, as http://localhost, and "
            "nothing that a proxy passes on. To serve others, or behind a proxy, a token is "
            "needed: set MILEPOST_UI_TOKEN, or pass authorize= or token= to mp.dashboard.",
            403,
        )

    def _html(
        self,
        request: Request,
        template: str,
        place: Place,
        context: Mapping[str, Any],
        status_code: int = 200,
    ) -> Response:
        """With the token of this browser in the forms."""
        cookie = self._forms.cookie_of(request)
        html = render(template, place, context)
        html = html.replace(CSRF_PLACEHOLDER, self._forms.token(cookie))
        response = HTMLResponse(html, status_code)
        if cookie != request.cookies.get(CSRF):
            set_cookie(request, response, CSRF, cookie)
        return response

    def _place(self, request: Request) -> Place:
        root = request.scope.get("root_path", "")
        return Place(root, here_of(request), self.access.is_read_only)

    def _view(self, here: str) -> tuple[PageFunction, View]:
        """The page that a path and query name, and what its function is given."""
        path, _, query = here.partition("?")
        for page in self._pages:
            if (parameters := page.match(unquote(path))) is not None:
                given = dict(parse_qsl(query))
                return page.function, View(
                    parameters, given, self.board, self.history, self.checkup,
                    self.access.is_read_only, self._rebuilds,
                )  # fmt: skip
        raise NotFound(f"There is no page {path!r}.")


def _shortened(text: str) -> str:
    """What a cookie has room for, however its characters are written there."""
    kept = text.encode()[:_NOTICE_BYTES].decode(errors="ignore")
    return text if kept == text else f"{kept}…"


def _rendered(function: PageFunction, view: View, rendering: Rendering) -> tuple[Page, Any]:
    page = function(view)
    return page, rendering.update(page)
