"""The server process: its status, starting it, stopping it.

`postmaster.pid` alone is not reliable: after a kill or a reboot it names a process that has ended,
or another program. The process that answers on the socket in a private directory is the server.
"""

from __future__ import annotations

import enum
import os
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from milepost.embedded import socket_place
from milepost.embedded.account import Account
from milepost.errors import EmbeddedError

_DEFAULTS: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Long, because crash recovery replays up to max_wal_size; the default of pg_ctl is a minute.
_WAIT_SECONDS = 600
# After the postmaster was killed its children end by themselves, but not immediately.
_ORPHANS_SECONDS = 30
_ORPHANS_REMAIN = "pre-existing shared memory block"
_POLL_SECONDS = 0.05
_LOG_LINES = 20


class Status(enum.Enum):
    STOPPED = enum.auto()
    BUSY = enum.auto()  # starting, recovering or stopping
    READY = enum.auto()


@dataclass(frozen=True, slots=True)
class PidFile:
    pid: int
    socket_directory: Path | None


@dataclass(frozen=True, slots=True)
class Postmaster:
    data: Path
    account: Account

    @property
    def log(self) -> Path:
        # In the data directory, because the account can always write there.
        return self.data / "postgres.log"

    def status(self, pg_isready: Path) -> Status:
        found = self.pid_file()
        if found is None:
            return Status.STOPPED
        if found.socket_directory is not None and found.socket_directory.exists():
            # A stale file may name a directory under /tmp that another user has created since.
            self.account.require_private(found.socket_directory)
            answer = _ask(pg_isready, found.socket_directory)
            if answer is not Status.STOPPED:
                return answer
        return Status.BUSY if self._is_alive(found.pid) else Status.STOPPED

    def settled(self, pg_isready: Path) -> Status:
        """The status, once the server has finished starting or stopping."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while (status := self.status(pg_isready)) is Status.BUSY:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"the server in {self.data} runs but does not answer on its socket; stop it "
                    f"and start it again. Its log, {self.log}, ends with:\n{self._log_end()}"
                )
            time.sleep(_POLL_SECONDS)
        return status

    def start(self, pg_ctl: Path, settings: Mapping[str, str]) -> None:
        """Start the server and wait until it is ready. The caller holds the directory's lock."""
        self.account.require_private(self.data)
        directory = socket_place.directory_for(self.data, self.account)
        self._remove_recycled(self.data / "postmaster.pid")
        self._remove_recycled(socket_place.lock_file(directory))
        options = _options(directory, settings)
        deadline = time.monotonic() + _ORPHANS_SECONDS
        while (failure := self._try_start(pg_ctl, options)) is not None:
            if _ORPHANS_REMAIN not in failure or time.monotonic() > deadline:
                raise EmbeddedError(f"the server in {self.data} did not start: {failure}")
            time.sleep(_POLL_SECONDS)

    def stop(self, pg_ctl: Path) -> None:
        found = self.pid_file()
        done = self._run(pg_ctl, "stop", "--mode=fast")
        if done.returncode:
            raise EmbeddedError(f"the server in {self.data} did not stop: {done.stdout.strip()}")
        directory = None if found is None else found.socket_directory
        if directory is not None and directory != self.data:
            with suppress(OSError):  # it stays if it has other files
                directory.rmdir()

    def pid_file(self) -> PidFile | None:
        try:
            lines = os.fsdecode((self.data / "postmaster.pid").read_bytes()).split("\n")
        except FileNotFoundError:
            return None
        except PermissionError as exc:
            raise EmbeddedError(f"{self.data} belongs to another account: {exc}") from exc
        if not lines[0]:
            return None
        # The fifth line is the socket's directory; it is written shortly after the first.
        directory = Path(lines[4]) if len(lines) > 4 and lines[4] else None
        return PidFile(abs(int(lines[0])), directory)

    def _try_start(self, pg_ctl: Path, options: str) -> str | None:
        """None, or why the server did not start."""
        logged = self.log.stat().st_size if self.log.exists() else 0
        done = self._run(pg_ctl, "start", "-l", self.log, "-o", options)
        if done.returncode == 0:
            return None
        return f"{done.stdout.strip()}\n{self.log} ends with:\n{self._log_end(logged)}"

    def _run(self, pg_ctl: Path, *arguments: str | Path) -> CompletedProcess[str]:
        wait = f"--timeout={_WAIT_SECONDS}"
        return self.account.run(pg_ctl, *arguments, "--wait", wait, "-D", self.data)

    def _log_end(self, start: int = 0) -> str:
        if not self.log.exists():
            return "(nothing)"
        with self.log.open("rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:])

    def _is_alive(self, pid: int) -> bool | None:
        """Whether this process is a server of this data; None if the system does not say."""
        if not Path("/proc/self/cwd").exists():
            return None
        try:
            # A PostgreSQL process has its data directory as working directory; a zombie has none.
            return Path(f"/proc/{pid}/cwd").samefile(self.data)
        except FileNotFoundError:
            return False
        except PermissionError:
            return None

    def _remove_recycled(self, lock_file: Path) -> None:
        # PostgreSQL assumes that the process with the pid in its lock files is a server, if it has
        # the same account, and does not start until that process ends. It may be another program
        # that got the pid after a reboot, or a zombie. Without the file PostgreSQL still checks for
        # processes attached to its shared memory, so it detects the children of a killed server.
        try:
            pid = abs(int(lock_file.read_bytes().split(b"\n", 1)[0]))
        except (FileNotFoundError, ValueError):
            return
        if Path(f"/proc/{pid}").exists() and self._is_alive(pid) is False:
            lock_file.unlink()


def _ask(pg_isready: Path, directory: Path) -> Status:
    # With our own account: the question is whether we can connect.
    us = Account(os.geteuid(), os.getegid())
    place = ("-h", directory, "-p", str(socket_place.PORT), "-U", "postgres", "-d", "postgres")
    code = us.run(pg_isready, "--timeout=10", *place).returncode
    return {0: Status.READY, 1: Status.BUSY}.get(code, Status.STOPPED)


def _options(directory: Path, settings: Mapping[str, str]) -> str:
    """The server's command line. fsync, full_page_writes, synchronous_commit: on by default."""
    # Settings that protect the server or that our URL depends on cannot be changed.
    ours = {
        "listen_addresses": "",
        "port": str(socket_place.PORT),
        "unix_socket_directories": '"{}"'.format(str(directory).replace('"', '""')),
        "unix_socket_permissions": "0700",
    }
    fixed = sorted(ours.keys() & {name.lower() for name in settings})
    if fixed:
        raise EmbeddedError(f"the embedded server does not allow setting {', '.join(fixed)}")
    merged = {**_DEFAULTS, **settings, **ours}
    return shlex.join(part for name, value in merged.items() for part in ("-c", f"{name}={value}"))
