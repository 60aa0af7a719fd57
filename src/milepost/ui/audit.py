"""The record of what operators did in the dashboard: who, what, when. No content of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from milepost import db

if TYPE_CHECKING:
    from milepost.db import Connection

LONGEST_WHO = 200  # characters: a name that an `authorize` of the user's returns


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    at: datetime
    who: str
    action: str
    subject: str
    arguments: dict[str, Any]


def record(
    conn: Connection,
    schema: str,
    who: str,
    action: str,
    subject: str,
    arguments: Mapping[str, str],
) -> int:
    """In the caller's transaction, if there is one: the record commits with what it is about."""
    facts = {"who": _storable(who)[:LONGEST_WHO], "action": action, "subject": _storable(subject)}
    stored = Jsonb({_storable(name): _storable(value) for name, value in arguments.items()})
    return int(db.fetch_one(conn, schema, "audit_record", **facts, arguments=stored)[0])


def list_audit(
    conn: Connection,
    schema: str,
    limit: int = 100,
    *,
    before: int | None = None,
    subject: str | None = None,
) -> list[AuditEntry]:
    """The newest first; with `before`, those that are older than that one."""
    parameters = {"limit": limit, "before": before, "subject": subject}
    return db.fetch_records(conn, schema, "audit_list", AuditEntry, **parameters)


def _storable(text: str) -> str:
    """PostgreSQL has no NUL, and a form may contain one."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
