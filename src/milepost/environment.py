"""The environment variables that name the database, and those that look like them."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from milepost.errors import InvalidSetting, NoDatabaseNamed

if TYPE_CHECKING:
    from collections.abc import Mapping

EMBEDDED = "MILEPOST_EMBEDDED"
# Variables that users may set in the belief that we read them. Names are shown, values never.
_OTHER_NAMES = (
    "DATABASE_URI", "DATABASE_URL", "DB_URL", "MILEPOST_DATABASE_URL", "MILEPOST_DB_URL",
    "MILEPOST_DSN", "MILEPOST_PG_URL", "POSTGRESQL_URL", "POSTGRES_URL",
)  # fmt: skip
_ALIKE = 0.85  # MILEPOST_URI, MILEPOST_ULR, milepost_url, MILEPSOT_URL
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def is_embedded_wanted(environ: Mapping[str, str]) -> bool | None:
    """Whether MILEPOST_EMBEDDED asks for the embedded server or forbids it; None: neither."""
    value = environ.get(EMBEDDED, "").strip().lower()
    if not value:
        return None
    if value not in _ON + _OFF:
        raise InvalidSetting(EMBEDDED, environ[EMBEDDED], "on or off")
    return value in _ON


def refuse_embedded(environ: Mapping[str, str]) -> None:
    """Called before the embedded server is used because no database is named."""
    if is_embedded_wanted(environ) is False:
        raise NoDatabaseNamed(unread_names(environ))


def unread_names(environ: Mapping[str, str]) -> list[str]:
    """Variables that look as if they name the database, but are not read."""
    return sorted(name for name, value in environ.items() if value and _is_mistaken(name))


def _is_mistaken(name: str) -> bool:
    if name == "MILEPOST_URL":
        return False
    alike = SequenceMatcher(None, name.upper(), "MILEPOST_URL").ratio()
    return name in _OTHER_NAMES or alike >= _ALIKE
