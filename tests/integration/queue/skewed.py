"""A worker whose clock is wrong: `python -m tests.integration.queue.skewed HOURS`.

Every reading of this process's wall clock is off by so many hours. It puts a job with a delay,
keeps a schedule, and works until it has done both, at the same time. Its jobs are its own. Each is
at work until its lock was extended: the lock is long, so that a busy machine does not lose it.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time

LOCK_SECONDS = 30.0
BEATS_PER_LOCK = 120
LOCKED_UNTIL = "select extract(epoch from locked_until)::float8 from milepost.jobs where id = %s"
OFFSET = datetime.timedelta(hours=float(sys.argv[1]))
_datetime, _now, _time = datetime.datetime, datetime.datetime.now, time.time


class Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _datetime)


class SkewedDatetime(datetime.datetime, metaclass=Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> SkewedDatetime:
        return cls.combine((wrong := _now(tz) + OFFSET).date(), wrong.timetz())


def main() -> None:
    datetime.datetime = SkewedDatetime  # type: ignore[misc]  # before anybody else imports it
    time.time = lambda: _time() + OFFSET.total_seconds()
    from milepost import Job, Milepost, Repeat, TakenJob, put
    from milepost.db import one
    from milepost.queue.worker import heartbeats
    from tests.waiting import wait_until

    heartbeats.BEATS_PER_LOCK = BEATS_PER_LOCK
    mp = Milepost()
    channel, late, tick = (f"{word}{sys.argv[1]}" for word in ("skewed", "late", "tick"))
    begun: set[str] = set()
    done: set[str] = set()

    @mp.worker(channel, lock=LOCK_SECONDS, poll_seconds=0.2)
    def work(job: TakenJob) -> None:
        if job.content in begun:  # a later tick
            return
        begun.add(job.content)
        with mp.connect() as conn:

            def locked_until() -> float:
                return float(one(conn.execute(LOCKED_UNTIL, [job.id]).fetchone())[0])

            first = locked_until()
            wait_until(lambda: locked_until() > first + 1)
        done.add(job.content)
        if done == {late, tick}:
            os.kill(os.getpid(), signal.SIGTERM)

    mp.schedule(tick, Repeat(datetime.timedelta(seconds=1)), Job(channel, tick))
    with mp.connect() as conn:
        put(conn, Job(channel, late, run_at=datetime.timedelta(seconds=1)))
    mp.run()


if __name__ == "__main__":
    main()
