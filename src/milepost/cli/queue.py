"""`milepost queue`: how the queue is, its jobs, and what operators can do about them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
import typer

from milepost import sql
from milepost.cli import options
from milepost.cli.confirm import confirm
from milepost.cli.database import open_log
from milepost.cli.output import console, count, duration, fitted, print_json
from milepost.queue import admin
from milepost.records import Job, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.queue.admin import JobStatus, QueueStatus

app = typer.Typer(
    help="The queue: its jobs, put, cancel, retry, drop, purge.", invoke_without_command=True
)
Ids: TypeAlias = Annotated[list[int], typer.Argument(metavar="ID...")]
Channel: TypeAlias = Annotated[str | None, typer.Option(help="Of this channel only.")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="At most so many.")]
StatusName: TypeAlias = Literal["ready", "scheduled", "running", "dead", "done", "cancelled"]
_WIDTH = 100


@app.callback()
def default(
    context: typer.Context,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Without a command: how many jobs wait, run and are dead, and how fast they are done."""
    if context.invoked_subcommand is not None:
        return
    with open_log(url, schema).connect() as conn:
        status = admin.summary(conn, schema)
    if as_json:
        print_json(asdict(status))
        return
    for line in summary_lines(status):
        typer.echo(line)


@app.command("list")
def list_jobs(
    channel: Channel = None,
    status: Annotated[StatusName | None, typer.Option(help="In this status only.")] = None,
    limit: Limit = 100,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Jobs, the oldest first."""
    with open_log(url, schema).connect() as conn:
        found = admin.list_jobs(conn, schema, channel, status, limit)
    if as_json:
        print_json([as_document(job) for job in found])
    else:
        _print_jobs(found)


@app.command()
def dead(
    channel: Channel = None,
    limit: Limit = 100,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Jobs that failed too often, with their last error."""
    list_jobs(channel, "dead", limit, url, schema, as_json)


@app.command()
def show(
    id_: Annotated[int, typer.Argument(metavar="ID")],
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Everything known about one job."""
    with open_log(url, schema).connect() as conn:
        document = as_document(admin.find(conn, schema, id_))
    if as_json:
        print_json(document)
        return
    for fact, value in document.items():
        typer.echo(f"{fact:13} {fitted('-' if value is None else str(value), _WIDTH)}")


@app.command()
def put(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL")],
    content: Annotated[str, typer.Argument(metavar="JSON")] = "null",
    delay_seconds: Annotated[
        float | None, typer.Option(min=0, help="Run it after so many seconds.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Lower ones are taken sooner.")] = 0,
    max_attempts: Annotated[int, typer.Option(min=1, help="Dead after so many failures.")] = 25,
    unique_key: Annotated[
        str | None, typer.Option(help="Nothing is put while an unfinished job has this key.")
    ] = None,
    keep_seconds: Annotated[
        float | None, typer.Option(min=0, help="Keep the finished job for so long.")
    ] = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Put a job; its id is printed."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="JSON") from error
    job = Job(
        channel,
        value,
        run_at=_seconds(delay_seconds),
        priority=priority,
        max_attempts=max_attempts,
        unique_key=unique_key,
        keep_for=_seconds(keep_seconds),
    )
    mp = open_log(url, schema)
    with mp.connect() as conn:
        (id_,) = mp.put(conn, job)
    if as_json:
        print_json({"id": id_})
    else:
        typer.echo(id_)


@app.command()
def cancel(
    ids: Ids,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Cancel jobs: one that waits is gone, one that runs is asked to stop."""
    with open_log(url, schema).connect() as conn:
        verdicts = admin.cancel(conn, schema, ids)
    words = {Verdict.DONE: "cancelled", Verdict.CANCELLED: "asked to stop"}
    _print_verdicts(ids, verdicts, words, as_json=as_json)


@app.command()
def retry(
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID...]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead job.")] = False,
    channel: Channel = None,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Make dead jobs ready again, as if they had never failed."""
    with open_log(url, schema).connect() as conn, conn.transaction():
        chosen = _chosen(ids, every=every) or admin.dead_ids(conn, schema, channel)
        verdicts = admin.retry(conn, schema, chosen)
    _print_verdicts(chosen, verdicts, {Verdict.DONE: "ready again"}, as_json=as_json)


@app.command()
def drop(
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID...]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead job.")] = False,
    channel: Channel = None,
    yes: options.Yes = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Delete dead jobs."""
    with open_log(url, schema).connect() as conn:
        chosen = _chosen(ids, every=every) or admin.dead_ids(conn, schema, channel)
        if chosen:
            confirm(f"delete {count(len(chosen), 'dead job')} for good", yes=yes)
        dropped = set(admin.drop(conn, schema, chosen))
    verdicts = [Verdict.DONE if id_ in dropped else Verdict.GONE for id_ in chosen]
    _print_verdicts(chosen, verdicts, {Verdict.DONE: "dropped"}, as_json=as_json)


@app.command()
def purge(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL")],
    status: Annotated[
        StatusName | None,
        typer.Option(help="In this status. Without: what waits, ready or scheduled."),
    ] = None,
    yes: options.Yes = False,
    url: options.Url = None,
    schema: options.Schema = sql.DEFAULT_SCHEMA,
    as_json: options.AsJson = False,
) -> None:
    """Delete what is in a channel; what runs is left alone."""
    statuses: list[admin.Status] = [status] if status else ["ready", "scheduled"]
    with open_log(url, schema).connect() as conn:
        confirm(f"delete every job of {channel} that is {' or '.join(statuses)}", yes=yes)
        deleted = admin.purge(conn, schema, channel, statuses)
    if as_json:
        print_json({"deleted": deleted})
    else:
        typer.echo(f"deleted {count(deleted, 'job')} of {channel}")


def summary_lines(status: QueueStatus) -> Iterator[str]:
    yield f"waiting  {status.ready:,} ready, {status.scheduled:,} scheduled"
    yield f"running  {status.running:,}, {status.rate:,.0f}/s"
    due = status.oldest_due_seconds
    yield f"oldest   {'-' if due is None else f'due for {duration(due)}'}"
    yield f"dead     {status.dead:,}"
    yield f"kept     {status.kept:,}"
    yield f"channels {status.channels:,}"


def as_document(job: JobStatus) -> dict[str, Any]:
    document = asdict(job)
    for name in ("content", "state", "progress", "result"):
        document[name] = readable(document[name])
    return document


def readable(raw: bytes | None) -> Any:
    """JSON where it is, else text that shows every byte."""
    if raw is None:
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode(errors="backslashreplace")


def _print_jobs(found: list[JobStatus]) -> None:
    if not found:
        typer.echo("no such jobs")
        return
    out = console()
    for job in found:
        parts = [f"{job.channel}  attempt {job.attempt}"]
        if job.failures:
            parts.append(f"{job.failures} of {job.max_attempts} failures")
        parts.append(str(readable(job.content)))
        text = fitted(", ".join(parts), max(out.width, _WIDTH) - 19)
        out.print(f"{job.id:>8} {job.status:9} {text}", soft_wrap=True)
        if job.last_error is not None:
            error = fitted(job.last_error, max(out.width, _WIDTH) - 9)
            out.print(f"         {error}", style="red", soft_wrap=True)


def _print_verdicts(
    ids: list[int], verdicts: list[Verdict], words: dict[Verdict, str], *, as_json: bool
) -> None:
    """What became of each; fails if nothing was done to one of them."""
    pairs = list(zip(ids, verdicts, strict=True))
    if as_json:
        print_json([{"id": id_, "verdict": verdict.value} for id_, verdict in pairs])
    else:
        for id_, verdict in pairs:
            typer.echo(f"{id_} {words.get(verdict, 'not found in a status for that')}")
    if any(verdict not in words for verdict in verdicts):
        raise typer.Exit(1)


def _chosen(ids: list[int] | None, *, every: bool) -> list[int]:
    if bool(ids) == every:
        raise typer.BadParameter("give ids, or --all", param_hint="ID")
    return ids or []


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
