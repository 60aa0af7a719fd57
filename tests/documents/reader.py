"""Somebody who enters what a document says, from top to bottom: one Python, one terminal, one
directory and one database for all of it.

- `python`: is run, with the names of all blocks before it; `await` works, too. If its first line is
  `# name.py`, the block is written into that file instead, behind what is there.
- `sh`: is run by a shell that stops at the first command which fails. What it exports is there in
  the next block. `milepost run app:mp` (without `--until`) runs until the next one, or the end.
- `sql`: is run on the database of MILEPOST_URL.
- `interrupt`, which is always hidden: Ctrl-C for the `milepost run` that is running.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from milepost import db
from tests.documents.blocks import ROOT, Block
from tests.documents.command import ZYGOTE
from tests.waiting import wait_until

FILE = re.compile(r"# (\w+\.py)")
RUN = re.compile(r"milepost run (?!.*--until)")
FOLLOW = re.compile(r"milepost .*--follow")
SERVE = re.compile(r"milepost (ui|metrics .*--listen)")
CONNECTED = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'milepost %%' and backend_start > %s
"""
EXPORTED = ".exported"
INTERRUPTED = 130
PATIENCE_SECONDS = 240.0  # for Spark to start, on a busy machine
# `milepost` without the second that Python takes to import it (tests/zygote.py).
COMMAND = f"""\
#!/bin/sh
PYTHONPATH='{ROOT}' exec '{sys.executable}' -S -m tests.documents.command "$@"
"""


class CommandFailed(Exception):
    def __init__(self, line: str, code: int, output: str) -> None:
        super().__init__(f"exit code {code} of: {line}\n{output}")


@dataclass
class Reader:
    directory: Path
    zygote: int  # the file descriptor of the way to one
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__document__"})
    said: str = ""  # by the commands that have ended
    running: subprocess.Popen[str] | None = field(default=None, init=False)
    loop: asyncio.Runner = field(default_factory=asyncio.Runner, init=False)

    def __post_init__(self) -> None:
        programs = self.directory / ".programs"
        programs.mkdir()
        (programs / "milepost").write_text(COMMAND)
        (programs / "milepost").chmod(0o755)
        (self.directory / EXPORTED).touch()

    @contextmanager
    def reading(self, blocks: Iterable[Block]) -> Iterator[None]:
        """With the last `milepost run` still running."""
        try:
            for block in blocks:
                self.enter(block)
            yield
            self.stop()
        finally:
            self.loop.close()
            if self.running is not None:
                self.running.kill()
                self.running.communicate()

    def enter(self, block: Block) -> None:
        try:
            METHODS[block.language](self, block)
        except Exception as exc:
            exc.add_note(f"at {block.place}")
            raise

    def python(self, block: Block) -> None:
        if found := FILE.match(block.text):
            with (self.directory / found[1]).open("a") as file:
                file.write(block.text)
            return
        # Its lines have the numbers that they have in the document, for tracebacks.
        text = "\n" * (block.line - 1) + block.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(text, str(block.document), "exec", flags, dont_inherit=True)
        awaited = eval(code, self.names)  # noqa: S307 - our own documents
        if inspect.iscoroutine(awaited):
            self.loop.run(awaited)

    def sql(self, block: Block) -> None:
        with db.connect(self.url) as conn:
            conn.execute(block.text.encode())

    def shell(self, block: Block) -> None:
        for kind, lines in groupby(lines_of(block.text), self.kind_of):
            if kind == "script":
                self.finish("".join(lines))
                continue
            for line in lines:
                getattr(self, kind)(line.strip())

    def kind_of(self, line: str) -> str:
        """Which method enters it."""
        if RUN.match(line):
            return "start"
        if SERVE.match(line):
            return "serve"
        return "follow" if FOLLOW.match(line) else "script"

    @property
    def url(self) -> str:
        return os.environ["MILEPOST_URL"]

    def finish(self, script: str) -> None:
        # An assignment with a word that is not there would go on: -u.
        text = f"set -eu\n{script}\nexport -p > '{self.directory / EXPORTED}'\n"
        process = self._popen(text, [self.directory / ".programs"])
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        self.said += output
        if process.returncode != 0:
            raise CommandFailed(script, process.returncode, output)

    def interrupt(self, block: Block) -> None:
        if self.running is None:
            raise ValueError("no `milepost run` is running")
        self.stop()

    def start(self, line: str) -> None:
        """In another terminal: it runs on while the next lines are entered."""
        self.stop()
        begun = datetime.now(UTC)
        self.running = self._popen(f"exec {line}")
        wait_until(lambda: self.is_running(begun), PATIENCE_SECONDS)

    def is_running(self, since: datetime) -> bool:
        """Connected, so that it hears a Ctrl-C from now on."""
        assert self.running is not None
        if self.running.poll() is not None:
            output, _ = self.running.communicate()
            raise CommandFailed("milepost run", self.running.returncode, output)
        with db.connect(self.url) as conn:
            return bool(db.one(conn.execute(CONNECTED, [since]).fetchone())[0])

    def stop(self) -> None:
        """As Ctrl-C does: what has begun is finished, and that is a success."""
        if self.running is None:
            return
        self.running.send_signal(signal.SIGINT)
        output, _ = self.running.communicate(timeout=PATIENCE_SECONDS)
        self.said += output
        if self.running.returncode != 0:
            raise CommandFailed("milepost run", self.running.returncode, output)
        self.running = None

    def follow(self, line: str, count: int = 1) -> list[str]:
        """Until it has shown so many lines; then Ctrl-C."""
        with self._popen(f"exec {line}") as process:
            assert process.stdout is not None
            shown = [process.stdout.readline() for _ in range(count)]
            process.send_signal(signal.SIGINT)
        if process.returncode != INTERRUPTED:
            raise CommandFailed(line, process.returncode, "".join(shown))
        return shown

    def serve(self, line: str) -> None:
        """Until it has said where it listens; then Ctrl-C, which is a success."""
        with self._popen(f"exec {line}") as process:
            assert process.stdout is not None
            said = next((each for each in process.stdout if "http://" in each), "")
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
        if process.returncode != 0 or not said:
            raise CommandFailed(line, process.returncode, said + rest)

    def _popen(self, script: str, programs: Iterable[Path] = ()) -> subprocess.Popen[str]:
        ours = [*programs, Path(sys.executable).parent]
        path = os.pathsep.join([*map(str, ours), os.environ["PATH"]])
        return subprocess.Popen(
            ["/bin/sh", "-c", f". ./{EXPORTED}\nexport PATH='{path}'\n{script}"],
            cwd=self.directory,
            env=os.environ | {ZYGOTE: str(self.zygote)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[self.zygote],
        )


METHODS = {
    "python": Reader.python,
    "sh": Reader.shell,
    "sql": Reader.sql,
    "interrupt": Reader.interrupt,
}


def lines_of(script: str) -> list[str]:
    """With the lines that continue them."""
    return re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", script)
