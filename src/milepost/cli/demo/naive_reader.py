"""The contrast: a reader that takes every row it can see for the end of the log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.cli.demo.tally import Sighting, Tally
from milepost.records import Position

if TYPE_CHECKING:
    from types import TracebackType

    from milepost.app import Milepost
    from milepost.db import Connection

POLL_SECONDS = 0.01


class NaiveReader(threading.Thread):
    """Reads to max(position) until it is stopped, then once more, so that what it lacks at the
    end is lost and not late."""

    def __init__(self, mp: Milepost) -> None:
        super().__init__(daemon=True)  # a server that hangs must not keep the demo from ending
        self._mp = mp
        self._after = Position.BEGINNING
        self._tally = Tally()
        self._stopping = threading.Event()
        self._failure: Exception | None = None

    def __enter__(self) -> NaiveReader:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()

    def finish(self) -> Tally:
        self._stopping.set()
        self.join()
        if self._failure is not None:
            raise self._failure
        return self._tally

    def run(self) -> None:
        try:
            with self._mp.connect() as conn:
                while not self._stopping.wait(POLL_SECONDS):
                    self._read(conn)
                self._read(conn)
        except Exception as failure:  # noqa: BLE001 - it is raised by finish(), in the main thread
            self._failure = failure

    def _read(self, conn: Connection) -> None:
        parameters = {
            "transaction_id": self._after.transaction_id,
            "position": self._after.position,
        }
        query = sql.query("demo_naive_read", self._mp.schema)
        for row in conn.execute(query, parameters):
            sighting = _sighting(*row)
            self._tally.see(sighting)
            self._after = sighting.position


def _sighting(id_: Any, transaction_id: int, position: int, data: Any) -> Sighting:
    return Sighting(
        id_, Position(transaction_id, position), data["writer"], data["number"], data["is_kept"]
    )
