"""The data directory: at `<directory>/postgres`, created completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from milepost.embedded.account import Account
from milepost.embedded.shelter import shelter
from milepost.errors import EmbeddedError

# No password, which would have to be stored: the 0700 directory of the socket protects the server.
# TCP is rejected here too, in case the server is made to listen.
_INITDB = (
    "--username=postgres",
    "--encoding=UTF8",
    "--no-locale",
    "--auth-local=trust",
    "--auth-host=reject",
    "--data-checksums",
)
# pg_ctl puts the path into a shell command, in double quotes.
_UNQUOTABLE = frozenset('"$`\\\n')


def find(directory: Path) -> Path | None:
    place = directory / "postgres"
    try:
        if place.exists():
            return place.resolve()
        if not place.is_symlink():
            return None
    except PermissionError as exc:
        raise EmbeddedError(f"{directory} cannot be entered: {exc}") from exc
    raise EmbeddedError(
        f"{place} is a link to {place.readlink()}, which does not exist: restore it, or remove "
        f"{place} to start with an empty database"
    )


def create(directory: Path, account: Account, initdb: Path) -> Path:
    """Create a new cluster. The caller holds the directory's lock.

    A killed initdb leaves a directory that looks like a cluster but is not complete. So initdb uses
    another name, and the cluster is renamed when it is complete.
    """
    if _UNQUOTABLE & set(str(directory)):
        raise EmbeddedError(f"the path {directory} must not contain quotes, $, ` or \\")
    place = directory / "postgres"
    if account.can_enter(directory):
        fresh = directory / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)  # left by a killed process
        _initialize(fresh, account, initdb)
        _publish(place, lambda: fresh.rename(place))
    else:
        fresh = shelter() / f"data-{secrets.token_hex(8)}"
        _initialize(fresh, account, initdb)
        _publish(place, lambda: place.symlink_to(fresh))
    return place.resolve()


def require_version(data: Path, version: int) -> None:
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except OSError as exc:
        raise EmbeddedError(
            f"{data} is not a readable PostgreSQL data directory ({exc}): move it away"
        ) from exc
    if found != str(version):
        raise EmbeddedError(
            f"{data} was created by PostgreSQL {found}, which {version} cannot read: open it with "
            f"version {found}, or dump it with that version's pg_dump and restore the dump into "
            f"a new directory with version {version}"
        )


def _initialize(fresh: Path, account: Account, initdb: Path) -> None:
    account.make_private_directory(fresh)
    with ExitStack() as unless_complete:
        unless_complete.callback(shutil.rmtree, fresh, ignore_errors=True)
        done = account.run(initdb, *_INITDB, "-D", fresh)
        if done.returncode != 0:
            raise EmbeddedError(f"cannot create a database in {fresh}: {done.stdout.strip()}")
        unless_complete.pop_all()


def _publish(place: Path, give_name: Callable[[], object]) -> None:
    # The name must be on disk before the first commit. If a power failure removed the name, the
    # data would be lost: data without its name counts as left by a killed process.
    give_name()
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
