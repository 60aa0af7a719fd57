"""The embedded server for its users: a directory, and a URL when it is started."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from milepost.embedded import binaries, cluster, socket_place
from milepost.embedded.account import Account, account_for_new_data, account_owning
from milepost.embedded.postmaster import Postmaster, Status
from milepost.errors import EmbeddedError


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A PostgreSQL with its data in `directory`, shared by every process that uses this directory.

    It continues to run after the process that started it, until `stop`. `settings` apply if this
    process starts the server; a server that is already running keeps its own. `programs` is the
    directory of an installed PostgreSQL of that version, to use instead of the wheel's.
    """

    directory: Path = Path(".milepost")
    version: int = 18
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    programs: Path | None = None

    def __post_init__(self) -> None:
        # Resolved now: it must stay the same server if the process changes its directory.
        object.__setattr__(self, "directory", Path(self.directory).resolve())

    def start(self) -> str:
        """Start the server if it is not running; returns its URL. A new database is empty."""
        found = cluster.find(self.directory)
        if found is not None:
            cluster.require_version(found, self.version)
        if (url := self.url()) is not None:
            return url
        self._make_directory()
        with self._locked():
            self._start_locked()
        if (url := self.url()) is None:
            raise EmbeddedError(f"the server in {self.directory} was stopped right after its start")
        return url

    def stop(self) -> bool:
        """Shut down cleanly, ending open connections; False if the server was not running."""
        if cluster.find(self.directory) is None:
            return False
        with self._locked():
            postmaster = self._postmaster()
            if postmaster is None or postmaster.status(self.bin("pg_isready")) is Status.STOPPED:
                return False
            postmaster.stop(self._programs_for(postmaster.account) / "pg_ctl")
            return True

    def url(self, database: str = "postgres") -> str | None:
        """Where to connect; None when the server is not running."""
        postmaster = self._postmaster()
        if postmaster is None or postmaster.status(self.bin("pg_isready")) is not Status.READY:
            return None
        found = postmaster.pid_file()
        if found is None or found.socket_directory is None:
            return None
        return socket_place.url(found.socket_directory, database)

    def is_running(self) -> bool:
        """Whether the server accepts connections now."""
        return self.url() is not None

    def bin(self, program: str) -> Path:
        """The path of one of PostgreSQL's programs, such as `pg_dump`, of this version."""
        path = (self.programs or binaries.bundled(self.version)) / program
        if not path.exists():
            raise EmbeddedError(f"PostgreSQL {self.version} in {path.parent} has no {program}")
        return path

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise EmbeddedError(f"cannot create {self.directory}: {exc}") from exc

    def _start_locked(self) -> None:
        postmaster = self._postmaster() or self._create()
        cluster.require_version(postmaster.data, self.version)
        if postmaster.settled(self.bin("pg_isready")) is Status.STOPPED:
            pg_ctl = self._programs_for(postmaster.account) / "pg_ctl"
            postmaster.start(pg_ctl, self.settings)

    def _create(self) -> Postmaster:
        account = account_for_new_data()
        initdb = self._programs_for(account) / "initdb"
        return Postmaster(cluster.create(self.directory, account, initdb), account)

    def _postmaster(self) -> Postmaster | None:
        data = cluster.find(self.directory)
        return None if data is None else Postmaster(data, account_owning(data))

    def _programs_for(self, account: Account) -> Path:
        return self.programs or binaries.runnable_by(account, self.version)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Prevents concurrent creating, starting and stopping by other processes.

        The kernel releases the lock when its holder dies, and the server does not inherit it.
        """
        path = self.directory / "lock"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise EmbeddedError(f"cannot open {path}, the server's lock: {exc}") from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)
