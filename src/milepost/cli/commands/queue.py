"""`milepost queue`: the state of the queue, its jobs, and what operators can do with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

import orjson
import typer

from milepost import db
from milepost.app import Milepost
from milepost.cli import options, output
from milepost.cli.on_log import command_of, new_group
from milepost.queue import admin
from milepost.queue.admin import JobStatus, QueueStatus
from milepost.records import Job, OnDead, Verdict
from milepost.words import count, duration, stated

Ids: TypeAlias = Annotated[list[int], typer.Argument(metavar="ID...")]
DeadIds: TypeAlias = Annotated[list[int] | None, typer.Argument(metavar="[ID...]")]
Every: TypeAlias = Annotated[bool, typer.Option("--all", help="All dead jobs.")]
Channel: TypeAlias = Annotated[str | None, typer.Option(help="Only jobs of this channel.")]
ChannelName: TypeAlias = Annotated[str, typer.Argument(metavar="CHANNEL")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="At most this many.")]
_WIDTH = 100


def summary(mp: Milepost, *, as_json: bool) -> None:
    """How many jobs are waiting, running and dead, and how fast they are completed."""
    with mp.connect() as conn:
        status = admin.summary(conn, mp.schema)
    output.print_result(asdict(status), "\n".join(summary_lines(status)), as_json=as_json)


app = new_group("The queue: its jobs, put, cancel, retry, drop, purge.", summary)


@command_of(app, "list")
def list_jobs(
    mp: Milepost,
    channel: Channel = None,
    status: Annotated[admin.Status | None, typer.Option(help="Only jobs in this status.")] = None,
    limit: Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List jobs, oldest first."""
    with mp.connect() as conn:
        found = admin.list_jobs(conn, mp.schema, channel, status, limit)
    output.print_listing(found, as_document, _print_jobs, as_json=as_json)


@command_of(app)
def dead(
    mp: Milepost, channel: Channel = None, limit: Limit = 100, as_json: options.AsJson = False
) -> None:
    """List jobs that failed too often, with their last error."""
    list_jobs(mp, channel, "dead", limit, as_json)


@command_of(app)
def show(
    mp: Milepost,
    id_: Annotated[int, typer.Argument(metavar="ID")],
    as_json: options.AsJson = False,
) -> None:
    """Show everything known about one job."""
    with mp.connect() as conn:
        document = as_document(admin.find(conn, mp.schema, id_))
    if as_json:
        output.print_json(document)
    else:
        output.print_facts(document, max_width=_WIDTH)


@command_of(app)
def put(
    mp: Milepost,
    channel: ChannelName,
    content: Annotated[str, typer.Argument(metavar="JSON")] = "null",
    delay_seconds: Annotated[
        float | None, typer.Option(min=0, help="Run it after this many seconds.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Lower priorities are taken first.")] = 0,
    max_attempts: Annotated[int, typer.Option(min=1, help="Dead after this many failures.")] = 25,
    unique_key: Annotated[
        str | None, typer.Option(help="Put nothing while an unfinished job has this key.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the job that has the key and has not begun."),
    ] = False,
    unique_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Keep the key for this many seconds after completion."),
    ] = None,
    after: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="Wait until this job has completed. Repeatable."),
    ] = None,
    on_dead: Annotated[
        OnDead, typer.Option(help="What to do if a job that is waited for dies.")
    ] = "wait",
    keep_seconds: Annotated[
        float | None, typer.Option(min=0, help="Keep the finished job for this many seconds.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Put a job and print its id."""
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
        replace=replace,
        unique_for=_seconds(unique_seconds),
        after=after or (),
        on_dead=on_dead,
    )
    # Around both: a role without any privilege fails when it connects.
    with db.acting("", "put"), mp.connect() as conn:
        (id_,) = mp.put(conn, job)
    output.print_result({"id": id_}, id_, as_json=as_json)


@command_of(app)
def cancel(mp: Milepost, ids: Ids, as_json: options.AsJson = False) -> None:
    """Cancel jobs: a waiting one is deleted, a running one is asked to stop."""
    with mp.connect() as conn:
        verdicts = admin.cancel(conn, mp.schema, ids)
    words = {Verdict.DONE: "cancelled", Verdict.CANCELLED: "asked to stop"}
    _print_verdicts(ids, verdicts, words, as_json=as_json)


@command_of(app)
def retry(
    mp: Milepost,
    ids: DeadIds = None,
    every: Every = False,
    channel: Channel = None,
    as_json: options.AsJson = False,
) -> None:
    """Make dead jobs ready again, with their failures reset to 0."""
    with mp.connect() as conn, conn.transaction():
        chosen = _chosen(ids, every=every) or admin.dead_ids(conn, mp.schema, channel)
        verdicts = admin.retry(conn, mp.schema, chosen)
        holders = admin.key_holders(conn, mp.schema, chosen)
    reasons = {
        id_: f"is still dead: job {holder} has its unique key {key!r}. Retry it when that one has "
        "finished, or drop it"
        for id_, (holder, key) in holders.items()
    }
    words = {Verdict.DONE: "ready again"}
    _print_verdicts(chosen, verdicts, words, reasons, as_json=as_json)


@command_of(app)
def drop(
    mp: Milepost,
    ids: DeadIds = None,
    every: Every = False,
    channel: Channel = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete dead jobs. Jobs that wait for one of them go on."""
    with mp.connect() as conn:
        chosen = _chosen(ids, every=every) or admin.dead_ids(conn, mp.schema, channel)
        if chosen:
            output.confirm(f"delete {count(len(chosen), 'dead job')} for good", yes=yes)
        dropped = set(admin.drop(conn, mp.schema, chosen))
    verdicts = [Verdict.DONE if id_ in dropped else Verdict.GONE for id_ in chosen]
    _print_verdicts(chosen, verdicts, {Verdict.DONE: "dropped"}, as_json=as_json)


@command_of(app)
def purge(
    mp: Milepost,
    channel: ChannelName,
    status: Annotated[
        admin.Status | None,
        typer.Option(help="Only jobs in this status. Default: ready, scheduled and waiting."),
    ] = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete jobs of a channel. Running jobs are not touched. Jobs that wait for one of them are
    cancelled, unless they were put with on_dead="run"."""
    statuses: list[admin.Status] = [status] if status else ["ready", "scheduled", "waiting"]
    with mp.connect() as conn:
        output.confirm(f"delete every job of {channel} that is {' or '.join(statuses)}", yes=yes)
        deleted = admin.purge(conn, mp.schema, channel, statuses)
    sentence = f"deleted {count(deleted, 'job')} of {channel}"
    output.print_result({"deleted": deleted}, sentence, as_json=as_json)


def summary_lines(status: QueueStatus) -> Iterator[str]:
    after = f", {stated(status, 'waiting')} for other jobs" if status.waiting else ""
    overdue = f" ({stated(status, 'overdue')} due)" if status.overdue else ""
    scheduled = f"{stated(status, 'scheduled')} scheduled{overdue}"
    yield f"waiting  {stated(status, 'ready')} ready, {scheduled}{after}"
    yield f"running  {stated(status, 'running')}, {status.rate:,.0f}/s"
    due = status.oldest_due_seconds
    yield f"oldest   {'-' if due is None else f'due for {duration(due)}'}"
    yield f"dead     {stated(status, 'dead')}"
    yield f"kept     {stated(status, 'kept')}"
    yield f"channels {status.channels:,}"


def as_document(job: JobStatus) -> dict[str, Any]:
    document = asdict(job)
    for name in ("content", "state", "progress", "result"):
        document[name] = readable(document[name])
    return document


def readable(raw: bytes | None) -> Any:
    """Decoded if it is JSON, else a string that shows every byte."""
    if raw is None:
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode(errors="backslashreplace")


def _print_jobs(found: Sequence[JobStatus]) -> None:
    if not found:
        typer.echo("no such jobs")
        return
    out = output.console()
    for job in found:
        parts = [f"{job.channel}  attempt {job.attempt}"]
        if job.failures:
            parts.append(f"{job.failures} of {job.max_attempts} failures")
        if job.after:
            parts.append(f"after {', '.join(map(str, job.after))}")
        parts.append(str(readable(job.content)))
        text = output.fitted(", ".join(parts), max(out.width, _WIDTH) - 19)
        out.print(f"{job.id:>8} {job.status:9} {text}", soft_wrap=True)
        if job.last_error is not None:
            error = output.fitted(job.last_error, max(out.width, _WIDTH) - 9)
            out.print(f"         {error}", style="red", soft_wrap=True)


def _print_verdicts(
    ids: list[int],
    verdicts: list[Verdict],
    words: dict[Verdict, str],
    reasons: Mapping[int, str] | None = None,
    *,
    as_json: bool,
) -> None:
    """The outcome for each job; exits with 1 if one of them could not be changed. `reasons`: why,
    where more is known."""
    pairs, reasons = list(zip(ids, verdicts, strict=True)), reasons or {}
    if as_json:
        output.print_json(
            [
                {"id": id_, "verdict": verdict.value}
                | ({"reason": reasons[id_]} if id_ in reasons else {})
                for id_, verdict in pairs
            ]
        )
    else:
        for id_, verdict in pairs:
            other = reasons.get(id_, "not found in a suitable status")
            typer.echo(f"{id_} {words.get(verdict, other)}")
    if any(verdict not in words for verdict in verdicts):
        raise typer.Exit(1)


def _chosen(ids: list[int] | None, *, every: bool) -> list[int]:
    if bool(ids) == every:
        raise typer.BadParameter("pass ids, or --all", param_hint="ID")
    return ids or []


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
