"""What operators do with the log: end a session that holds its horizon back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost import db
from milepost.errors import InvalidField, NotPermitted, SessionNotEnded
from milepost.log.diagnosis import Holder
from milepost.ui.action import Action
from milepost.ui.actions.fields import whole

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields


def end_session(conn: Connection, schema: str, fields: Fields) -> str:
    """Only of a session that holds the horizon now: the number may belong to another one by now."""
    pid = whole(fields, "pid")
    holding = [h.pid for h in db.fetch_records(conn, schema, "diagnosis_holders", Holder)]
    if pid not in holding:
        raise InvalidField("pid", str(pid), "a session that holds the horizon back now")
    try:
        db.fetch_one(conn, schema, "end_session", pid=pid)
    except NotPermitted as error:  # which no `milepost grant` changes
        raise SessionNotEnded(pid, conn.info.user) from error
    return f"Session {pid} was ended. Its transaction is rolled back."


ACTIONS = [
    Action(
        "end-session",
        "End the session",
        end_session,
        confirm="End session {pid}? Its open transaction is rolled back, and its program loses the "
        "connection. Then the horizon moves on.",
        subject_field="pid",
    ),
]
