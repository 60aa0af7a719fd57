"""Milepost: where a URL (or the embedded server) and a schema become the rooms. No logic."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast, overload

from milepost import db, grants, health, indexes, log, queue, sql
from milepost import migrate as migrations
from milepost.archive import (
    Archiver,
    FileSize,
    Policy,
    PolicyWatch,
    Remover,
    WhenWanted,
    remove_old,
    set_policy,
)
from milepost.binding import binding_of
from milepost.drivers import engine as engines
from milepost.embedded import EmbeddedServer
from milepost.environment import refuse_embedded
from milepost.errors import HandlerFailed, ReservedName, UnknownPipeline, UnknownProcessor
from milepost.graph import graph_of
from milepost.handlers import refuse_misspelt
from milepost.log import DEFAULT_MAX_PAYLOAD_BYTES
from milepost.log.diagnose import diagnose, rebase
from milepost.observe import ProbeLimits
from milepost.pipeline.definition import Definition as PipelineDefinition
from milepost.pipeline.definition import Options as PipelineKeywords
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.engine import SparkProcessor
from milepost.pipeline.pipeline import Pipeline
from milepost.pipeline.spark.settings import SparkSettings
from milepost.processors import Definition, Options, Processor, ProcessorOptions
from milepost.runtime import (
    DEFAULT_MAX_CONNECTIONS,
    Group,
    Runtime,
    Timing,
    refuse_unknown_end,
    stopping_on_signals,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from typing import Any, Unpack

    from milepost.archive import Removal
    from milepost.db import Connection
    from milepost.drivers import AnyAsyncConnection, AnyConnection, AnyEngine
    from milepost.graph import Graph
    from milepost.handlers import Handler
    from milepost.log.diagnosis import Diagnosis
    from milepost.pipeline.archive import SparkCompaction
    from milepost.pipeline.definition import Function
    from milepost.pipeline.sinks import Sink
    from milepost.processors import NewProcessor
    from milepost.records import Job, Message, Position, RecordedMessage, Segment
    from milepost.runtime import Member, Until
    from milepost.ui import Dashboard
    from milepost.ui.security import Authorize

DEFAULT_DIRECTORY = Path(".milepost")
H = TypeVar("H", bound="Handler")
G = TypeVar("G", bound="Callable[[], Any]")


def _named(url: db.UrlSource | None, engine: AnyEngine | None) -> db.UrlSource | None:
    if url is not None:
        return url
    return db.environment_url(os.environ) if engine is None else engines.url_of(engine)


class Milepost:
    """A log and what works on it, in one schema of one database.

    The database is `url`, else that of `engine`, else MILEPOST_URL, else what the PG* variables
    say, else the embedded server, which is started if need be, unless MILEPOST_EMBEDDED=off forbids
    it. A function as `url` is called whenever a connection is opened.

    `engine`: an Engine or AsyncEngine of SQLAlchemy. With an Engine of psycopg 3, `connect` and the
    short calls use its pool. What runs for long has connections of its own.

    `session`: the default of `session=` for processors and workers whose handlers have a
    transaction.
    """

    def __init__(
        self,
        url: db.UrlSource | None = None,
        *,
        engine: AnyEngine | None = None,
        schema: str = sql.DEFAULT_SCHEMA,
        directory: str | Path = DEFAULT_DIRECTORY,
        max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        timing: Timing | None = None,
        session: Any = None,
    ) -> None:
        self.schema = sql.check_schema_name(schema)
        self.max_payload_bytes = max_payload_bytes
        named = _named(url, engine)
        if named is None:
            refuse_embedded(os.environ)
        source = EmbeddedServer(Path(directory)).start() if named is None else named
        self._runtime = Runtime(source, self.schema, max_connections, timing or Timing())
        # Where its data are, if nobody named a database.
        self.embedded_directory = Path(directory).resolve() if named is None else None
        self._engine = engine
        self._pool = engine if engine is not None and engines.lends(engine) else None
        self._is_checked = False
        self._processors: dict[str, Processor] = {}
        self._session = None if session is None else binding_of(session)
        self._queue = queue.Registry(self._runtime, self._session)
        self._pipelines: dict[str, Pipeline] = {}

    @classmethod
    def from_django(cls, using: str | None = None, *, orm: bool = True) -> Milepost:
        """On the database of Django's settings: `settings.DATABASES[using]`, by default the alias
        that `settings.MILEPOST` names. With `orm`, what handlers do by Django's ORM is part of
        their transaction, and `tx` is Django's connection. Needs milepost[django]."""
        from milepost.contrib.django.application import from_django

        return from_django(cls, using, orm=orm)

    @property
    def _url(self) -> str:
        return self._runtime.url

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in autocommit mode, closed at the end, or given back to the engine's pool;
        `conn.transaction()` opens a transaction. The first one finds out whether the schema fits
        this code."""
        opened = db.connect(self._url) if self._pool is None else engines.lent(self._pool)
        with self._checked(opened) as conn:
            yield conn

    @contextmanager
    def _checked(self, opened: AbstractContextManager[Connection]) -> Iterator[Connection]:
        with opened as conn, db.acting(conn):
            if not self._is_checked:
                db.check_schema(conn, self.schema)
                self._is_checked = True
            yield conn

    def migrate(
        self,
        order: sql.LogOrder | None = None,
        *,
        key_index: bool = False,
        id_index: bool = False,
        wait_seconds: float = migrations.WAIT_SECONDS,
        on_wait: migrations.OnWait = lambda _blockers: None,
    ) -> list[migrations.Step]:
        """Bring the database to the schema this code needs; harmless when it is there. A change
        of a table waits for its users, at most `wait_seconds`, and tells `on_wait` who they are.

        `key_index`: with the index that conditional appends and reads by key need; `id_index`: with
        the unique one that `once=True` needs. They are created while the log is in use, and stay.
        """
        with db.connect(self._url) as conn, db.owning(conn, self.schema):
            applied = migrations.migrate(
                conn, self.schema, order, wait_seconds=wait_seconds, on_wait=on_wait
            )
            wanted = indexes.wanted(key=key_index, id_=id_index)
            return applied + indexes.create(conn, self.schema, wanted, wait_seconds, on_wait)

    def pending_migrations(
        self,
        order: sql.LogOrder | None = None,
        *,
        key_index: bool = False,
        id_index: bool = False,
    ) -> list[migrations.Step]:
        """What `migrate` would run, without running it."""
        with db.connect(self._url) as conn, db.owning(conn, self.schema):
            wanted = indexes.wanted(key=key_index, id_=id_index)
            return [
                *migrations.plan(conn, self.schema, order),
                *indexes.plan(conn, self.schema, wanted),
            ]

    @overload
    def append(
        self,
        conn: AnyConnection,
        *messages: Message,
        unless: log.Newer | None = ...,
        once: bool = ...,
    ) -> list[Position]: ...
    @overload
    def append(
        self,
        conn: AnyAsyncConnection,
        *messages: Message,
        unless: log.Newer | None = ...,
        once: bool = ...,
    ) -> Awaitable[list[Position]]: ...
    def append(
        self,
        conn: AnyConnection | AnyAsyncConnection,
        *messages: Message,
        unless: log.Newer | None = None,
        once: bool = False,
    ) -> list[Position] | Awaitable[list[Position]]:
        """`milepost.append` with this instance's schema and payload limit."""
        return log.append(
            conn,
            *messages,
            unless=unless,
            once=once,
            schema=self.schema,
            max_payload_bytes=self.max_payload_bytes,
        )

    @contextmanager
    def reader(
        self,
        start: log.Start = "beginning",
        *,
        topics: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        segment: Segment | None = None,
        key: str | None = None,
        batch_size: int = 1000,
    ) -> Iterator[log.Reader]:
        """A reader on a connection of its own, for reading batch by batch. `key`: only the messages
        of one key, by the index of `migrate(key_index=True)`."""
        selection = log.Selection(topics, types, segment, key)
        with db.acting(self._url, "read"), self._checked(db.connect(self._url)) as conn:
            log.require_indexes(conn, selection, self.schema)
            after = log.start_position(conn, start, self.schema)
            yield log.Reader(conn, after, selection, batch_size, self.schema)

    def read(
        self,
        start: log.Start = "beginning",
        *,
        topics: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        segment: Segment | None = None,
        key: str | None = None,
        follow: bool = False,
        poll_seconds: float = 1.0,
        batch_size: int = 1000,
    ) -> Iterator[RecordedMessage]:
        """The messages after `start`, or recorded at that time or later, in order; with `follow`,
        waits for more for ever."""
        with self.reader(
            start, topics=topics, types=types, segment=segment, key=key, batch_size=batch_size
        ) as reader:
            yield from reader.follow(poll_seconds) if follow else reader.messages()

    def processor(
        self, name: str, *, skip_on_replay: bool = False, **options: Unpack[Options]
    ) -> NewProcessor:
        """Make a handler a processor: `@mp.processor("billing", topics=["orders"])`.

        Exactly once (default): `handler(messages, tx)`, where `tx` is a psycopg connection in
        the transaction that also moves the checkpoint; AsyncConnection for `async def`. At
        least once: `handler(messages)`. With `handle="message"`, one message at a time. A
        handler that names `segment`, or `trigger` if it is Checkpointing, is given it.
        With `session=SessionLocal`, `tx` is a Session of SQLAlchemy in that transaction.

        Handlers by type: `billing = mp.processor("billing")`, then `@billing.on("OrderPlaced")`.
        """
        refuse_misspelt(f"Processor {name!r}", options, Options)
        is_exactly_once = options.get("delivery", "exactly_once") == "exactly_once"
        if is_exactly_once and options.get("engine", "process") == "process":
            options.setdefault("session", self._session)
        definition = Definition(
            ProcessorOptions(name, **options), is_delivery_given="delivery" in options
        )
        kind = SparkProcessor if definition.options.engine == "spark" else Processor
        made = kind(definition, self._runtime, self._register, _skip_on_replay=skip_on_replay)
        return cast("NewProcessor", made)

    def _register(self, processor: Processor) -> None:
        """With its first handler: what has none does not run."""
        self._refuse_taken(processor.name)
        self._processors[processor.name] = processor

    @property
    def processors(self) -> Mapping[str, Processor]:
        """The processors of this application, by name."""
        return self._processors

    @overload
    def put(self, conn: AnyConnection, *jobs: Job) -> list[int]: ...
    @overload
    def put(self, conn: AnyAsyncConnection, *jobs: Job) -> Awaitable[list[int]]: ...
    def put(
        self, conn: AnyConnection | AnyAsyncConnection, *jobs: Job
    ) -> list[int] | Awaitable[list[int]]:
        """`milepost.put` with this instance's schema."""
        return queue.put(conn, *jobs, schema=self.schema)

    @overload
    def put_group(
        self, conn: AnyConnection, jobs: Iterable[Job], then: Job
    ) -> tuple[list[int], int]: ...
    @overload
    def put_group(
        self, conn: AnyAsyncConnection, jobs: Iterable[Job], then: Job
    ) -> Awaitable[tuple[list[int], int]]: ...
    def put_group(
        self, conn: AnyConnection | AnyAsyncConnection, jobs: Iterable[Job], then: Job
    ) -> tuple[list[int], int] | Awaitable[tuple[list[int], int]]:
        """`milepost.put_group` with this instance's schema."""
        return queue.put_group(conn, jobs, then, schema=self.schema)

    def worker(
        self, channel: str, **options: Unpack[queue.Options]
    ) -> Callable[[Handler], queue.Worker]:
        """Make a handler a worker: `@mp.worker("emails")`, or `"tenant.*"` for a family of
        channels.

        `handler(job)`: returning completes the job, raising tries it again later; see `Defer`
        and `Cancel`. `handler(job, tx)`: `tx` is a psycopg connection in the transaction that
        also completes the job, or a Session of SQLAlchemy with `session=SessionLocal`. With
        `handle="batch"` it is given a list of jobs. Other parameters are resources of that name.
        """
        return self._queue.worker(channel, options)

    @property
    def workers(self) -> Mapping[str, queue.Worker]:
        """The workers of this application, by their channels."""
        return self._queue.workers

    @property
    def task(self) -> queue.TaskMaker:
        """Make a function a task, to be called later: `@mp.task`, or `@mp.task(channel="emails",
        name="send_receipt", keep_for=timedelta(hours=1))`. Then `send.put(conn, order=1)`."""
        return self._queue.task

    def task_channel(self, channel: str, **options: Unpack[queue.Options]) -> None:
        """Set the options of the worker that runs the tasks of a channel."""
        self._queue.task_channel(channel, options)

    @overload
    def around(self, hook: H, /) -> H: ...
    @overload
    def around(self, /, *, channel: str) -> Callable[[H], H]: ...
    def around(self, hook: H | None = None, /, *, channel: str = "*") -> H | Callable[[H], H]:
        """Put a hook around the jobs of all channels, or of some: `def trace(job, call)` goes on
        with `return call()`, an `async def` with `return await call()`. The first that is
        registered is the outermost. A hook is for handlers of its own colour."""
        add = partial(self._queue.around, channel)
        return add if hook is None else add(hook)

    @overload
    def resource(self, generator: G, /) -> G: ...
    @overload
    def resource(self, /, *, name: str) -> Callable[[G], G]: ...
    def resource(self, generator: G | None = None, /, *, name: str | None = None) -> Any:
        """Make a generator function a resource: what it yields is given to handlers that have a
        parameter of its name. Each worker opens it when it starts and closes it at its end."""
        add = partial(self._queue.resource, name)
        return add if generator is None else add(generator)

    def result(self, id_: int) -> Any:
        """What the handler of a finished job returned; the job must have a `keep_for`."""
        return self._queue.results.result(id_)

    async def result_async(self, id_: int) -> Any:
        """The same for coroutines."""
        return await self._queue.results.result_async(id_)

    def wait_for_result(self, id_: int, timeout: float = queue.DEFAULT_TIMEOUT) -> Any:
        """The result as soon as the job is finished, at most after `timeout` seconds."""
        return self._queue.results.wait(id_, timeout)

    async def wait_for_result_async(self, id_: int, timeout: float = queue.DEFAULT_TIMEOUT) -> Any:
        """The same for coroutines."""
        return await self._queue.results.wait_async(id_, timeout)

    def set_channel(
        self,
        name: str,
        *,
        max_concurrency: int | None = None,
        release_interval: timedelta | float | None = None,
        max_size: int | None = None,
        paused: bool = False,
        max_concurrency_total: int | None = None,
        rate: queue.Rate | None = None,
    ) -> None:
        """Set the whole policy of a channel, or of a family as `tenant.*`; what is left out is
        unlimited. It takes effect immediately."""
        policy = queue.Policy(
            max_concurrency, release_interval, max_size, paused, max_concurrency_total, rate
        )
        with db.acting(self._url, "operate"), self.connect() as conn:
            queue.set_channel(conn, name, policy, self.schema)

    def unset_channel(self, name: str) -> bool:
        """Remove the policy of a channel or a family; whether there was one. Then that of its
        family applies, or none."""
        with db.acting(self._url, "operate"), self.connect() as conn:
            return queue.unset_channel(conn, name, self.schema)

    def set_upkeep(
        self,
        name: str,
        *,
        keep_dead_for: timedelta | None = None,
        ageing: timedelta | None = None,
    ) -> None:
        """Set how a channel, or all channels of a prefix (`tenant.*`, `*`), are kept up. Dead jobs
        are deleted after `keep_dead_for`. A ready job moves one priority up each time it has waited
        for `ageing`. None: never."""
        upkeep = queue.Upkeep(keep_dead_for, ageing)
        with db.acting(self._url, "operate"), self.connect() as conn:
            queue.set_upkeep(conn, name, upkeep, self.schema)

    def retention(
        self,
        *,
        keep: timedelta | None = None,
        keep_messages: int | None = None,
        archive: str | None = None,
        archive_after: timedelta | None = None,
        no_archive: bool = False,
    ) -> None:
        """Set what is kept in the log: what is younger than `keep`, and the newest
        `keep_messages`. The rest is removed by `run`, or by `remove_old`, once every processor and
        pipeline has passed it.

        With `archive`, a directory or an address as `s3://bucket/prefix`, it is written to Parquet
        files before, and all readers read these: everything that is older than `archive_after`, or
        else what may be removed. With `no_archive=True`, what is removed is gone for ever."""
        policy = Policy(keep, keep_messages, archive, archive_after)
        if archive is not None and no_archive:
            raise ValueError("Pass archive or no_archive=True, not both. Nothing was changed.")
        if archive is None and not no_archive:
            raise ValueError(
                "Removed messages are gone for ever, so nothing was changed. Pass archive=PLACE to "
                "keep them in files, or no_archive=True if that is what you want."
            )
        with self.connect() as conn:
            set_policy(conn, policy, self.schema)

    def remove_old(self) -> Removal:
        """Remove what the retention policy does not keep and every consumer has passed."""
        with self.connect() as conn:
            return remove_old(conn, self.schema)

    def archiver(
        self, size: FileSize | None = None, spark: SparkSettings | None = None
    ) -> Archiver:
        """What `run` runs as "archive": `mp.archiver().run(until="caught_up")` writes what is to be
        archived now to files. `spark`: by Spark, with `content`."""
        if spark is None:
            return Archiver(self._runtime, size or FileSize())
        from milepost.pipeline import require_spark

        require_spark()
        from milepost.pipeline.archive import SparkArchiver

        return SparkArchiver(self._runtime, size or FileSize(), settings=spark)

    def schedule(self, name: str, when: queue.Repeat | queue.Cron, job: Job) -> None:
        """Put the job at every tick, exactly once, as long as an application with schedules
        runs. Registered when this one runs; a changed one replaces what was registered. `run`
        calls the scheduler "milepost.schedules"."""
        self._queue.schedule(name, when, job)

    def pipeline(
        self, name: str, *, sink: Sink, **options: Unpack[PipelineKeywords]
    ) -> Callable[[Function], Pipeline]:
        """Make a function from DataFrame to DataFrame a pipeline, whose work Spark does:
        `@mp.pipeline("revenue", topics=["orders"], sink=Upsert(...))`.

        It gets the messages of one batch at a time; with `stateful=True`, all of them as one
        streaming DataFrame.
        """
        refuse_misspelt(f"Pipeline {name!r}", options, PipelineKeywords)

        def register(function: Function) -> Pipeline:
            self._refuse_taken(name)
            definition = PipelineDefinition(PipelineOptions(name, sink, **options), function)
            self._pipelines[name] = Pipeline(definition, self._runtime)
            return self._pipelines[name]

        return register

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines of this application, by name."""
        return self._pipelines

    def graph(self) -> Graph:
        """Topics, processors, pipelines, sinks, channels and workers, and which feed which, as far
        as it is declared. What handlers append or put is known only by `feeds=[...]`."""
        return graph_of(
            processors=[each.definition.options for each in self._processors.values()],
            pipelines=[each.definition.options for each in self._pipelines.values()],
            workers=[each.definition.options for each in self._queue.workers.values()],
            schedules={name: each.job.channel for name, each in self._queue.schedules.items()},
        )

    def downstream(self, name: str) -> list[Pipeline]:
        """The pipelines that a pipeline or topic feeds, directly or not, each after those that feed
        it; itself first, if it is a pipeline."""
        graph = self.graph()
        start = graph.find(name)
        if start is None:
            topics = [node.id for node in graph.nodes if node.kind == "topic"]
            raise UnknownPipeline(name, [*sorted(self._pipelines), *sorted(topics)])
        found = [node.name for node in graph.downstream(start) if node.kind == "pipeline"]
        return [self._pipelines[each] for each in found]

    def run(
        self,
        only: Sequence[str] | None = None,
        until: Until = "stopped",
        stop_seconds: float = 30.0,
        *,
        fail_fast: bool = False,
        spark: SparkSettings | None = None,
        health: tuple[str, int] | None = None,
        probe_limits: ProbeLimits | None = None,
        on_start: Callable[[list[str]], None] = lambda _names: None,
    ) -> None:
        """Run the processors, pipelines and workers, all or some, until SIGTERM or SIGINT; or until
        all have caught up together and the workers' channels are drained.

        One that fails is restarted after a growing pause, and the others go on. With `fail_fast`
        the first failure ends the run.

        If there is a retention policy, now or later, and the role may do it, what is old is
        archived and removed too.

        With `health=("127.0.0.1", 8080)`, `/livez` and `/readyz` answer there meanwhile; see
        `ProbeLimits`.
        """
        refuse_unknown_end(until)
        members = self.members(only, spark)
        if not members:
            raise ValueError(
                "There is nothing to run: no processor, pipeline, worker or schedule is registered"
                f"{'' if only is None else ' or named'}. Add one with @mp.processor(...), "
                "@mp.pipeline(...) or @mp.worker(...), in a module that is imported before run()."
            )
        queue.check_workers(members)
        duties = self._duties_when_wanted() if only is None else []
        group = Group(
            [*members, *duties], stop_seconds, is_fail_fast=fail_fast, newest=self.horizon
        )
        probed = (
            nullcontext() if health is None else self._probed(group, members, health, probe_limits)
        )
        with stopping_on_signals(group.stop), probed:
            self._runtime.check(
                members,
                group.stop,
                self._runtime.part(PolicyWatch).look,
                is_patient=until == "stopped",
            )
            on_start([member.name for member in members])
            try:
                group.run(until)
            except HandlerFailed as error:
                raise error.with_traceback(None)  # noqa: B904 - its cause is the handler's

    def _probed(
        self,
        group: Group,
        members: Sequence[Member],
        address: tuple[str, int],
        limits: ProbeLimits | None,
    ) -> AbstractContextManager[str]:
        from milepost.observe.probe_server import probed  # imports a server that few runs need

        return probed(self._runtime, group, members, address, limits or ProbeLimits())

    def run_archiver(
        self,
        until: Until = "stopped",
        size: FileSize | None = None,
        stop_seconds: float = 30.0,
        spark: SparkSettings | None = None,
    ) -> None:
        """Write what is to be archived to files, until SIGTERM or SIGINT, or until nothing is left
        to archive now. `run` does so too, where the retention policy names an archive."""
        refuse_unknown_end(until)
        group = Group([self.archiver(size, spark)], stop_seconds, newest=self.horizon)
        with stopping_on_signals(group.stop):
            self._runtime.check(group.members, group.stop, is_patient=until == "stopped")
            group.run(until)

    def compact_with_spark(
        self, spark: SparkSettings, target_messages: int = 1_000_000
    ) -> SparkCompaction:
        """Join small files of the archive, and give `content` to those that lack it."""
        from milepost.pipeline.archive import compact_with_spark
        from milepost.pipeline.start_spark import spark_session

        session = spark_session(master=spark.master, config=spark.config)
        with self._checked(db.connect(self._url)) as conn:
            return compact_with_spark(
                session, conn, self._url, self.schema, target_messages=target_messages
            )

    def members(
        self, only: Sequence[str] | None = None, spark: SparkSettings | None = None
    ) -> list[Member]:
        """What `run` runs: processors, pipelines, workers, and the scheduler if there are
        schedules. By name also "archive" and "retention", which `run` runs where there is a
        policy."""
        rooms = self._rooms(spark or SparkSettings())
        if only is not None:
            return [member for name in only for member in self._named(name, rooms)]
        return [member for room in rooms for member in room.values()]

    def _duties(self) -> dict[str, Member]:
        """What no application defines. They have no name in `run` if one of its own has it."""
        return {"archive": self.archiver(), "retention": Remover(self._runtime)}

    def _duties_when_wanted(self) -> list[Member]:
        return [
            WhenWanted(
                self.archiver(), self._runtime, lambda d: d.archives, lambda d: d.may_archive
            ),
            WhenWanted(
                Remover(self._runtime), self._runtime, lambda d: d.removes, lambda d: d.may_remove
            ),
        ]

    def _rooms(self, spark: SparkSettings) -> list[dict[str, Member]]:
        pipelines = {name: pipeline.using(spark) for name, pipeline in self._pipelines.items()}
        processors = {
            name: processor.using(spark) if isinstance(processor, SparkProcessor) else processor
            for name, processor in self._processors.items()
        }
        return [{**processors}, {**pipelines}, {**self._queue.workers}, self._scheduler()]

    def _scheduler(self) -> dict[str, Member]:
        """One for all schedules, if there are any. No worker can have its name."""
        if not self._queue.schedules:
            return {}
        scheduler = queue.Scheduler(list(self._queue.schedules.values()), self._runtime)
        return {scheduler.name: scheduler}

    def _named(self, name: str, rooms: list[dict[str, Member]]) -> list[Member]:
        """A channel may be called like a processor: then both."""
        found = [room[name] for room in rooms if name in room]
        if not found and name in (duties := self._duties()):
            return [duties[name]]
        if not found:
            raise UnknownProcessor(name, sorted({known for room in rooms for known in room}))
        return found

    def _refuse_taken(self, name: str) -> None:
        """A pipeline is a processor too: their checkpoints share one table."""
        if name.startswith("milepost."):
            raise ReservedName(name)
        if name in self._processors or name in self._pipelines:
            kind = "processor" if name in self._processors else "pipeline"
            raise ValueError(f"There is a {kind} {name!r} already.")

    def horizon(self) -> Position:
        """The highest position below which nothing can appear any more."""
        with db.acting(self._url, "read"), self.connect() as conn:
            return log.horizon(conn, self.schema).position

    def diagnose(self) -> Diagnosis:
        """How the log is, and who holds its horizon back; also where it is not migrated."""
        with db.connect(self._url) as conn, db.acting(conn, "metrics"):
            return diagnose(conn, self.schema)

    def examine(self, limits: health.Limits | None = None) -> health.Report:
        """What `milepost doctor` looks at: the log, who follows it, the queue, what runs out."""
        with db.connect(self._url) as conn, db.acting(conn, "metrics"):
            return health.examine(conn, self.schema, limits)

    def dashboard(
        self,
        authorize: Authorize | None = None,
        *,
        read_only: bool = False,
        token: str | None = None,
        listens_on: str | None = None,
        app: str | None = None,
    ) -> Dashboard:
        """The dashboard as an ASGI application, to be mounted in another one. `authorize(request)`
        returns the name of the user, or None to refuse; without it, a page asks for `token`;
        without both, only this machine is served; if `listens_on`, an address, says that others
        reach it, it is read-only. `app`: where the application is, as in "shop:mp"; its pipelines
        can then be rebuilt from their pages. Needs milepost[ui]."""
        from milepost.ui import Rebuilds, dashboard

        rebuilds = None if app is None else Rebuilds(app, self._url)
        return dashboard(
            self,
            authorize=authorize,
            read_only=read_only,
            token=token,
            listens_on=listens_on,
            rebuilds=rebuilds,
        )

    def rebase(self, on_begin: Callable[[], None] = lambda: None) -> str:
        """Make a log that was restored or copied, or has seen a failover, usable here; what was
        done. `on_begin` is called when there is a log to do it to."""
        with self._connect_as_owner() as conn:
            on_begin()
            return rebase(conn, self.schema)

    def grant(self, role: str, *activities: sql.Activity) -> None:
        """Give a role the least privileges that it needs for these activities."""
        with self._connect_as_owner() as conn:
            grants.grant(conn, role, activities, self.schema)

    def grant_script(self, role: str, *activities: sql.Activity) -> str:
        """What `grant` would run, as a script for psql."""
        with self._connect_as_owner() as conn:
            grants.refuse_unknown(conn, role)
        return grants.script(role, activities, self.schema)

    @contextmanager
    def _on_database(self, url: str) -> Iterator[None]:
        """For milepost.testing: use another database in the block. Nothing of this object may run
        at its begin and at its end."""
        source, pool = self._runtime.source, self._pool
        self._rebind(url, None)
        try:
            yield
        finally:
            self._rebind(source, pool)

    def _rebind(self, source: db.UrlSource, pool: AnyEngine | None) -> None:
        self._runtime.rebind(source)
        self._queue.rebind(source)
        self._pool = pool
        self._is_checked = False

    @contextmanager
    def _connect_as_owner(self) -> Iterator[Connection]:
        with db.connect(self._url) as conn, db.owning(conn, self.schema):
            db.check_schema(conn, self.schema)
            yield conn

    def __repr__(self) -> str:
        # Without the URL: it may hold a password.
        return f"Milepost(schema={self.schema!r})"
