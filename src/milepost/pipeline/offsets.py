"""Spark's checkpoint directory: which range each batch has, and whether the directory still fits
the checkpoint in PostgreSQL, which is the truth.

Before a batch runs, Spark writes its end to `offsets/<number>`; after it, `commits/<number>`.
Beside these, `milepost.json` says where the very first batch began. All through Hadoop's file
systems, so that the directory may be anywhere Spark can write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from milepost.records import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_FILE = "milepost.json"


@dataclass(frozen=True, slots=True)
class Began:
    """What is written into a new directory."""

    run: str
    start: Position


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """How far Spark has come by its own account."""

    began: Began
    last_start: Position  # of the last batch that was planned
    last_end: Position
    is_committed: bool

    def fits(self, checkpoint: Position) -> bool:
        """Whether Spark's next batch begins at the checkpoint, or is one that is done already."""
        if checkpoint == self.last_end:
            return True
        return checkpoint == self.last_start and not self.is_committed


class Resume(Enum):
    """What to do with a directory at the start."""

    GO_ON = "go on"
    BEGIN_ANEW = "begin anew"
    REFUSE = "refuse"


def resume(state: DirectoryState | None, checkpoint: Position, *, keeps_state: bool) -> Resume:
    """The checkpoint is the truth. A directory that does not fit it is set aside, unless it holds
    state that the log cannot replace. Pure."""
    if state is not None and state.fits(checkpoint):
        return Resume.GO_ON
    return Resume.REFUSE if keeps_state else Resume.BEGIN_ANEW


def parse_end(text: str) -> Position:
    """The end of a batch from its file: a version, a line about the batch, a line a source."""
    lines = text.splitlines()
    offset = json.loads(lines[2])
    return Position(offset["transaction_id"], offset["position"])


@dataclass(slots=True)
class CheckpointDirectory:
    """One directory of one query."""

    spark: SparkSession
    path: str
    _files: _Files = field(init=False)
    _last: tuple[int, Position] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._files = _Files(self.spark, self.path)

    def state(self) -> DirectoryState | None:
        """None if there is none, or one that no pipeline began."""
        began = self.began()
        if began is None:
            return None
        planned = self._files.numbers("offsets")
        if not planned:
            return DirectoryState(began, began.start, began.start, is_committed=False)
        last = max(planned)
        return DirectoryState(
            began,
            self.start_of(last, began),
            self.end_of(last),
            last in self._files.numbers("commits"),
        )

    def began(self) -> Began | None:
        text = self._files.read(_OWN_FILE)
        if text is None:
            return None
        document = json.loads(text)
        return Began(document["run"], Position.parse(document["start"]))

    def begin(self, start: Position) -> Began:
        """A new directory; what is there is set aside."""
        self._files.set_aside()
        began = Began(uuid4().hex, start)
        self._files.write(_OWN_FILE, json.dumps({"run": began.run, "start": str(start)}))
        return began

    def start_of(self, batch: int, began: Began) -> Position:
        if batch == 0:
            return began.start
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
    """The few things to do with files, through the JVM. Its classes are looked up once: each step
    of a dotted name is a call to the JVM."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._read = jvm.org.apache.commons.io.IOUtils.toString
        self._root = self._path_class(path)
        configuration = spark._jsc.hadoopConfiguration()
        self._system = self._root.getFileSystem(configuration)

    def read(self, name: str) -> str | None:
        path = self._path_class(self._root, name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._read(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path_class(self._root, name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def numbers(self, folder: str) -> set[int]:
        """The names in a folder that are numbers: Spark leaves others beside them."""
        path = self._path_class(self._root, folder)
        if not self._system.exists(path):
            return set()
        names = [status.getPath().getName() for status in self._system.listStatus(path)]
        return {int(name) for name in names if name.isdigit()}

    def set_aside(self) -> None:
        """Kept under another name, in place of what was set aside before."""
        if not self._system.exists(self._root):
            return
        aside = self._root.suffix(".aside")
        self._system.delete(aside, True)
        if not self._system.rename(self._root, aside):
            raise OSError(f"{self._root.toString()} could not be set aside: remove it.")
