"""The data directory: found at `<directory>/postgres`, created there whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from milepost.embedded.account import Account
from milepost.embedded.shelter import shelter
from milepost.errors import EmbeddedError

# A password would have to be kept somewhere; the 0700 directory around the socket is the lock.
# TCP is rejected a second time here, should anyone make the server listen.
_INITDB = (
    "--username=postgres",
    "--encoding=UTF8",
    "--no-locale",
    "--auth-local=trust",
    "--auth-host=reject",
    "--data-checksums",
)
# pg_ctl puts the path between double quotes of a shell command.
_UNQUOTABLE = frozenset('"$`\\\n')


def find(directory: Path) -> Path | None:
    try:
        return _find(directory / "postgres")
    except PermissionError as exc:
        raise EmbeddedError(f"{directory} cannot be entered: {exc}") from exc


def _find(place: Path) -> Path | None:
    if place.is_symlink() and not place.exists():
        raise EmbeddedError(
            f"{place} leads to {place.readlink()}, which is gone: bring that back, or remove "
            f"{place} to begin with an empty database"
        )
    return place.resolve() if place.exists() else None


def create(directory: Path, account: Account, initdb: Path) -> Path:
    """Make a new cluster. The caller holds the directory's lock.

    A killed initdb leaves a directory that looks like a cluster and is not one, so it works
    under another name, and the cluster is given its place when it is complete.
    """
    if _UNQUOTABLE & set(str(directory)):
        raise EmbeddedError(f"the path {directory} must not contain quotes, $, ` or \\")
    place = directory / "postgres"
    if account.can_enter(directory):
        fresh = directory / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)  # what a killed process left
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
            f"{data} is not a PostgreSQL data directory we can read ({exc}): move it away"
        ) from exc
    if found != str(version):
        raise EmbeddedError(
            f"{data} was made by PostgreSQL {found}, which {version} cannot read: open it with "
            f"version {found}, or dump it with that version's pg_dump and restore the dump into "
            f"a new directory with version {version}"
        )


def _initialize(fresh: Path, account: Account, initdb: Path) -> None:
    account.make_private_directory(fresh)
    complete = False
    try:
        done = account.run(initdb, *_INITDB, "-D", fresh)
        complete = done.returncode == 0
    finally:
        if not complete:
            shutil.rmtree(fresh, ignore_errors=True)
    if not complete:
        raise EmbeddedError(f"cannot create a database in {fresh}: {done.stdout.strip()}")


def _publish(place: Path, give_name: Callable[[], object]) -> None:
    # On disk before the first commit: a name lost with the power would lose the data, because
    # unnamed data is taken for what a killed process left.
    give_name()
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
