"""A session of the archiver that is killed at one moment, in a process of its own: `URL MOMENT`.

`writing`: the file is not complete. `written`: the file is durable, and the manifest does not know
of it. `committed_first` is what must never be done: the row is committed before the file is
durable, without a look whether the file is there, and the process is killed between the two.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event
from typing import NoReturn

from milepost import Milepost
from milepost.archive import FileSize, range_archiver
from milepost.archive.filing import Filing
from milepost.archive.parquet_file import write
from milepost.archive.plan import Plan, next_file
from milepost.archive.publish import FileName, scratch_file
from milepost.archive.range_archiver import archived_file
from milepost.db import Connection

FILE_BYTES = 1 << 30


def kill_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it is still alive")


class Fatal(Event):
    """Asked between two batches. The second time it kills."""

    def is_set(self) -> bool:
        if self._is_asked:
            kill_myself()
        self._is_asked = True
        return False

    _is_asked = False


def commit_first(conn: Connection, filing: Filing, plan: Plan) -> None:
    vars(range_archiver)["lock_manifest"] = lambda *_: None
    writer = filing._writer(plan, FILE_BYTES)
    with scratch_file(plan.location) as scratch:
        content = write(scratch, writer._batches(plan.after, plan.last))
        name = FileName(plan.after, plan.last, filing.epoch, filing.database)
        place = plan.location
        row = archived_file(plan.after, plan.last, place, str(name), content, epoch=filing.epoch)
        filing.commit(conn, row)
        kill_myself()


def main(url: str, moment: str) -> None:
    mp = Milepost(url)
    with mp.connect() as conn:
        stop = Fatal() if moment == "writing" else Event()
        filing = Filing.begin(conn, mp._runtime, "killed", stop)
        plan = next_file(conn, mp.schema, FileSize(), is_last=True)
        assert plan is not None
        if moment == "committed_first":
            commit_first(conn, filing, plan)
        filing.write(plan, FILE_BYTES)
        kill_myself()


if __name__ == "__main__":
    main(*sys.argv[1:])
