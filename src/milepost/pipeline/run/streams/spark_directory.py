"""Spark's checkpoint directory: the range of each batch, and whether the directory still fits the
checkpoint in PostgreSQL, which decides.

Before a batch runs, Spark writes its end to `offsets/<number>`, and then `commits/<number>`. Our
own file `milepost.json` has the start of the first batch. All files are accessed through Hadoop's
file systems, so that the directory may be anywhere Spark can write.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from milepost.records import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_FILE = "milepost.json"


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """How far Spark has come, as its files say."""

    last_start: Position  # of the last batch that was planned
    last_end: Position
    is_committed: bool

    def fits(self, checkpoint: Position, *, is_leading: bool = False) -> bool:
        """Whether Spark's next batch starts at the checkpoint, or is already done. `is_leading`:
        Spark writes by itself, and the checkpoint follows, so it may be behind."""
        if checkpoint == self.last_end or (is_leading and checkpoint < self.last_end):
            return True
        return checkpoint == self.last_start and not self.is_committed


def parse_end(text: str) -> Position:
    """The end of a batch from its file: a version, a line about the batch, a line per source."""
    return Position(**json.loads(text.splitlines()[2]))


@dataclass(slots=True)
class CheckpointDirectory:
    """One directory of one query, to be opened or begun first."""

    spark: SparkSession
    path: str
    run: str = field(init=False)  # its id
    start: Position = field(init=False)  # of its first batch
    _files: _Files = field(init=False)
    _last: tuple[int, Position] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._files = _Files(self.spark, self.path)

    def open(self) -> bool:
        """False if there is no directory, or not one of a pipeline."""
        text = self._files.read(_OWN_FILE)
        if text is None:
            return False
        document = json.loads(text)
        self.run, self.start = document["run"], Position.parse(document["start"])
        return True

    def begin(self, start: Position) -> None:
        """Start a new directory. An existing one is set aside."""
        self._files.set_aside()
        self.run, self.start = uuid4().hex, start
        self._files.write(_OWN_FILE, json.dumps({"run": self.run, "start": str(start)}))

    def state(self) -> DirectoryState:
        planned = self._files.numbers("offsets")
        if not planned:
            return DirectoryState(self.start, self.start, is_committed=False)
        last = max(planned)
        start, end = self.start_of(last), self.end_of(last)
        return DirectoryState(start, end, last in self._files.numbers("commits"))

    def start_of(self, batch: int) -> Position:
        if batch == 0:
            return self.start
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self.end_of(batch - 1)

    def end_of(self, batch: int) -> Position:
        text = self._files.read(f"offsets/{batch}")
        if text is None:
            raise FileNotFoundError(f"{self.path}/offsets/{batch}")
        end = parse_end(text)
        self._last = (batch, end)
        return end


class _Files:
    """Access to files through the JVM. Classes are looked up once: each step of a dotted name is a
    call to the JVM."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._read = jvm.org.apache.commons.io.IOUtils.toString
        self._root = self._path_class(path)
        self._system = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    def read(self, name: str) -> str | None:
        path = self._path_class(self._root, name)
        if not self._system.exists(path):
            return None
        with closing(self._system.open(path)) as stream:
            return str(self._read(stream, "UTF-8"))

    def write(self, name: str, text: str) -> None:
        with closing(self._system.create(self._path_class(self._root, name), True)) as stream:
            stream.write(bytearray(text.encode()))

    def numbers(self, folder: str) -> set[int]:
        """The names in a folder that are numbers. Spark also writes others."""
        path = self._path_class(self._root, folder)
        if not self._system.exists(path):
            return set()
        names = [status.getPath().getName() for status in self._system.listStatus(path)]
        return {int(name) for name in names if name.isdigit()}

    def set_aside(self) -> None:
        """Renamed, in place of what was set aside before."""
        if not self._system.exists(self._root):
            return
        aside = self._root.suffix(".aside")
        self._system.delete(aside, True)
        if not self._system.rename(self._root, aside):
            raise OSError(f"{self._root.toString()} could not be renamed: remove it.")
