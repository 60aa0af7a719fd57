"""The connections that Django opens in the threads of handlers."""

from __future__ import annotations

from django.db import connections


def close_unused() -> None:
    """As Django does around a request: what is older than CONN_MAX_AGE, or broken. Not what is in a
    transaction, as the connection of a `TestCase` is."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
