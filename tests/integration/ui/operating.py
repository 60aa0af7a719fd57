"""An operator: a client of the dashboard that fills in its forms."""

from __future__ import annotations

import html
import re
import warnings
from dataclasses import dataclass
from typing import LiteralString

from starlette.applications import Starlette
from starlette.routing import Mount

from milepost.db import Connection
from milepost.ui import Dashboard
from milepost.ui.audit import AuditEntry, list_audit
from milepost.ui.security import CSRF, FormTokens

with warnings.catch_warnings():  # it recommends a successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient as TestClient

_NOTICE = re.compile(r'<p class="notice (good|bad)" role="status">(.*?)</p>', re.DOTALL)


@dataclass
class Operator:
    dashboard: Dashboard
    conn: Connection

    def __post_init__(self) -> None:
        self.client = TestClient(
            self.dashboard, base_url="http://localhost", client=("127.0.0.1", 50000)
        )

    def mounted(self, prefix: str) -> TestClient:
        """A client of an application in which the dashboard is mounted."""
        app = Starlette(routes=[Mount(prefix, self.dashboard)])
        return TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50000))

    def get(self, path: str) -> str:
        """The page."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def act(self, action: str, **fields: object) -> str:
        """Send a form that is confirmed; what is said afterwards."""
        given = {name: str(value) for name, value in fields.items()}
        given |= {"csrf": self.token(), "back": "/audit", "confirmed": "yes"}
        answer = self.client.post(f"/actions/{action}", data=given)
        assert answer.status_code == 200, answer.text
        self.notice_cookie = answer.history[0].headers["set-cookie"].partition(";")[0]
        (kind, text) = found(_NOTICE, answer.text)
        self.succeeded = kind == "good"
        return html.unescape(text)

    def done(self, action: str, **fields: object) -> str:
        """As `act`, of what must succeed and be recorded."""
        said = self.act(action, **fields)
        assert self.succeeded, said
        newest = self.audit()[0]
        recorded = {name: str(value) for name, value in fields.items()}
        assert (newest.who, newest.action, newest.arguments) == ("local", action, recorded)
        return said

    def refused(self, action: str, **fields: object) -> str:
        """As `act`, of what must be refused, and leave no record."""
        before = self.audit()
        said = self.act(action, **fields)
        assert not self.succeeded, said
        assert self.audit() == before
        return said

    def token(self) -> str:
        if CSRF not in self.client.cookies:
            self.client.get("/audit")
        return FormTokens(self.dashboard.access.signer).token(self.client.cookies[CSRF])

    def audit(self) -> list[AuditEntry]:
        return list_audit(self.conn, "milepost", 100)

    def value(self, statement: LiteralString, *parameters: object) -> object:
        row = self.conn.execute(statement, parameters).fetchone()
        return None if row is None else row[0]


def found(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    match = pattern.search(text)
    assert match is not None, text
    return match[1], match[2]
