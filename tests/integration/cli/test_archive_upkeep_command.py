"""`milepost archive`: what operators see of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.log.history import Location
from tests.archiving import Archive, append_ranges, archiving, use_archive
from tests.integration.cli.command import Cli

pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def archive(url: str, tmp_path: Path) -> Iterator[Archive]:
    """Three files of ten messages."""
    with archiving(url, Location.parse(str(tmp_path / "archive"))) as found:
        use_archive(found.conn, found.location)
        found.archive_each(append_ranges(found.conn, 3, 10))
        yield found


def test_files_are_joined_verified_and_swept(cli: Cli, archive: Archive) -> None:
    assert len(json.loads(cli.run("archive", "--json").stdout)) == 3
    assert cli.run("archive", "compact").stdout == "joined 3 files into 1\n"
    (file,) = json.loads(cli.run("archive", "list", "--json").stdout)
    assert file["messages"] == 30
    done = cli.run("archive", "verify")
    assert (done.code, done.stdout.startswith("1 file, 30 messages, ")) == (0, True)
    assert done.stdout.endswith(": as the manifest says\n")

    done = cli.run("archive", "sweep")
    assert done.stdout == "removed 0 files, 0 bytes\n"
    assert "3 files left, which may still be in use (--older-than)" in done.stderr
    archive.conn.execute("update milepost.archive_replaced set replaced_at = 'yesterday'")
    archive.age(7200)
    done = cli.run("archive", "sweep", "--dry-run", "--json")
    assert len(done.document()["removed"]) == 3
    assert cli.run("archive", "sweep", "--older-than", "1h").stdout.count(".parquet\n") == 3
    assert archive.names() == {Path(file["address"]).name}


def test_problems_are_listed_and_end_with_1(cli: Cli, archive: Archive) -> None:
    first, second, _ = archive.files()
    (archive.directory / first.name).unlink()
    (archive.directory / second.name).write_text("short")
    done = cli.run("archive", "verify", "--quick")
    assert done.code == 1
    assert "2 problems" in done.stdout
    assert f"  {first.address}: it is not there\n" in done.stdout
    assert f"  {second.address}: it has 5 bytes" in done.stdout
    done = cli.run("archive", "verify", "--json")
    assert done.code == 1
    assert [p["file"] for p in done.document()["problems"]] == [first.address, second.address]


def test_a_key_is_erased_after_a_confirmation(cli: Cli, archive: Archive) -> None:
    refused = cli.run("archive", "erase", "--key", "k3")
    assert refused.code == 1
    assert "erase all messages with key 'k3'" in refused.stderr
    done = cli.run("archive", "erase", "--key", "k3", "--yes")
    assert done.stdout == (
        "erased 3 messages from the table, 3 messages from 3 files, 0 dead letters, "
        "and 0 files that the manifest did not name\n"
    )
    assert "not examined: jobs, your own tables" in done.stderr
    document = cli.run("archive", "erase", "--key", "k3", "--yes", "--json").document()
    assert document["is_nothing_left"]
    assert document["is_complete"]
    assert document["files_rewritten"] == 0


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_erasure_that_is_not_complete_ends_with_1(
    cli: Cli, archive: Archive, as_json: tuple[str, ...]
) -> None:
    """A file that the manifest does not name, and that cannot be read."""
    name = archive.files()[0].name.replace("_e0_", "_e9_")
    (archive.directory / name).write_text("broken")
    done = cli.run("archive", "erase", "--key", "k3", "--yes", *as_json)
    assert done.code == 1
    assert name in done.stdout + done.stderr


def test_files_of_other_databases_are_mentioned(cli: Cli, archive: Archive) -> None:
    name = archive.files()[0].name[:-16] + "00000000.parquet"
    (archive.directory / name.replace("_e0_", "_e1_")).write_text("theirs")
    archive.age(7200)
    done = cli.run("archive", "sweep")
    assert "1 file left, which another database may own (--other-databases)" in done.stderr
    done = cli.run("archive", "sweep", "--other-databases")
    assert done.stdout.endswith("removed 1 file, 6 bytes\n")
    assert "shares its old files with the original" in done.stderr


def test_a_bad_time_is_refused(cli: Cli) -> None:
    assert "'soon' is not a time" in cli.run("archive", "sweep", "--older-than", "soon").stderr


def test_without_pyarrow_it_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    """As in an environment without the extra: the import fails."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not installed')")
    bare = Cli(cli.url, {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"})
    with bare.start("archive", "verify") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "pip install 'milepost[archive]'" in said
