"""Files in which self-checkpointing handlers keep their work, fenced by the epoch of the claim.

A handler that was frozen for longer than its claim goes on as if nothing had happened, and saves.
So each claim has a file of its own, named after its segment and its epoch. It is replaced as a
whole: written beside it, synced, renamed. What a former owner still writes goes to the file of a
former epoch, which nobody reads any more, at whatever moment it was frozen. No lock is shared by
two owners: one that is frozen while it saves keeps nobody waiting.

For any key, a later claim has a higher epoch, also across splits, merges and resets. So of several
files that hold a key, that of the highest epoch counts.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from milepost import db, sql
from milepost.errors import StaleWrite
from milepost.processors.self_checkpointing.snapshot import (
    EMPTY,
    Header,
    Saved,
    Snapshot,
    combined,
    continued,
    decoded,
    decoded_header,
    encoded,
    narrower,
    refuse_foreign,
)
from milepost.records import Position, Segment

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.self_checkpointing.api import Trigger

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.(\S+)")
_DATA = "json"


@dataclass(frozen=True, slots=True, order=True)
class FileName:
    """Of a file of one claim; the lowest epoch comes first. Files with another suffix than the data
    are locks, and what was being written."""

    epoch: int
    mask: int
    id: int
    suffix: str = _DATA

    @classmethod
    def of(cls, trigger: Trigger) -> FileName:
        return cls(trigger.epoch, trigger.segment.mask, trigger.segment.id)

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        if (found := _NAME.fullmatch(name)) is None:
            return None
        mask, id_, epoch, suffix = found.groups()
        return cls(int(epoch), int(mask), int(id_), suffix)

    @property
    def segment(self) -> Segment:
        return Segment(self.id, self.mask)

    def __str__(self) -> str:
        return f"{self.mask}-{self.id}-{self.epoch}.{self.suffix}"


@dataclass(frozen=True, slots=True)
class FileStore:
    """A directory that all instances of a processor see: of one machine, or of a file system that
    renames atomically. Entries are JSON values by message key; a save writes all of a segment.

    Load in `on_segment_claimed`: from then on, a former owner's save is refused with `StaleWrite`,
    or goes where nobody reads it. Leave out the messages that the snapshot includes.
    """

    directory: Path | str

    def load(self, trigger: Trigger) -> Snapshot:
        """What is saved of the claimed segment, also by those that it was split or merged from."""
        self._path.mkdir(parents=True, exist_ok=True)
        name = FileName.of(trigger)
        self._refuse_former(name)
        snapshot = self.read(name.segment)
        self._replace(name, Header(None, snapshot.parts), snapshot.entries)
        self._remove_former(name)
        return snapshot

    def save(self, trigger: Trigger, entries: Mapping[str, Any], position: Position) -> None:
        """All entries of the segment. `position` is that of the last message that was handled,
        which may lie beyond the requested one. They are on the disk when it returns."""
        name = FileName.of(trigger)
        refuse_foreign(name.segment, entries)
        with self._locked(name):
            self._refuse_former(name)
            header = self._header(name)
            if header.saved is not None and header.saved > position:
                raise StaleWrite(
                    name.id, name.epoch, f"{header.saved} is saved already, and {position} is lower"
                )
            self._replace(name, continued(name.segment, header, position), entries)

    def clear(
        self,
        conn: Connection,
        processor: str,
        version: int = 1,
        schema: str = sql.DEFAULT_SCHEMA,
    ) -> None:
        """Forget everything after a reset of the processor, before it is resumed.

        An empty directory would not do: a former owner that was frozen since before the reset saves
        late, and the next claim would load that. So an empty file of each segment stays, with the
        epoch of the reset, which refuses former claims. Safe to repeat."""
        self._path.mkdir(parents=True, exist_ok=True)
        marks: list[FileName] = []
        for id_, mask, epoch, is_claimed in db.fetch_all(
            conn, schema, "segments_epochs", processor=processor, version=version
        ):
            if is_claimed:
                reason = "an instance has claimed it: pause the processor, reset it, then clear"
                raise StaleWrite(id_, epoch, reason)
            marks.append(FileName(epoch, mask, id_))
        for mark in marks:
            self._replace(mark, EMPTY, {})
        for name in set(self._names()) - set(marks):
            if any(_is_former(name, mark) for mark in marks):
                (self._path / str(name)).unlink(missing_ok=True)

    def read(self, segment: Segment = Segment.WHOLE) -> Snapshot:
        """What is saved, for somebody who has no claim and writes nothing."""
        while True:
            names = self._overlapping(segment)
            try:
                return combined(segment, [self._saved(name) for name in names])
            except FileNotFoundError:
                # Removed by a later claim, which had written what it held to its own file before.
                if names == self._overlapping(segment):
                    raise

    @property
    def _path(self) -> Path:
        return Path(self.directory)

    def _names(self) -> list[FileName]:
        if not self._path.is_dir():
            return []
        found = (FileName.parse(path.name) for path in self._path.iterdir())
        return [name for name in found if name is not None]

    def _overlapping(self, segment: Segment) -> list[FileName]:
        """The lowest epoch first."""
        found = (name for name in self._names() if name.suffix == _DATA)
        return sorted(name for name in found if narrower(name.segment, segment) is not None)

    def _saved(self, name: FileName) -> Saved:
        with (self._path / str(name)).open("rb") as file:
            return Saved(name.segment, decoded(file.readline(), file.read()))

    def _header(self, name: FileName) -> Header:
        try:
            with (self._path / str(name)).open("rb") as file:
                return decoded_header(file.readline())
        except FileNotFoundError:  # nothing was loaded under this claim
            return EMPTY

    def _refuse_former(self, name: FileName) -> None:
        newest = max((each.epoch for each in self._overlapping(name.segment)), default=0)
        if newest > name.epoch:
            raise StaleWrite(name.id, name.epoch, f"epoch {newest} has it now")

    def _remove_former(self, name: FileName) -> None:
        """What this claim has written to its own file. A wider segment's file stays: it holds what
        the other half has not loaded yet, perhaps."""
        for each in self._names():
            is_within = narrower(each.segment, name.segment) == each.segment
            if is_within and each.epoch < name.epoch:
                (self._path / str(each)).unlink(missing_ok=True)

    def _replace(self, name: FileName, header: Header, entries: Mapping[str, Any]) -> None:
        temporary = self._path / f"{name}.{uuid4().hex}"
        content = encoded(header, entries)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path / str(name))
        except FileNotFoundError as error:
            raise StaleWrite(name.id, name.epoch, "a later claim has removed it") from error
        finally:
            temporary.unlink(missing_ok=True)
        self._sync()

    def _sync(self) -> None:
        """The rename is on the disk, too."""
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _locked(self, name: FileName) -> Iterator[None]:
        """Between looking at what is saved and replacing it. Only this claim takes it: a call that
        was given up may still run in its thread."""
        path = self._path / str(replace(name, suffix="lock"))
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_former(name: FileName, mark: FileName) -> bool:
    return name.epoch < mark.epoch and narrower(name.segment, mark.segment) is not None
