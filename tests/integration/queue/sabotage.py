"""What keeps the queue's promises, taken out: the tests of races must notice."""

from __future__ import annotations

from importlib.resources import files

from milepost import sql
from milepost.db import Connection

GUARDS: dict[str, tuple[str, str, str]] = {
    # name: function, what is taken out, what stands there instead
    "channel lock": ("take_from", "      order by c.name\n      for update of c skip locked\n", ""),
    "count under the lock": ("take_from", "max_concurrency - running.number", "max_concurrency"),
    "set_channel's lock": ("set_channel", "lock table {schema}.channels in exclusive mode;", ""),
    "takers' lock": ("take_from", "perform from {schema}.channels where false for key share;", ""),
    "release time": ("take_from", "set next_release_at = clock_timestamp() + c.release_interval",
                     "set next_release_at = c.next_release_at"),
    "order of locks": ("cancel", "perform {schema}.lock_jobs(cancel.ids);", ""),
    "state that stays": ("defer", "coalesce(asked.state, j.state)", "asked.state"),
    "end of failures": ("fail", "asked.is_final or j.failures + 1 >= j.max_attempts then 'dead'",
                        "asked.is_final then 'dead'"),
    "order of completion": ("complete", "perform {schema}.lock_jobs(complete.ids);", "null;"),
    "token": ("complete", "j.token is not distinct from asked.token and ", ""),
    "durable limits": ("take_from", " and not is_limited", ""),
    "fence": ("complete", " and j.attempt = asked.attempt", ""),
}  # fmt: skip


def take_out(conn: Connection, guard: str) -> None:
    function, text, instead = GUARDS[guard]
    source = (files(sql) / "functions" / f"{function}.sql").read_text("utf-8")
    if text not in source:
        raise ValueError(f"{function} has no {text!r} to take out.")
    conn.execute(sql.render(source.replace(text, instead), sql.DEFAULT_SCHEMA).encode())
