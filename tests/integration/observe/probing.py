"""A real `milepost run --health`, and an orchestrator that asks it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests import zygote
from tests.integration.cli.command import Cli
from tests.waiting import wait_until

APPLICATION = "tests.integration.observe.application:mp"
SERVED = re.compile(r"health=(http://\S+)")
ANSWER_SECONDS = 60.0  # of a machine that is busy; nothing here waits for an answer in vain


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: dict[str, Any]

    def why(self, member: str) -> str:
        return next((each["why"] for each in self.body["failing"] if each["member"] == member), "")


def ask(url: str, method: str = "GET") -> Answer:
    try:
        with urlopen(Request(url, method=method), timeout=ANSWER_SECONDS) as found:  # noqa: S310
            return Answer(found.status, json.loads(found.read() or "null"))
    except HTTPError as error:
        with error:
            return Answer(error.code, json.loads(error.read() or "null"))


class Probed:
    """Its lines are read while it runs."""

    def __init__(self, process: subprocess.Popen[str] | zygote.Process, said: IO[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        Thread(target=self._read, args=(said,), daemon=True).start()
        wait_until(self._served)

    @property
    def url(self) -> str:
        (found,) = [match[1] for line in self.lines if (match := SERVED.search(line))]
        return found

    def livez(self) -> Answer:
        return ask(f"{self.url}/livez")

    def readyz(self) -> Answer:
        return ask(f"{self.url}/readyz")

    def is_live(self) -> bool:
        return self.livez().code == 200

    def is_ready(self) -> bool:
        return self.readyz().code == 200

    def _read(self, said: IO[str]) -> None:
        with said:
            self.lines.extend(iter(said.readline, ""))

    def _served(self) -> bool:
        assert self.process.poll() is None, self.lines
        return any(SERVED.search(line) for line in list(self.lines))


@contextmanager
def running(url: str, *options: str, only: str = "slow") -> Iterator[Probed]:
    """Forked from the zygote: to import Milepost would take longer than most of these tests."""
    reading, writing = os.pipe()
    command, environment = ["milepost", *_arguments(only, options)], Cli(url)._environment()
    with Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno(), nothing.fileno(), writing]
        process = zygote.start_at(zygote.zygote(), command, environment, streams, Path.cwd())
    os.close(writing)
    try:
        yield Probed(process, os.fdopen(reading))
    finally:
        process.end()


@contextmanager
def running_for_real(url: str, *options: str, only: str = "slow") -> Iterator[Probed]:
    """As a terminal starts it."""
    with Cli(url).start(*_arguments(only, options)) as process:
        assert process.stderr is not None
        try:
            yield Probed(process, process.stderr)
        finally:
            process.kill()


def _arguments(only: str, options: tuple[str, ...]) -> list[str]:
    return ["run", APPLICATION, "--only", only, "--health", "127.0.0.1:0", *options]
