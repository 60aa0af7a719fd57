"""The SQL files and how they become statements.

`schema.sql` has the tables, as migration 1; `migrations/` what later releases change in them,
numbered and applied once; `functions/` the functions, one per file, replaced whenever they change;
`queries/` what Python runs by name; `grants/` the privileges of each activity. In all of them
`{schema}` is replaced by the quoted name of the schema, and every name is qualified with it, so
that no search_path can change the meaning of a statement.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from milepost.errors import InvalidSchemaName

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LogOrder = Literal["append", "transaction"]
# What a role can be permitted to do; each has a file in `grants/`.
Activity = Literal[
    "append", "read", "put", "process", "work", "pipeline", "archive", "operate", "metrics"
]  # fmt: skip
DEFAULT_SCHEMA = "milepost"
# The last migration of the previous release, whose code still runs on this release's schema. What
# that code needs is dropped in the next release at the earliest (docs/upgrading.md).
OLDEST_CODE = 1
# Only plain lower-case names: they need no escaping where they are rendered, and they leave room
# for a suffix within PostgreSQL's 63 bytes.
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_ROOT = files(__name__)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


def check_schema_name(schema: str) -> str:
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidSchemaName(schema)
    return schema


def render(text: str, schema: str, order: LogOrder = "append") -> str:
    check_schema_name(schema)
    return (
        text.replace("{schema}", f'"{schema}"')
        .replace("{channel}", f"'{schema}'")
        .replace("{queue}", f'"{schema}_queue"')
        .replace("{order}", order)
    )


@cache
def query(name: str, schema: str = DEFAULT_SCHEMA) -> bytes:
    """The named query for psycopg, as bytes: psycopg accepts bytes that are not a literal."""
    return render((_ROOT / "queries" / f"{name}.sql").read_text("utf-8"), schema).encode()


@cache
def migrations() -> tuple[Migration, ...]:
    baseline = Migration(1, "baseline", (_ROOT / "schema.sql").read_text("utf-8"))
    return (baseline, *map(_migration, _sql_files(_ROOT / "migrations")))


@cache
def functions(order: LogOrder) -> str:
    """All functions of a log with this order, as one script."""
    common = _sql_files(_ROOT / "functions")
    own = _sql_files(_ROOT / "functions" / f"{order}_order")
    return "\n".join(file.read_text("utf-8") for file in (*common, *own))


@cache
def grants(activity: Activity | Literal["any"]) -> str:
    """The privileges of an activity; `any`: those that all activities need."""
    return (_ROOT / "grants" / f"{activity}.sql").read_text("utf-8")


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _migration(file: Traversable) -> Migration:
    number, _, name = file.name.removesuffix(".sql").partition("_")
    return Migration(int(number), name, file.read_text("utf-8"))


def _sql_files(folder: Traversable) -> list[Traversable]:
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)
