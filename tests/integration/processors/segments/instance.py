"""An instance in a process of its own, to be killed, or with a wrong clock.

Run as `python -m tests.integration.processors.segments.instance URL CLAIM_SECONDS HOURS`. Every
reading of its wall clock is off by so many hours.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[4]
NAME, SEGMENTS = "shared", 8
_datetime, _now, _time = datetime.datetime, datetime.datetime.now, time.time


class Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _datetime)


class SkewedDatetime(datetime.datetime, metaclass=Kind):
    offset = datetime.timedelta()

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> SkewedDatetime:
        return cls.combine((wrong := _now(tz) + cls.offset).date(), wrong.timetz())


@contextmanager
def started(
    url: str, claim_seconds: float = 10.0, hours: float = 0.0
) -> Iterator[subprocess.Popen[bytes]]:
    """It is killed at the end if it still runs."""
    command = [sys.executable, "-m", __name__, url, str(claim_seconds), str(hours)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def main(url: str, claim_seconds: str, hours: str) -> None:
    SkewedDatetime.offset = datetime.timedelta(hours=float(hours))
    datetime.datetime = SkewedDatetime  # type: ignore[misc]  # before anybody else imports it
    time.time = lambda: _time() + SkewedDatetime.offset.total_seconds()
    from milepost import Milepost
    from tests.integration.processors.running import leave_all

    mp = Milepost(url)
    mp.processor(NAME, segments=SEGMENTS, claim_seconds=float(claim_seconds), poll_seconds=0.2)(
        leave_all
    )
    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
