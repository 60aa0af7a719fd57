"""What the application and its tests both know. Not in the application: where a test imports that,
an embedded server is started, because no database is named."""

from __future__ import annotations

GATE = 4711  # an advisory lock: who holds it holds the handler
SECRET = "number-of-a-card"  # noqa: S105 - what no answer may contain
