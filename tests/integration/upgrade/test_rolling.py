"""From this release to a made-up next one (releases.py), without a stop: the old code runs on while
the schema is migrated under load, then its processes are replaced one by one. Nothing is lost,
doubled, or in error. The release after that drops what the old code needed, and refuses it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from milepost import db, migrate
from milepost.db import Connection
from tests.integration.upgrade.releases import LAST, NEXT_LAST, SOURCE, make_later, make_next
from tests.waiting import wait_until

HERE = Path(__file__).parent
KINDS = ("plain", "shared", "parking", "job")
COUNTING = "counting:mp"  # in a process of its own: starting Spark takes seconds
PATIENCE_SECONDS = 120.0
# What a log line or an answer holds where something went wrong.
TROUBLE = (
    "Traceback",
    " ERROR ",
    "state=failed",
    "state=reconnecting",
    "lost the server",
    "Error:",
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where each release is imported from."""
    place = tmp_path_factory.mktemp("releases")
    following = make_next(place)
    return {"old": SOURCE, "new": following, "later": make_later(following, place)}


@dataclass(slots=True)
class Program:
    """A process of one of the releases; what it says goes to a file."""

    process: subprocess.Popen[str]
    file: Path

    def says(self) -> str:
        return self.file.read_text()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.says()


@dataclass(slots=True)
class Fleet:
    url: str
    directory: Path
    sources: dict[str, Path]
    programs: list[Program] = field(default_factory=list)

    def environment(self, release: str) -> dict[str, str]:
        wanted = {"MILEPOST_URL": self.url, "PYTHONPATH": str(self.sources[release])}
        return os.environ | wanted

    def start(self, release: str, *arguments: str) -> Program:
        file = self.directory / f"{len(self.programs)}-{release}.log"
        with file.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=HERE, env=self.environment(release),
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        self.programs.append(Program(process, file))
        return self.programs[-1]

    def run(self, release: str, application: str = "application:mp") -> Program:
        return self.start(release, "-m", "milepost.cli", "run", application)

    def write(self, release: str, first: int) -> Program:
        return self.start(release, "writer.py", str(first))

    def migrate(self, release: str) -> None:
        program = self.start(release, "-m", "milepost.cli", "migrate")
        assert program.process.wait(PATIENCE_SECONDS) == 0, program.says()

    def close(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.process.kill()
            program.process.communicate()


def end_of(writer: Program) -> int:
    """Which number the next writer begins with."""
    writer.process.communicate("", PATIENCE_SECONDS)
    assert writer.process.returncode == 0, writer.says()
    return int(writer.says())


@contextmanager
def fleet_of(url: str, directory: Path, sources: dict[str, Path]) -> Iterator[Fleet]:
    fleet = Fleet(url, directory, sources)
    try:
        yield fleet
    finally:
        fleet.close()


def fewest(conn: Connection, kinds: int) -> int:
    """Effects of the kind of which there are fewest."""
    rows = conn.execute("select count(*) from effects group by kind").fetchall()
    return min(count for (count,) in rows) if len(rows) == kinds else 0


def upgrade(fleet: Fleet, conn: Connection) -> int:
    """All of it; answers with how many messages and jobs there were."""
    conn.execute("create table effects (kind text, n integer)")
    fleet.migrate("old")
    assert db.applied_number(conn, "milepost") == LAST
    writer, olds = fleet.write("old", 0), [fleet.run("old"), fleet.run("old")]
    wait_for_progress(conn)
    fleet.migrate("new")
    assert db.applied_number(conn, "milepost") == NEXT_LAST
    wait_for_progress(conn)  # of old code on the new schema
    fleet.migrate("old")  # in a start script: nothing is changed back
    olds.append(fleet.run("old"))
    assert migrate.plan(conn, "milepost") == []
    news = []
    for old in olds:
        news.append(fleet.run("new"))
        wait_until(lambda: "state=" in news[-1].says(), PATIENCE_SECONDS)
        old.stop()
        wait_for_progress(conn)
    next_number = end_of(writer)
    writer = fleet.write("new", next_number)
    wait_for_progress(conn)
    fleet.migrate("later")
    wait_for_progress(conn)  # of the next release on the schema of the one after it
    count = end_of(writer)
    wait_until(lambda: fewest(conn, len(KINDS)) >= count, PATIENCE_SECONDS)
    for new in news:
        new.stop()
    return count


def check_is_too_old(program: Program) -> None:
    assert program.process.wait(PATIENCE_SECONDS) != 0
    assert "pip install --upgrade milepost" in program.says()


def wait_for_progress(conn: Connection) -> None:
    """Of everything that runs."""
    kinds, before = len(KINDS), fewest(conn, len(KINDS))
    wait_until(lambda: fewest(conn, kinds) > before + 50, PATIENCE_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_processes_are_replaced_one_by_one_while_the_work_goes_on(
    empty_database: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    with (
        db.connect(empty_database) as conn,
        fleet_of(empty_database, tmp_path, sources) as fleet,
    ):
        count = upgrade(fleet, conn)
        for kind in KINDS:
            found = conn.execute("select n from effects where kind = %s order by n", [kind])
            assert [n for (n,) in found] == list(range(count)), kind
        check_for_trouble(fleet.programs)
        check_is_too_old(fleet.run("old"))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_pipeline_is_replaced_while_messages_are_written(
    empty_database: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    """A pipeline has one driver: the old one goes on while the schema is migrated, and ends before
    the new one starts."""
    with (
        db.connect(empty_database) as conn,
        fleet_of(empty_database, tmp_path, sources) as fleet,
    ):
        fleet.migrate("old")
        writer, old = fleet.write("old", 0), fleet.run("old", COUNTING)
        wait_for_counted(conn)
        fleet.migrate("new")
        wait_for_counted(conn)  # by old code on the new schema
        old.stop()
        new = fleet.run("new", COUNTING)
        wait_for_counted(conn)
        count = end_of(writer)
        wait_until(lambda: counted(conn) == count, PATIENCE_SECONDS)
        new.stop()
        found = conn.execute("select n, seen from counted order by n").fetchall()
        assert found == [(n, 1) for n in range(count)]
    check_for_trouble(fleet.programs)


PLANNED = (
    "take(n)",  # of no channel: whom it calls in turn is planned later
    "take_from(array['emails'], n)",
    "heartbeat(array[n], array[1], interval '1 minute')",
)


def test_calls_of_the_old_release_find_their_functions_planned_before_the_upgrade_or_after_it(
    empty_database: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    """A worker's statement knows its functions from the moment in which it was planned."""
    waited = "(select 1 as n from pg_advisory_lock_shared(1) offset 0)"
    with (
        fleet_of(empty_database, tmp_path, sources) as fleet,
        db.connect(empty_database) as keeper,
        ExitStack() as workers,
        ThreadPoolExecutor(len(PLANNED)) as pool,
    ):
        fleet.migrate("old")
        keeper.execute("select pg_advisory_lock(1)")
        answers = {}
        try:
            for call in PLANNED:
                worker = workers.enter_context(db.connect(empty_database))
                statement = f"select answer.* from {waited} as waited, milepost.{call} as answer"  # noqa: S608
                answers[call] = pool.submit(worker.execute, statement.encode())
                wait_until(partial(is_waiting_for_lock, keeper, worker))
            fleet.migrate("new")
        finally:
            keeper.execute("select pg_advisory_unlock(1)")
        errors = {call: answer.exception(PATIENCE_SECONDS) for call, answer in answers.items()}
        assert errors == dict.fromkeys(PLANNED)
        for call in PLANNED:
            statement = f"select from (select 1 as n) as one, milepost.{call}"
            keeper.execute(statement.encode())


def is_waiting_for_lock(conn: Connection, other: Connection) -> bool:
    query = "select wait_event = 'advisory' from pg_stat_activity where pid = %s"
    return bool(db.one(conn.execute(query, [other.info.backend_pid]).fetchone())[0])


def counted(conn: Connection) -> int:
    """None before the first batch has made the table."""
    if conn.execute("select to_regclass('counted')").fetchone() == (None,):
        return 0
    return int(db.one(conn.execute("select count(*) from counted").fetchone())[0])


def wait_for_counted(conn: Connection) -> None:
    before = counted(conn)
    wait_until(lambda: counted(conn) > before + 50, PATIENCE_SECONDS)


def check_for_trouble(programs: Iterable[Program]) -> None:
    for program in programs:
        said = program.says()
        assert not [word for word in TROUBLE if word in said], said
