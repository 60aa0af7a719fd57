"""`milepost archive`: the files that have the old part of the log, writing and keeping them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from milepost.app import Milepost
from milepost.archive import FileSize, forget_files, list_files, retention_state
from milepost.cli import options, output
from milepost.cli.commands.retention import parse_duration
from milepost.cli.logs import LogFormat, failures_logged, set_up_logging
from milepost.cli.on_log import command_of, new_group
from milepost.cli.progress import progress
from milepost.errors import ArchiveNotInstalled, NoArchive
from milepost.log.history import Location
from milepost.pipeline.spark.settings import project_table, spark_settings
from milepost.words import count, size

if TYPE_CHECKING:
    from milepost.archive.upkeep import Erasure, Swept, Verification
    from milepost.log.history import ArchivedFile
    from milepost.pipeline.spark.settings import SparkSettings

_SIZE = FileSize()
Engine = Annotated[
    Literal["process", "spark"],
    typer.Option(help="spark: many files at the same time, with `content`, a VARIANT."),
]


def list_all(mp: Milepost, as_json: options.AsJson = False) -> None:
    """List the files of the archive, the oldest messages first."""
    with mp.connect() as conn:
        found = list_files(conn, mp.schema)
    output.print_listing(found, as_document, print_files, as_json=as_json)


app = new_group("The archive: list, run, compact, verify, sweep, erase, forget.", list_all, "list")


@command_of(app)
def run(
    mp: Milepost,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything is archived that is old enough.")
    ] = False,
    file_messages: Annotated[
        int, typer.Option(min=1, help="The most messages of a file.")
    ] = _SIZE.file_messages,
    least_messages: Annotated[
        int, typer.Option(min=1, help="Fewer wait for more, for an hour at most.")
    ] = _SIZE.least_messages,
    engine: Engine = "process",
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="info: a line per file.")
    ] = "info",
    log_format: Annotated[
        LogFormat,
        typer.Option(envvar="MILEPOST_LOG_FORMAT", help="json: each log line is a JSON object."),
    ] = "text",
) -> None:
    """Write what is old enough to files, until SIGTERM or Ctrl-C. One archiver works at a time,
    others stand by. `milepost run` does the same beside its other work."""
    set_up_logging(log_level, log_format)
    with failures_logged() if log_format == "json" else nullcontext():
        with mp.connect() as conn:
            policy = retention_state(conn, mp.schema).policy
        if policy is None or policy.archive is None:
            raise NoArchive(mp.schema)
        size_ = FileSize(file_messages=file_messages, least_messages=least_messages)
        spark = _spark(master, spark_conf) if engine == "spark" else None
        mp.run_archiver("caught_up" if once else "stopped", size_, spark=spark)


@command_of(app)
def forget(mp: Milepost, yes: options.Yes = False) -> None:
    """Begin a new archive, after messages were removed that were not archived (`ArchiveGap`). The
    files stay, but Milepost does not know them any more."""
    output.confirm("forget all files of the archive, if a gap follows them", yes=yes)
    with mp.connect() as conn:
        number = forget_files(conn, mp.schema)
    typer.echo(f"{count(number, 'file')} forgotten" if number else "no gap: nothing was changed")


def as_document(file: ArchivedFile) -> dict[str, Any]:
    return {
        "after": str(file.after),
        "last": str(file.last),
        "messages": file.messages,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "recorded_from": file.recorded_from,
        "recorded_to": file.recorded_to,
        "topics": file.topics,
        "types": file.types,
        "location": file.location,
        "name": file.name,
        "address": file.address,
        "has_content": file.has_content,
        "epoch": file.epoch,
        "written_at": file.written_at,
    }


def print_files(found: Sequence[ArchivedFile]) -> None:
    rows = [_cells(file) for file in found]
    right = ("messages", "size")
    output.print_table(rows, "no message is archived", right=right, wrapped="address")
    if found:
        messages, bytes_ = sum(f.messages for f in found), sum(f.bytes for f in found)
        files = f"{count(len(found), 'file')}, {count(messages, 'message')}, {size(bytes_)}"
        typer.echo(f"{files}, up to {found[-1].last}")


def _cells(file: ArchivedFile) -> dict[str, str]:
    return {
        "after": str(file.after),
        "last": str(file.last),
        "messages": f"{file.messages:,}",
        "size": size(file.bytes),
        "from": _minute(file.recorded_from),
        "to": _minute(file.recorded_to),
        "address": file.address,
    }


def _minute(time: datetime | None) -> str:
    return "-" if time is None else time.isoformat(" ", "minutes")


# Care for files: milepost.archive.upkeep.

OtherDatabases = Annotated[
    bool,
    typer.Option(
        "--other-databases",
        help="Also files that another database has written, or this one before it was restored. "
        "If that database is still used, its archive is damaged.",
    ),
]


@contextmanager
def _installed() -> Iterator[None]:
    """Around an import: pyarrow is an extra, and `milepost --help` must work without it."""
    try:
        yield
    except ImportError:
        raise ArchiveNotInstalled from None


@command_of(app)
def compact(
    mp: Milepost,
    min_messages: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="half of --target-messages",
            help="Join files with fewer messages.",
        ),
    ] = None,
    target_messages: Annotated[
        int, typer.Option(min=2, metavar="N", help="The most messages of a joined file.")
    ] = 1_000_000,
    engine: Engine = "process",
    master: options.Master = None,
    spark_conf: options.SparkConf = None,
    as_json: options.AsJson = False,
) -> None:
    """Join adjacent small files; with Spark, also give `content` to files that lack it. The old
    ones stay until `milepost archive sweep`."""
    if engine == "spark":
        done_by_spark = mp.compact_with_spark(_spark(master, spark_conf), target_messages)
        _print_compaction(asdict(done_by_spark), as_json=as_json)
        return
    with _installed():
        from milepost.archive import upkeep
    with mp.connect() as conn, progress("opening") as on_progress:
        done = upkeep.compact(
            conn,
            mp.schema,
            min_messages=min_messages,
            target_messages=target_messages,
            on_progress=on_progress,
        )
    _print_compaction(asdict(done), as_json=as_json)


def _print_compaction(done: dict[str, int], *, as_json: bool) -> None:
    text = f"joined {count(done['joined'], 'file')} into {done['written']}"
    output.print_result(done, text, as_json=as_json)
    if done["overtaken"] and not as_json:
        output.say(
            f"{done['overtaken']} joins were given up, because files were replaced meanwhile"
        )


def _spark(master: str | None, spark_conf: list[str] | None) -> SparkSettings:
    return spark_settings(project_table(Path.cwd()), os.environ, master, spark_conf or ())


@command_of(app)
def verify(
    mp: Milepost,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare the sizes of files only, and read none.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare all files with the manifest. Exit code 1 if something is wrong."""
    with _installed():
        from milepost.archive import upkeep
    with mp.connect() as conn, progress("opening") as on_progress:
        found = upkeep.verify(conn, mp.schema, quick=quick, on_progress=on_progress)
    if as_json:
        output.print_json(_verification_document(found))
    else:
        _print_verification(found)
    if found.problems:
        raise typer.Exit(1)


def _verification_document(found: Verification) -> dict[str, Any]:
    return {
        "files": found.files,
        "messages": found.messages,
        "bytes": found.bytes,
        "problems": [{"file": p.address, "problem": p.text} for p in found.problems],
    }


def _print_verification(found: Verification) -> None:
    what = f"{count(found.files, 'file')}, {count(found.messages, 'message')}, {size(found.bytes)}"
    if not found.problems:
        typer.echo(f"{what}: as the manifest says")
        return
    typer.echo(f"{what}: {count(len(found.problems), 'problem')}")
    for problem in found.problems:
        typer.echo(f"  {problem}")


@command_of(app)
def sweep(
    mp: Milepost,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Leave what was written or replaced a shorter time ago: it may be in use.",
        ),
    ] = "1h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing.")] = False,
    other_databases: OtherDatabases = False,
    location: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Also look in a former place. Repeatable."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove files that the manifest does not name: what a killed process has left behind, and what
    was replaced."""
    with _installed():
        from milepost.archive import upkeep
    if other_databases:
        output.say(
            "files of other databases are removed too: a database that was restored from a dump "
            "shares its old files with the original"
        )
    with mp.connect() as conn:
        swept = upkeep.sweep(
            conn,
            mp.schema,
            older_than=parse_duration(older_than),
            dry_run=dry_run,
            other_databases=other_databases,
            also_in=[Location.parse(address) for address in location or ()],
        )
    if as_json:
        output.print_json(_swept_document(swept))
    else:
        _print_swept(swept, dry_run=dry_run)


def _swept_document(swept: Swept) -> dict[str, Any]:
    return {
        "removed": [file.address for file in swept.removed],
        "bytes": swept.bytes,
        "young": swept.young,
        "of_other_databases": swept.of_others,
    }


def _print_swept(swept: Swept, *, dry_run: bool) -> None:
    for file in swept.removed:
        typer.echo(file.address)
    verb = "would remove" if dry_run else "removed"
    typer.echo(f"{verb} {count(len(swept.removed), 'file')}, {size(swept.bytes)}")
    if swept.young:
        output.say(f"{count(swept.young, 'file')} left, which may still be in use (--older-than)")
    if swept.of_others:
        output.say(
            f"{count(swept.of_others, 'file')} left, which another database may own "
            "(--other-databases)"
        )


@command_of(app)
def erase(
    mp: Milepost,
    key: Annotated[str, typer.Option(metavar="KEY", help="The key of the messages.")],
    other_databases: OtherDatabases = False,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Erase all messages of a key: from the table, the archive and the dead letters. Repeat it
    until nothing is found. Exits with 1 if something is left that has the key, or may have it."""
    with _installed():
        from milepost.archive import upkeep
    output.confirm(f"erase all messages with key {key!r}, for ever", yes=yes)
    with mp.connect() as conn, progress("opening") as on_progress:
        done = upkeep.erase(
            conn, mp.schema, key, other_databases=other_databases, on_progress=on_progress
        )
    if as_json:
        output.print_json(_erasure_document(done))
    else:
        _print_erasure(done)
    if not done.is_complete:
        raise typer.Exit(1)


def _erasure_document(done: Erasure) -> dict[str, Any]:
    return {
        "messages": done.messages,
        "files_rewritten": done.files,
        "archived_messages": done.archived_messages,
        "other_files_removed": done.strays,
        "dead_letters": done.letters,
        "dead_letters_left": done.letters_left,
        "files_left": list(done.files_left),
        "files_not_examined": list(done.not_examined),
        "files_of_other_databases": done.files_of_others,
        "targets_not_changed": list(done.targets),
        "is_complete": done.is_complete,
        "is_nothing_left": done.is_nothing,
    }


def _print_erasure(done: Erasure) -> None:
    typer.echo(
        f"erased {count(done.messages, 'message')} from the table, "
        f"{count(done.archived_messages, 'message')} from {count(done.files, 'file')}, "
        f"{count(done.letters, 'dead letter')}, "
        f"and {count(done.strays, 'file')} that the manifest did not name"
    )
    for line in _left(done):
        output.say(line)
    output.say(
        "not examined: jobs, your own tables, replicas of them, and backups"
        + (f"; pipelines have written to {', '.join(done.targets)}" if done.targets else "")
    )


def _left(done: Erasure) -> Iterator[str]:
    if done.letters_left:
        yield f"{count(done.letters_left, 'dead letter')} left, which a processor is handling now"
    for address in done.files_left:
        yield f"{address} left: another database may own it. Repeat with --other-databases."
    for address in done.not_examined:
        yield f"{address} left: it is not complete. Repeat after: milepost archive sweep"
    if done.files_of_others:
        yield (
            f"{count(done.files_of_others, 'file')} not examined, which the manifest does not name "
            "and another database may own (--other-databases)"
        )
    if not done.is_nothing:
        yield "repeat it until nothing is found"
