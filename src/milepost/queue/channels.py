"""The policies of channels. A channel without one is unlimited and needs no declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import sql
from milepost.db import translated

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class Policy:
    """What limits a channel, over the whole fleet; None is unlimited."""

    max_concurrency: int | None = None
    release_interval: timedelta | None = None
    max_size: int | None = None
    paused: bool = False


def set_channel(
    conn: Connection, name: str, policy: Policy, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """Set the whole policy of a channel; takes effect at once."""
    parameters = {
        "name": name,
        "max_concurrency": policy.max_concurrency,
        "release_interval": policy.release_interval,
        "max_size": policy.max_size,
        "paused": policy.paused,
    }
    with translated(schema):
        conn.execute(sql.query("queue_set_channel", schema), parameters)


def pause(
    conn: Connection, name: str, *, paused: bool = True, schema: str = sql.DEFAULT_SCHEMA
) -> None:
    """Pause a channel or resume it, whatever else its policy says."""
    with translated(schema):
        conn.execute(sql.query("queue_pause", schema), {"name": name, "paused": paused})


def policies(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> dict[str, Policy]:
    """Of the channels that have one, by name."""
    with translated(schema):
        found = conn.execute(sql.query("queue_policies", schema)).fetchall()
    return {name: Policy(*rest) for name, *rest in found}
