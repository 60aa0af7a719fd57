"""A standby that follows a server, and takes its place."""

from __future__ import annotations

import os
import subprocess

from milepost import db
from milepost.embedded import EmbeddedServer
from tests.server import program_of_server
from tests.waiting import wait_until


def copy_cluster(primary: EmbeddedServer, standby: EmbeddedServer) -> None:
    """The data of a standby that is to be started."""
    source, target = primary.directory / "postgres", standby.directory / "postgres"
    program = str(program_of_server("pg_basebackup"))
    options = ["--write-recovery-conf", "--checkpoint=fast"]
    command = [program, *options, f"--pgdata={target}", f"--dbname={primary.start()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Written by us; its server runs as the owner of the first one's data.
    owner = source.stat()
    for path in (target, *target.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def stop_following(standby: EmbeddedServer) -> None:
    """From now on it receives nothing."""
    with db.connect(standby.start()) as conn:
        conn.execute("alter system set primary_conninfo = ''")
        conn.execute("select pg_reload_conf()")
        asked = "select count(*) from pg_stat_wal_receiver"
        wait_until(lambda: conn.execute(asked).fetchone() == (0,))


def promote(standby: EmbeddedServer) -> None:
    with db.connect(standby.start()) as conn:
        assert conn.execute("select pg_promote()").fetchone() == (True,)
