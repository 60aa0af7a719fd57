"""The processes of the archive's torture: one of each role at any time, killed and replaced.

Only processes that were started here are ever killed.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.archive import instance

ROOT = Path(__file__).parents[3]


class InstanceEnded(Exception):
    """By itself, which an instance never should. `error`: the name of the class that it raised."""

    def __init__(self, role: str, said: str) -> None:
        super().__init__(f"the {role} ended by itself:\n{said[-4000:]}")
        self.role = role
        self.said = said

    @property
    def error(self) -> str | None:
        raised = re.findall(r"^milepost\.errors\.(\w+)", self.said, re.MULTILINE)
        return raised[-1] if raised else None


@dataclass(frozen=True, slots=True)
class Instance:
    role: str
    process: subprocess.Popen[bytes]
    errors: Path  # what it says

    def check(self) -> None:
        """It ends when it is killed, never by itself."""
        if self.process.poll() is not None:
            raise InstanceEnded(self.role, self.said)

    @property
    def said(self) -> str:
        return self.errors.read_text()

    def kill(self) -> None:
        """With its Java, if it has one."""
        with suppress(ProcessLookupError):  # all of it has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True)
class Instances:
    url: str
    directory: Path  # for what they say, and for Spark
    rng: random.Random
    living: dict[str, Instance] = field(default_factory=dict)
    started: int = 0

    def start(self, *roles: str) -> None:
        for role in roles:
            file = self.directory / f"{self.started}.{role}.errors"
            command = [sys.executable, "-m", instance.__name__, role, self.url]
            command.append(str(self.rng.getrandbits(32)))
            places = {"SPARK_LOCAL_DIRS": str(self.directory / "spark")}
            with file.open("wb") as errors:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=os.environ | places,
                    stderr=errors,
                    start_new_session=True,
                )
            self.living[role] = Instance(role, process, file)
            self.started += 1

    def replace(self, role: str) -> None:
        self.check()
        self.kill(role)
        self.start(role)

    def kill(self, role: str) -> None:
        self.living.pop(role).kill()

    def check(self) -> None:
        for each in self.living.values():
            each.check()

    def kill_all(self) -> None:
        for role in list(self.living):
            self.kill(role)

    def wait_for_its_own_kill(self, role: str) -> None:
        """Of an instance that kills itself, at the worst moment."""
        victim = self.living.pop(role)
        if victim.process.wait(60) != -signal.SIGKILL:
            raise InstanceEnded(role, victim.said)
