from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from milepost import Message, Milepost, Segment, append
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.server import TestServer


@pytest.fixture
def order() -> LogOrder:
    """What a command does with lines is the same in both orders."""
    return "append"


def lines(*objects: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in objects)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Whatever the test finds: no process outlives it."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def following(cli: Cli, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return ended(cli.start("read", "--follow", *arguments))


def first_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_what_read_prints_append_takes(cli: Cli, mp: Milepost, server: TestServer) -> None:
    """`milepost read | milepost append --url other`, through a real pipe."""
    given = [
        {"type": "A", "data": {"n": 1, "text": "Ünï\n\\"}, "key": "k", "topic": "orders"},
        {"type": "B", "data": [None, 1.5], "metadata": {"by": "me"}},
        {"type": "C", "data": None},
    ]
    assert cli.run("append", stdin=lines(*given)).code == 0
    name = server.create_database("other")
    try:
        other = Cli(server.url(name))
        assert other.run("migrate").code == 0
        reading = cli.start("read", stdin=subprocess.DEVNULL)
        assert reading.stdout is not None
        appending = other.start("append", stdin=reading.stdout.fileno())
        reading.stdout.close()
        _, remarks = appending.communicate(timeout=60)
        _, complaints = reading.communicate(timeout=60)
        assert (reading.returncode, complaints) == (0, "")
        assert (appending.returncode, remarks) == (0, "appended 3 messages, last position 0:3\n")
        copies = list(Milepost(server.url(name)).read())
    finally:
        server.drop_database(name)
    originals = list(mp.read())
    assert [(m.type, m.data, m.key, m.topic, m.metadata) for m in originals] == [
        ("A", {"n": 1, "text": "Ünï\n\\"}, "k", "orders", {}),
        ("B", [None, 1.5], None, "default", {"by": "me"}),
        ("C", None, None, "default", {}),
    ]
    assert [(m.id, m.type, m.data, m.key, m.topic, m.metadata) for m in copies] == [
        (m.id, m.type, m.data, m.key, m.topic, m.metadata) for m in originals
    ]


def test_read_prints_every_field(cli: Cli, conn: Connection, mp: Milepost) -> None:
    append(conn, Message("A", {"n": 1}, key="k", topic="t", metadata={"m": 1}))
    (message,) = mp.read()
    result = cli.run("read")
    assert result.lines() == [
        {
            "position": str(message.position),
            "id": str(message.id),
            "topic": "t",
            "key": "k",
            "type": "A",
            "data": {"n": 1},
            "metadata": {"m": 1},
            "recorded_at": message.recorded_at.isoformat().replace("Z", "+00:00"),
        }
    ]


def test_options_fill_in_what_a_line_does_not_say(cli: Cli, mp: Milepost) -> None:
    given = lines({"data": 1}, {"data": 2, "type": "own", "key": None, "topic": "own"})
    result = cli.run("append", "--type", "T", "--key", "K", "--topic", "U", stdin=given)
    assert result.code == 0, result.stderr
    assert [(m.type, m.key, m.topic) for m in mp.read()] == [("T", "K", "U"), ("own", None, "own")]


def test_the_summary_is_json_on_request_and_else_leaves_stdout_alone(cli: Cli) -> None:
    assert cli.run("append", stdin=lines({"type": "A", "data": 1})).stdout == ""
    result = cli.run("append", "--json", stdin=lines({"type": "A", "data": 1}))
    assert (result.document(), result.stderr) == ({"appended": 1, "last_position": "0:2"}, "")
    assert cli.run("append", "--json").document() == {"appended": 0, "last_position": None}


def test_a_bad_line_is_named_with_what_was_committed_before(cli: Cli, mp: Milepost) -> None:
    good = [{"type": "A", "data": n} for n in range(5)]
    result = cli.run("append", "--batch-size", "2", stdin=lines(*good) + '\n{"type": \n')
    assert result.code == 1
    assert result.stderr.startswith("error: line 7: the line is not JSON:")
    assert "Committed before: 4 messages, up to line 4." in result.stderr
    assert [m.data for m in mp.read()] == [0, 1, 2, 3]


def test_atomic_appends_everything_or_nothing(cli: Cli, mp: Milepost, conn: Connection) -> None:
    good = [{"type": "A", "data": n} for n in range(5)]
    arguments = ("append", "--atomic", "--batch-size", "2")
    result = cli.run(*arguments, stdin=lines(*good, {"type": "", "data": 0}))
    assert (result.code, list(mp.read())) == (1, [])
    assert "error: line 6: type is empty" in result.stderr
    assert "Nothing was committed." in result.stderr
    assert cli.run(*arguments, stdin=lines(*good)).code == 0
    assert conn.execute("select count(distinct xmin::text) from milepost.messages").fetchone() == (
        1,
    )


def test_lines_the_server_refuses_are_named(cli: Cli, mp: Milepost, conn: Connection) -> None:
    conn.execute("create unique index on milepost.messages (id)")
    twice = {"type": "A", "data": 1, "id": "00000000-0000-4000-8000-000000000001"}
    given = lines({"type": "A", "data": 0}, {"type": "A", "data": 0}, twice, twice)
    result = cli.run("append", "--batch-size", "2", stdin=given)
    assert result.code == 1
    assert result.stderr.startswith("error: lines 3 to 4: duplicate key value")
    assert "Committed before: 2 messages, up to line 2." in result.stderr
    assert len(list(mp.read())) == 2


def test_a_message_is_appended_while_the_input_stays_open(cli: Cli, mp: Milepost) -> None:
    """A batch that is not full does not wait for lines that may never come."""
    process = cli.start("append")
    try:
        assert process.stdin is not None
        process.stdin.write(lines({"type": "Early", "data": 1}))
        process.stdin.flush()
        assert next(mp.read(follow=True, poll_seconds=0.05)).type == "Early"
        assert process.poll() is None
    finally:
        process.communicate(timeout=60)


def test_messages_come_from_a_file_too(cli: Cli, mp: Milepost, tmp_path: Path) -> None:
    file = tmp_path / "messages.json"
    file.write_text(lines({"type": "A", "data": 1}).rstrip("\n"))
    assert cli.run("append", str(file)).code == 0
    assert [m.type for m in mp.read()] == ["A"]
    missing = cli.run("append", f"{file}.not")
    assert (missing.code, "No such file" in missing.stderr) == (1, True)


def test_follow_gets_a_message_that_is_appended_later(cli: Cli, conn: Connection) -> None:
    append(conn, Message("Before", {}))
    with following(cli) as process:
        assert first_line(process)["type"] == "Before"
        append(conn, Message("Later", {}))
        assert first_line(process)["type"] == "Later"


def test_follow_passes_a_message_on_through_a_pipe(
    cli: Cli, mp: Milepost, conn: Connection
) -> None:
    """`read --follow | append`: one message goes through, though neither end is closed."""
    with following(cli, "--topic", "in") as reading:
        assert reading.stdout is not None
        appending = cli.start("append", stdin=reading.stdout.fileno())
        try:
            source = Message("Passed", {"n": 1}, topic="in")
            append(conn, source)
            for message in mp.read(follow=True, poll_seconds=0.05):
                if message.id == source.id and message.position.position > 1:
                    break
        finally:
            appending.kill()
            appending.communicate()


@pytest.mark.parametrize("start", [Cli.start, Cli.start_in_background])
def test_an_interrupted_follower_ends_quietly(
    cli: Cli, conn: Connection, start: Callable[..., subprocess.Popen[str]]
) -> None:
    append(conn, Message("A", {}))
    with ended(start(cli, "read", "--follow")) as process:
        first_line(process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "")


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_a_reader_whose_pipe_is_closed_ends_quietly(
    cli: Cli, conn: Connection, follow: list[str]
) -> None:
    """`milepost read | head -1`, with more to come than a pipe holds; and a follower that has
    nothing more to write does not wait for it."""
    append(conn, *(Message("A", "x" * 1000) for _ in range(1 if follow else 1000)))
    process = cli.start("read", *follow)
    first_line(process)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
    process.communicate()


def test_reading_starts_where_it_is_told(cli: Cli, conn: Connection, mp: Milepost) -> None:
    append(conn, *(Message(f"T{n}", n) for n in range(5)))
    append(conn, Message("Late", 5))
    times = [m.recorded_at for m in mp.read()]
    after_two = cli.run("read", "--from", "2").lines()
    assert [m["data"] for m in after_two] == [2, 3, 4, 5]
    assert after_two == cli.run("read", "--from", "0:2").lines()
    since = cli.run("read", "--from", times[5].isoformat()).lines()
    assert [m["data"] for m in since] == [5]
    future = (times[5] + timedelta(days=1)).isoformat()
    assert cli.run("read", "--from", future).stdout == ""
    assert cli.run("read", "--from", "end").stdout == ""


def test_reading_filters_and_ends_at_a_limit(cli: Cli, conn: Connection) -> None:
    messages = [
        Message("A" if n % 2 else "B", n, key=f"k{n}", topic=f"t{n % 3}") for n in range(60)
    ]
    append(conn, *messages)
    arguments = ("--topic", "t0", "--topic", "t1", "--type", "A", "--segment", "1/3")
    chosen = [
        m.data for m in messages if m.topic != "t2" and m.type == "A" and Segment(1, 3).holds(m.key)
    ]
    assert [m["data"] for m in cli.run("read", *arguments).lines()] == chosen
    assert [m["data"] for m in cli.run("read", *arguments, "--limit", "2").lines()] == chosen[:2]
    followed = cli.run("read", *arguments, "--limit", "2", "--follow")
    assert [m["data"] for m in followed.lines()] == chosen[:2]
