"""`settings.MILEPOST`, checked, and the database that it names.

The URL is asked for whenever a connection is opened: Django's test runner renames the database
after an application's modules were imported, and each of its parallel processes has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections
from django.dispatch import receiver
from psycopg import ProgrammingError
from psycopg.conninfo import make_conninfo

from milepost.errors import InvalidSchemaName
from milepost.log import DEFAULT_MAX_PAYLOAD_BYTES
from milepost.runtime import DEFAULT_MAX_CONNECTIONS
from milepost.sql import DEFAULT_SCHEMA, check_schema_name

# Of psycopg's connect(), and not of the server's address.
_NOT_IN_URL = ("autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory")
DEFAULT_APP = "milepost.contrib.django.default:mp"


@dataclass(frozen=True, slots=True)
class MilepostSettings:
    """`MILEPOST = {"USING": "default", ...}`, with the names in upper case. `app` is what
    `manage.py milepost run` runs. `pgbouncer`: the database is behind PgBouncer in transaction
    mode."""

    using: str = DEFAULT_DB_ALIAS
    schema: str = DEFAULT_SCHEMA
    app: str = DEFAULT_APP
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    pgbouncer: bool = False

    def __post_init__(self) -> None:
        for name in ("max_connections", "max_payload_bytes"):
            if getattr(self, name) < 1:
                raise wrong(name, getattr(self, name), "at least 1")
        if ":" not in self.app:
            raise wrong("app", self.app, "MODULE:NAME, such as 'shop.processors:mp'")
        try:
            check_schema_name(self.schema)
        except InvalidSchemaName as error:
            raise ImproperlyConfigured(f"settings.MILEPOST['SCHEMA']: {error}") from error
        if self.using not in connections.settings:
            known = ", ".join(map(repr, connections.settings))
            raise wrong("using", self.using, f"a key of settings.DATABASES ({known})")


@cache
def milepost_settings() -> MilepostSettings:
    """Read once, and again when a test overrides them: `append` asks for them at each call."""
    given = getattr(settings, "MILEPOST", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(
            f"settings.MILEPOST is a {type(given).__name__}: expected a dict, such as "
            "{'USING': 'default'}."
        )
    kinds = {field.name.upper(): type(field.default) for field in fields(MilepostSettings)}
    for name, value in given.items():
        _check(name, value, kinds)
    return MilepostSettings(**{name.lower(): value for name, value in given.items()})


@receiver(setting_changed)
def _forget(*, setting: str, **_rest: Any) -> None:
    if setting in ("MILEPOST", "DATABASES"):
        milepost_settings.cache_clear()


def _check(name: object, value: object, kinds: Mapping[str, type]) -> None:
    if name not in kinds:
        near = get_close_matches(str(name).upper(), kinds, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(kinds)
        raise ImproperlyConfigured(
            f"settings.MILEPOST has the unknown key {name!r}.{hint} Known keys: {known}."
        )
    kind = kinds[str(name)]
    if type(value) is not kind:  # True is no number
        raise wrong(str(name), value, f"a value of type {kind.__name__}")


def wrong(name: str, value: object, expected: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"settings.MILEPOST[{name.upper()!r}] is {value!r}: expected {expected}."
    )


def database_url(using: str) -> str:
    """Of `settings.DATABASES[using]`, as it is now. It has the password: never show it."""
    database = connections[using]
    if database.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"settings.DATABASES[{using!r}] is {database.display_name}: Milepost works on "
            "PostgreSQL. Name another database: MILEPOST = {'USING': ...}."
        )
    given: dict[str, Any] = database.get_connection_params()
    pgbouncer = milepost_settings().pgbouncer
    if pgbouncer and database.settings_dict["OPTIONS"].get("assume_role"):
        raise ImproperlyConfigured(
            f"settings.DATABASES[{using!r}]['OPTIONS'] has assume_role, which PgBouncer in "
            "transaction mode does not keep. Connect as that role, or directly to the server."
        )
    parts = {name: value for name, value in given.items() if name not in _NOT_IN_URL}
    if not pgbouncer and (options := _options(database, parts.get("options"))):
        parts["options"] = options
    try:
        url = make_conninfo("", **parts)
    except ProgrammingError as error:
        raise ImproperlyConfigured(
            f"settings.DATABASES[{using!r}]['OPTIONS'] has what libpq does not know: {error}."
        ) from None
    return f"{url} pgbouncer=true" if pgbouncer else url


def _options(database: Any, given: str | None) -> str:
    """What Django sets on each of its connections, as defaults of the session: so they are still
    there after a session was reset. PgBouncer would refuse them."""
    wanted = {
        "TimeZone": database.timezone_name,
        "role": database.settings_dict["OPTIONS"].get("assume_role"),
    }
    own = [f"-c {name}={_escaped(value)}" for name, value in wanted.items() if value]
    return " ".join([*([given] if given else []), *own])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
