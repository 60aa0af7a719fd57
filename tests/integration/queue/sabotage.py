"""What keeps the queue's promises, taken out: the tests of races must notice."""

from __future__ import annotations

from milepost.db import Connection
from tests.sabotage import replace_in

FENCE = """(j.id, j.attempt, coalesce(j.token, -1)) in (
        select a.id, a.attempt, coalesce(a.token, -1)"""
GUARDS: dict[str, tuple[str, str, str]] = {
    # name: function, what is taken out, what stands there instead
    "channel lock": ("take_from", "      order by c.name\n      for update of c skip locked\n", ""),
    "family lock": ("take_from", "        order by f.name\n        for update of f skip locked\n",
                    ""),
    "rate spent": ("take_from", "perform {schema}.spend_rates(metered, mark);", "null;"),
    "count under the lock": ("take_from", "max_concurrency - running.number", "max_concurrency"),
    "set_channel's lock": ("set_channel", "lock table {schema}.channels in exclusive mode;", ""),
    "takers' lock": ("take_from", "perform from {schema}.channels where false for key share;", ""),
    "release time": ("take_from", "set next_release_at = clock_timestamp() + p.release_interval",
                     "set next_release_at = c.next_release_at"),
    "awaited begin": ("take_from", " and newest.is_begin_awaited is not true", ""),
    "suspects alone": ("take_from", "j.crashes >= 2 as is_suspect", "false as is_suspect"),
    "dead in the bound": ("refuse_full", "array['dead']", "array[]"),
    "order of locks": ("cancel", "perform {schema}.lock_jobs(cancel.ids);", ""),
    "state that stays": ("defer", "coalesce(asked.state, j.state)", "asked.state"),
    "end of failures": ("fail", "asked.is_final or j.failures + 1 >= j.max_attempts then 'dead'",
                        "asked.is_final then 'dead'"),
    "order of completion": ("complete", "perform {schema}.lock_jobs(complete.ids);", "null;"),
    "token": ("complete", FENCE, FENCE.replace("j.token", "null").replace("a.token", "null")),
    "durable limits": ("take_from", " and not is_limited", ""),
    "tick's fence": ("tick_schedule", " and s.next_at = tick_schedule.due_at\n", "\n"),
    "tick's lock": ("tick_schedule", "\n  for update skip locked;", ";"),
    "times of a registered schedule": (
        "register_schedule", "o.is_same then s.next_at", "false then s.next_at"),
    "lock of what is waited for": ("link_followers", "    for update skip locked\n", ""),
    "lock of the one that waits": (
        "tend_followers", "    order by j.id\n    for update skip locked\n", "    order by j.id\n"),
    "key of completed jobs": (
        "put_conditionally", " or status = 'done' and unique_for is not null", ""),
    "fence": ("complete", FENCE, FENCE.replace("j.attempt", "0").replace("a.attempt", "0")),
}  # fmt: skip


def take_out(conn: Connection, guard: str) -> None:
    replace_in(conn, *GUARDS[guard])
