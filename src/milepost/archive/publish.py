"""Make a file durable under its name: on disk or uploaded, before the manifest knows of it.

A name has the range, the epoch of the writer, and a tag of the database. Two writers never use the
same name, and a file of another database is never taken for an orphan of this one.

Other files may be in the same place: a database that was restored from a dump and its original, for
example, share what was archived before the dump.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.errors import ArchiveUnwritable
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.log.history import Location

_DIGITS = 19
_NAME = re.compile(
    r"(\d{19})-(\d{19})_(\d{19})-(\d{19})_e(\d+)_([0-9a-f]{8})(?:_[0-9a-z]+)?\.parquet"
)
_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileName:
    """`serial` distinguishes files of the same range and epoch, as after a compaction."""

    after: Position
    last: Position
    epoch: int
    database: str
    serial: str = ""

    def __str__(self) -> str:
        places = (self.after, self.last)
        texts = [f"{p.transaction_id:0{_DIGITS}}-{p.position:0{_DIGITS}}" for p in places]
        end = f"_{self.serial}" if self.serial else ""
        return f"{texts[0]}_{texts[1]}_e{self.epoch}_{self.database}{end}.parquet"

    @classmethod
    def parse(cls, text: str) -> FileName | None:
        """None for a file that is not ours."""
        found = _NAME.fullmatch(text)
        if found is None:
            return None
        numbers = [int(part) for part in found.groups()[:5]]
        after, last = Position(*numbers[:2]), Position(*numbers[2:4])
        return cls(after, last, numbers[4], found[6])


def database_tag(system_identifier: int, database: str, schema: str) -> str:
    return sha256(f"{system_identifier} {database} {schema}".encode()).hexdigest()[:8]


@contextmanager
def scratch_file(location: Location) -> Iterator[Path]:
    """A path for a file that is being written; gone afterwards, unless it was published. For a
    directory it is inside, so that publishing is a rename."""
    if not location.is_local:
        with tempfile.TemporaryDirectory(prefix="milepost-archive-") as folder:
            yield Path(folder) / "file.parquet"
        return
    folder_path = Path(location.address)
    with unwritable(location):
        _make_durably(folder_path)
        handle, name = tempfile.mkstemp(suffix=".parquet.tmp", prefix=".", dir=folder_path)
        os.close(handle)
    try:
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def publish(location: Location, scratch: Path, name: str) -> None:
    """Afterwards a crash of this host, or of the server, leaves the whole file there."""
    with unwritable(location):
        if location.is_local:
            _rename_durably(scratch, Path(location.address) / name)
        else:
            _upload(location, scratch, name)


def _make_durably(folder: Path) -> None:
    """A directory is durable when the one above it is, in which it is listed."""
    if not folder.is_dir():
        _make_durably(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _rename_durably(scratch: Path, final: Path) -> None:
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    scratch.chmod(0o644)  # temporary files are private, and readers may be others
    scratch.rename(final)
    _sync(final.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _upload(location: Location, scratch: Path, name: str) -> None:
    """An object appears when its upload is completed, or not at all."""
    system, path = location.filesystem(), location.path(name)
    with scratch.open("rb") as source, system.open_output_stream(path) as target:
        shutil.copyfileobj(source, target, _CHUNK)
    uploaded, written = system.get_file_info(path).size, scratch.stat().st_size
    if uploaded != written:
        raise OSError(f"the upload has {uploaded} bytes instead of {written}")


@contextmanager
def unwritable(location: Location) -> Iterator[None]:
    """What the file system refuses is our error."""
    try:
        yield
    except OSError as error:
        raise ArchiveUnwritable(location.address, str(error)) from error
