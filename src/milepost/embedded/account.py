"""The account that the server runs as, and running programs as this account.

PostgreSQL refuses to run as root, so root runs it as an existing account. Accounts are never
created, and the permissions of directories that are not ours are never changed.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from milepost.errors import EmbeddedError

# In this order: `postgres` exists for this purpose, `nobody` exists nearly everywhere.
_UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program as this account; its output, both streams, is in `stdout`.

        The output goes to a file, not a pipe: a server that `pg_ctl` leaves behind would keep
        a pipe open and the caller waiting.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            try:
                code = self._popen(command, output.fileno()).wait()
            except OSError as exc:
                raise EmbeddedError(f"cannot run {command[0]} as uid {self.uid}: {exc}") from exc
            output.seek(0)
            return subprocess.CompletedProcess(command, code, output.read())

    def _popen(self, command: tuple[str | Path, ...], output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",  # the account may not have access to our directory
            env=_environment(),
            user=None if self.is_us else self.uid,
            group=None if self.is_us else self.gid,
            extra_groups=None if self.is_us else [],
        )

    def can_enter(self, directory: Path) -> bool:
        # Tested as the account itself: mode bits do not include ACLs.
        if self.is_us:
            return True
        return self.run("/bin/sh", "-c", 'test -x "$1"', "sh", directory).returncode == 0

    def make_private_directory(self, path: Path) -> None:
        """Create `path` with mode 0700 for this account, or check the existing directory."""
        try:
            path.mkdir(mode=0o700)
            if not self.is_us:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as exc:
            raise EmbeddedError(f"cannot create {path} for uid {self.uid}: {exc}") from exc
        self.require_private(path)

    def require_private(self, path: Path) -> None:
        """Connections need no password: access to this directory is what protects the server."""
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.uid or mode & 0o077:
            raise EmbeddedError(
                f"{path} must be a directory of uid {self.uid} with mode 0700, but is "
                f"{stat.filemode(found.st_mode)} of uid {found.st_uid}: refusing to use it. "
                "If it is yours, correct its owner and mode, or remove it."
            )


def account_for_new_data() -> Account:
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        f"PostgreSQL does not run as root, and none of the accounts {', '.join(_UNPRIVILEGED)} "
        "exists: run as an unprivileged user, or set MILEPOST_URL to your own server"
    )


def account_owning(data: Path) -> Account:
    """The owner of existing data: root can serve the data of any user, others only their own."""
    found = data.stat()
    if found.st_uid == 0 or os.geteuid() not in (0, found.st_uid):
        raise EmbeddedError(
            f"{data} belongs to uid {found.st_uid} and cannot be served by uid {os.geteuid()}: "
            "run as its owner (not root), or use another directory"
        )
    return Account(found.st_uid, found.st_gid)


def _environment() -> dict[str, str]:
    # Nearly empty: PG* variables would change what the programs connect to, and an unprivileged
    # account could read root's secrets from the environment of its server process.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"LC_ALL": "C"}
