"""TLS as docs/production.md describes it: psycopg and ADBC, which reads for Spark's executors, obey
the URL alike. On a server that can speak it, which those of the wheel cannot."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_manager as adbc
import psycopg
import pytest

from milepost import Message, Milepost
from milepost.adbc import Connection
from milepost.embedded.account import Account, account_for_new_data
from milepost.pipeline.source import executor_connection
from milepost.pipeline.source.options import complete_conninfo
from tests.server import open_directory

OPENSSL = shutil.which("openssl")
INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
IS_ENCRYPTED = b"select ssl from pg_stat_ssl where pid = pg_backend_pid()"
# Connections without TLS are refused.
ACCESS = "hostssl all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class TlsServer:
    address: str  # everything but the URL's parameters
    root: Path  # what has signed its certificate
    stranger: Path  # what has not

    def url(self, root: Path | None) -> str:
        verified = "" if root is None else f"&sslmode=verify-full&sslrootcert={root}"
        return f"{self.address}?hostaddr=127.0.0.1{verified}"


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsServer]:
    programs = next((each for each in INSTALLED if speaks_tls(each)), None)
    if programs is None or OPENSSL is None:
        pytest.skip("there is no openssl, or no installed PostgreSQL that was built with it")
    with open_directory() as directory:
        certificate = signed(OPENSSL, directory, "server")
        stranger = signed(OPENSSL, directory, "stranger")
        with started(programs, directory) as address:
            yield TlsServer(address, certificate, stranger)


def speaks_tls(programs: Path) -> bool:
    """Whether it was linked with OpenSSL."""
    return b"libssl" in (programs / "postgres").read_bytes()


def signed(openssl: str, directory: Path, name: str) -> Path:
    """A certificate for localhost that is its own root; its key lies beside it."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, "req", *made, *subject, *files], check=True, capture_output=True)
    return certificate


@contextmanager
def started(programs: Path, directory: Path) -> Iterator[str]:
    account, password = account_for_new_data(), secrets.token_hex()
    place = directory / "postgres"
    account.make_private_directory(place)
    data = place / "cluster"
    for name in ("server.pem", "server.key"):
        private_copy(account, directory / name, place / name)
    (directory / "password").write_text(password)
    private_copy(account, directory / "password", place / "password")
    run(account, programs / "initdb", "-D", data, "--username=postgres", "--encoding=UTF8",
        "--no-locale", "--auth=scram-sha-256", f"--pwfile={place / 'password'}")  # fmt: skip
    (data / "pg_hba.conf").write_text(ACCESS)
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "ssl": "on",
        "ssl_cert_file": str(place / "server.pem"),
        "ssl_key_file": str(place / "server.key"),
    }
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    with reserved_port() as port:
        run(account, programs / "pg_ctl", "-D", data, "-l", place / "log", "-o", f"-p {port}",
            "-w", "start")  # fmt: skip
    try:
        yield f"postgresql://postgres:{password}@localhost:{port}/postgres"
    finally:
        run(account, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def private_copy(account: Account, source: Path, target: Path) -> None:
    """PostgreSQL refuses a key that others can read."""
    shutil.copyfile(source, target)
    target.chmod(0o600)
    shutil.chown(target, account.uid, account.gid)


def run(account: Account, *command: str | Path) -> None:
    done = account.run(*command)
    assert done.returncode == 0, done.stdout


@contextmanager
def reserved_port() -> Iterator[int]:
    """The system gives it to nobody else in this block. A server may listen on it all the same: it
    allows others to use its address, as we do, and we do not listen."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", 0))
        yield door.getsockname()[1]


@contextmanager
def executor(url: str, environ: Mapping[str, str]) -> Iterator[Connection]:
    """A connection as a task of Spark's has it, with what the driver has sent along."""
    conninfo = complete_conninfo(url, environ)
    try:
        yield executor_connection.connection(conninfo)
    finally:
        executor_connection.forget(conninfo)


def test_the_log_works_over_tls_that_is_verified(tls: TlsServer) -> None:
    mp = Milepost(tls.url(tls.root))
    mp.migrate()
    with mp.connect() as conn:
        assert conn.execute(IS_ENCRYPTED).fetchone() == (True,)
        mp.append(conn, Message("T", {}))
    assert [message.type for message in mp.read()] == ["T"]


def test_executors_verify_as_the_url_says(tls: TlsServer) -> None:
    with executor(tls.url(tls.root), {}) as connection:
        assert connection.row(IS_ENCRYPTED) == {"ssl": True}


def test_executors_verify_as_the_drivers_variables_say(tls: TlsServer) -> None:
    variables = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(tls.root)}
    with executor(tls.url(None), variables) as connection:
        assert connection.row(IS_ENCRYPTED) == {"ssl": True}
    with (
        pytest.raises(adbc.Error, match="certificate verify failed"),
        executor(tls.url(None), variables | {"PGSSLROOTCERT": str(tls.stranger)}),
    ):
        pass


def test_a_server_that_somebody_else_has_signed_for_is_refused(tls: TlsServer) -> None:
    with (
        pytest.raises(psycopg.OperationalError, match="certificate verify failed"),
        Milepost(tls.url(tls.stranger)).connect(),
    ):
        pass
    with (
        pytest.raises(adbc.Error, match="certificate verify failed"),
        executor(tls.url(tls.stranger), {}),
    ):
        pass
