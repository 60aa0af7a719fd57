from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.embedded.account import Account
from milepost.embedded.postmaster import PidFile, Postmaster, Status, _options
from milepost.errors import EmbeddedError

NOT_ASKED = Path("/nonexistent/pg_isready")


@pytest.fixture
def postmaster(tmp_path: Path) -> Postmaster:
    return Postmaster(tmp_path, Account(os.geteuid(), os.getegid()))


@pytest.mark.parametrize("name", ["port", "listen_addresses", "Listen_Addresses"])
def test_what_keeps_strangers_out_cannot_be_set(name: str) -> None:
    with pytest.raises(EmbeddedError, match=f"does not allow setting {name.lower()}"):
        _options(Path("/d"), {name: "1"})


def test_settings_replace_defaults_and_are_quoted_for_the_shell() -> None:
    options = _options(Path("/d"), {"max_connections": "10", "log_line_prefix": "a; b"})
    assert "-c max_connections=10 " in options
    assert "max_connections=200" not in options
    assert "-c 'log_line_prefix=a; b'" in options


def test_without_a_pid_file_the_server_is_stopped(postmaster: Postmaster) -> None:
    assert postmaster.status(NOT_ASKED) is Status.STOPPED


def test_a_pid_file_of_some_other_process_means_stopped(postmaster: Postmaster) -> None:
    (postmaster.data / "postmaster.pid").write_text(f"{os.getpid()}\n{postmaster.data}\n")
    assert postmaster.status(NOT_ASKED) is Status.STOPPED


def test_a_pid_file_names_the_process_and_the_directory_of_its_socket(
    postmaster: Postmaster,
) -> None:
    (postmaster.data / "postmaster.pid").write_text("7\n/data\n1700000000\n5432\n/socket\n\n")
    assert postmaster.pid_file() == PidFile(7, Path("/socket"))


def test_a_stale_pid_file_does_not_lead_to_a_strangers_socket(postmaster: Postmaster) -> None:
    squat = postmaster.data / "squat"
    squat.mkdir()
    squat.chmod(0o777)
    (postmaster.data / "postmaster.pid").write_text(f"7\n/data\n1\n5432\n{squat}\n")
    with pytest.raises(EmbeddedError, match="refusing"):
        postmaster.status(NOT_ASKED)
