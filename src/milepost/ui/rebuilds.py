"""Rebuilds that are started from a page: the command, in a process of its own.

A rebuild needs the application's code and a Spark driver, and takes long. So it does not run in the
dashboard's process, and goes on when that ends. Its progress is in the database, as that of any
rebuild; its output goes where that of the dashboard goes.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING

from milepost.errors import RebuildRuns
from milepost.pipeline import admin
from milepost.ui.action import Action
from milepost.ui.actions.fields import text

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields


log = logging.getLogger("milepost.ui")


@dataclass(frozen=True, slots=True)
class Rebuilds:
    """`app`: where the application is, as in shop:mp."""

    app: str
    url: str = field(repr=False)
    # The last process of each pipeline.
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)  # two clicks start one process

    @property
    def action(self) -> Action:
        # Not in a transaction: the process must not wait for what this one holds.
        return Action(
            "rebuild-pipeline",
            "Rebuild",
            self._run,
            confirm="Fill a new version of {name} from the whole log, and show it when it has "
            "caught up? The version that is shown keeps running.",
            in_transaction=False,
        )

    def outcome(self, name: str) -> str | None:
        """What became of the one that was started last, unless it has ended well: then its version
        says so."""
        process = self._processes.get(name)
        code = None if process is None else process.poll()
        if process is None or code == 0:
            return None
        if code is None:
            return f"Process {process.pid} of this dashboard's machine is at it."
        return (
            f"The rebuild that was started here has ended with exit code {code}. What it said is "
            "in the output of this dashboard's process. What it has filled is kept."
        )

    def _run(self, conn: Connection, schema: str, fields: Fields) -> str:
        name = text(fields, "name")
        admin.find(conn, schema, name)
        with self._lock:
            process = self._processes.get(name)
            if process is not None and process.poll() is None:
                raise RebuildRuns(name, process.pid)
            process = self._processes[name] = self._start(name)
        return f"The rebuild of {name} has begun, in process {process.pid}. It is shown here soon."

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "milepost.cli", "pipelines", "rebuild", name, self.app]
        # With a session of its own: a Ctrl-C is for the dashboard.
        process = subprocess.Popen(
            command,
            env=os.environ | {"MILEPOST_URL": self.url},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        Thread(target=_await, args=(name, process), daemon=True).start()
        return process


def _await(name: str, process: subprocess.Popen[bytes]) -> None:
    """Until it ends, so that no zombie is left."""
    if code := process.wait():
        log.error("rebuild=%s process=%s ended with exit code %s", name, process.pid, code)
