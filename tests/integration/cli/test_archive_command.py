"""`milepost archive`, and what other commands say of the archive."""

from __future__ import annotations

import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from milepost import Milepost, Position
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.integration.archive.archiving import files, left, made_older, names_in, numbered
from tests.integration.cli.command import Cli
from tests.waiting import wait_until


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def test_messages_are_archived_listed_and_removed(
    cli: Cli, mp: Milepost, conn: Connection, place: Path
) -> None:
    positions = numbered(conn, 250)
    words = ["--keep-messages", "50", "--archive", str(place)]
    done = cli.run("retention", "set", *words)
    assert done.stdout == (
        f"kept: the newest 50 messages; archived before it is removed: {place}\n"
    )
    assert cli.run("archive").stdout == "no message is archived\n"
    shown = cli.run("retention")
    assert "milepost.archive" in shown.stdout
    assert "The archive does not have what the policy would remove yet" in shown.stderr
    assert shown.stderr.rstrip().endswith("milepost archive run")
    assert cli.run("retention", "run").stdout == "removed 0 messages, up to 0:0\n"

    ran = cli.run("archive", "run", "--once", "--file-messages", "100")
    assert (ran.code, ran.stdout) == (0, "")
    assert ran.stderr.count(" file=") == 2
    listed = cli.run("archive", "list")
    assert listed.stdout.splitlines()[0].split() == [
        "after", "last", "messages", "size", "from", "to", "address"
    ]  # fmt: skip
    assert "2 files, 200 messages, " in listed.stdout
    assert [f"{place}/{name}" in listed.stdout for name in names_in(place)] == [True, True]
    document = cli.run("archive", "--json").document()
    assert [(file["after"], file["last"], file["messages"]) for file in document] == [
        (str(Position.BEGINNING), str(positions[99]), 100),
        (str(positions[99]), str(positions[199]), 100),
    ]
    assert document[0]["topics"] == ["topic-0", "topic-1"]
    assert cli.run("retention", "run").stdout.startswith("removed 200 messages")
    assert len(cli.run("read", "--from", "beginning").lines()) == 250
    assert left(conn) == positions[200:]


def test_it_runs_until_it_is_stopped(cli: Cli, mp: Milepost, conn: Connection, place: Path) -> None:
    made_older(conn, numbered(conn, 20))
    mp.retention(archive=str(place))
    with cli.start("archive", "run", "--log-format", "json") as process:
        wait_until(lambda: len(files(conn)) == 1)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert '"file": "0000' in stderr
    assert "milepost.archive" in cli.run("processors").stdout


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="no prlimit (util-linux)")
def test_a_disk_that_is_full_is_waited_for(
    cli: Cli, mp: Milepost, conn: Connection, place: Path
) -> None:
    """The size of its files is limited, which a write fails with as a full disk would."""
    made_older(conn, numbered(conn, 20, size=5_000))
    mp.retention(keep_messages=0, archive=str(place), archive_after=timedelta(0))
    query = "select state, last_error from milepost.processors"
    limited = ("prlimit", "--fsize=1000", "--")
    with cli.start("archive", "run", before=limited) as process:
        wait_until(lambda: "File too large" in str(conn.execute(query).fetchall()))
        process.terminate()
        process.communicate(timeout=60)
    assert "ArchiveUnwritable" in str(conn.execute(query).fetchall())
    assert (files(conn), names_in(place), mp.remove_old().number) == ([], [], 0)
    assert cli.run("archive", "run", "--once").code == 0
    assert mp.remove_old().number == 20


def test_without_an_archive_it_says_what_to_do(cli: Cli) -> None:
    result = cli.run("archive", "run", "--once")
    assert result.code == 1
    assert "milepost retention set --archive PLACE" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "1d", "--archive", "x", "--no-archive"], "not both"),
        (["--keep", "1d", "--no-archive", "--archive-after", "1h"], "needs --archive"),
        (["--archive", "x", "--archive-after", "soon"], "'soon' is not a time"),
        (["--keep", "1d"], "--archive PLACE"),
    ],
)
def test_bad_options_are_refused(cli: Cli, words: list[str], said: str) -> None:
    result = cli.run("retention", "set", *words)
    assert result.code == 2
    assert said in " ".join(result.stderr.split())
    assert cli.run("retention").stdout.startswith("everything is kept\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "everything is kept; archived: {place}"),
        (["--archive-after", "1h"], "everything is kept; archived after 60 min: {place}"),
        (
            ["--keep", "30d", "--archive-after", "1h"],
            "kept: messages of the last 30 d; archived after 60 min: {place}",
        ),
    ],
)
def test_a_policy_is_said_in_a_sentence(cli: Cli, place: Path, words: list[str], said: str) -> None:
    done = cli.run("retention", "set", "--archive", str(place), *words)
    assert done.stdout == f"{said.format(place=place)}\n"
    assert cli.run("retention").stdout.startswith(done.stdout)
    assert cli.run("retention", "--json").document()["archive"] == str(place)


def test_the_doctor_looks_at_the_archive(
    cli: Cli, mp: Milepost, conn: Connection, place: Path
) -> None:
    assert "no archive is configured" in cli.run("doctor").stdout
    made_older(conn, numbered(conn, 20), "5 hours")
    mp.retention(archive=str(place))
    sick = cli.run("doctor")
    assert sick.code == 1
    assert "The archiver has never run and 5 h behind" in " ".join(sick.stdout.split())
    assert cli.run("doctor", "--archive-seconds", "36000").code == 0
    assert cli.run("archive", "run", "--once").code == 0
    healthy = cli.run("doctor")
    assert (healthy.code, "archiver stopped, nothing waits" in healthy.stdout) == (0, True)
    assert f"archive  {place}, up to " in cli.run("status").stdout
    assert cli.run("status", "--json").document()["archive"]["state"] == "stopped"


def test_what_operators_may_do_to_the_archiver(
    cli: Cli, mp: Milepost, conn: Connection, place: Path
) -> None:
    numbered(conn, 20)
    mp.retention(archive=str(place))
    cli.run("archive", "run", "--once")
    name = "milepost.archive"
    for words in (["abandon", name, "--yes"], ["reset", name, "--to", "beginning", "--yes"]):
        refused = cli.run("processors", *words)
        assert refused.code == 1
        assert "is internal" in refused.stderr
    assert cli.run("processors", "pause", name).stdout == f"{name} version 1: paused\n"
    assert cli.run("processors", "resume", name).code == 0
    assert cli.run("processors", "--json").document()[0]["lag_messages"] == 0


def test_a_gap_can_be_left_behind(cli: Cli, mp: Milepost, conn: Connection, place: Path) -> None:
    numbered(conn, 20)
    mp.retention(archive=str(place))
    cli.run("archive", "run", "--once")
    assert cli.run("archive", "forget", "--yes").stdout == "no gap: nothing was changed\n"
    numbered(conn, 20)
    mp.retention(keep_messages=0, no_archive=True)
    mp.remove_old()
    mp.retention(archive=str(place))
    refused = cli.run("archive", "run", "--once")
    assert refused.code == 1
    assert "were removed without being archived" in refused.stderr
    assert cli.run("archive", "forget", "--yes").stdout == "1 file forgotten\n"
    assert cli.run("archive", "run", "--once").code == 0
