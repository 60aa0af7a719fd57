"""Where files are: a directory, or an address that pyarrow knows (`s3://`, `gs://`).

Credentials come from the environment, as pyarrow's file systems take them. An address with
credentials is refused, because it is stored and shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from milepost.errors import ArchiveFileBroken, ArchiveNotInstalled, InvalidArchive

if TYPE_CHECKING:
    from pyarrow import fs

# What an address may say besides the place. Anything else might be a secret.
_HARMLESS = frozenset({"endpoint_override", "region", "scheme", "allow_bucket_creation"})


@dataclass(frozen=True, slots=True)
class Location:
    """An address that was checked. A directory is an absolute path."""

    address: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Refuses credentials, and what pyarrow does not know."""
        if "://" not in text:
            return cls(str(Path(text).expanduser().resolve()))
        parts = urlsplit(text)
        if parts.username or parts.password:
            raise InvalidArchive(
                f"{parts.scheme}://{parts.hostname or ''}", "it has credentials in it"
            )
        if unknown := [name for name, _ in parse_qsl(parts.query) if name not in _HARMLESS]:
            raise InvalidArchive(
                f"{parts.scheme}://{parts.netloc}{parts.path}",
                f"its parameter {unknown[0]!r} is not one of {', '.join(sorted(_HARMLESS))}",
            )
        if parts.scheme == "file":
            return cls(parts.path.rstrip("/") or "/")
        found = cls(text)
        found.filesystem()
        return found

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    def file_address(self, name: str) -> str:
        """Of a file, for people. An address may have parameters after its path."""
        place, mark, parameters = self.address.partition("?")
        return f"{place.rstrip('/')}/{name}{mark}{parameters}"

    def filesystem(self) -> fs.FileSystem:
        return _opened(self.address)[0]

    def path(self, name: str) -> str:
        """Of a file, as the file system wants it. The manifest names it: a name that leads
        elsewhere is refused."""
        if "/" in name or name == "..":
            problem = "its name in the manifest leads out of the folder"
            raise ArchiveFileBroken(self.file_address(name), problem)
        return f"{_opened(self.address)[1].rstrip('/')}/{name}"


@cache
def _opened(address: str) -> tuple[Any, str]:
    """One file system for each address: those of object stores keep connections."""
    try:
        import pyarrow as pa
        from pyarrow import fs
    except ImportError:
        raise ArchiveNotInstalled from None
    if "://" not in address:
        return fs.LocalFileSystem(), address
    try:
        system, path = fs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidArchive(address, str(error)) from None
    return system, path
