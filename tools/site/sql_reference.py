"""The reference of SQL: the functions that programs may call, and the tables, with the comments
that their files have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tools.site.links import ROOT, documents

SQL = ROOT / "src" / "milepost" / "sql"
# What is for callers. The others are parts of these, or of what Milepost's own processes do.
FUNCTIONS = {
    "The log": (
        "append", "append_many", "append_once", "append_many_once", "append_unless_newer",
        "append_many_unless_newer", "read", "read_key", "horizon", "horizon_holders", "position_at",
        "key_hash",
    ),
    "The queue": (
        "put", "put_many", "put_bytes", "put_many_bytes", "take", "heartbeat", "complete", "defer",
        "fail", "give_back", "cancel_running", "cancel", "retry", "set_channel", "unset_channel",
        "pause_channel", "set_upkeep",
    ),
    "Processors of your own": (
        "store_checkpoint", "create_segments", "tend_claims", "fair_share", "claim_segments",
        "release_segment", "leave_segments", "want_segments", "split_segment", "merge_segments",
        "request_retry", "drop_dead_letters",
    ),
    "Metrics": ("metrics",),
}  # fmt: skip
FUNCTION = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)"
    r"^create or replace function \{schema\}\.(?P<name>\w+)(?P<signature>\(.*?)\s+language\b",
    re.DOTALL | re.MULTILINE,
)
TABLE = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^create table \{schema\}\.(?P<name>\w+) \((?P<columns>.*?)^\)",
    re.DOTALL | re.MULTILINE,
)
CALL = re.compile(r"\bmilepost\.(\w+)\(")
INTRODUCTION = (
    "Functions and tables of the schema `milepost`, for programs in any language. What a role "
    "needs to call a function: [Security](../security.md)."
)


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    comment: str
    text: str


def page() -> str:
    parts = ["# SQL", INTRODUCTION]
    for title, names in FUNCTIONS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += [f"### {name}", *(_shown(each) for each in functions(name))]
    parts += ["## Tables", *(f"### {t.name}\n\n{_shown(t)}" for t in tables())]
    return "\n\n".join(parts)


def problems() -> Iterator[str]:
    for name in _names():
        if not functions(name):
            yield f"the function milepost.{name} of the SQL reference does not exist"
        elif not functions(name)[0].comment:
            yield f"the function milepost.{name} is public and has no comment"
    yield from (f"the table {t.name} has no comment" for t in tables() if not t.comment)
    yield from _not_shown()


@cache
def functions(name: str) -> list[Described]:
    """One for each list of parameters that it has; the order of the log does not change them."""
    files = sorted((SQL / "functions").rglob(f"{name}.sql"))
    return [
        Described(name, _first_paragraph(found["comment"]), f"milepost.{name}{_plain(found)}")
        for file in files[:1]
        for found in FUNCTION.finditer(file.read_text())
        if found["name"] == name
    ]


@cache
def tables() -> list[Described]:
    """As a new database has them."""
    found = TABLE.finditer((SQL / "schema.sql").read_text())
    return [
        Described(
            table["name"], _first_paragraph(table["comment"]),
            f"milepost.{table['name']} ({table['columns']})",
        )
        for table in sorted(found, key=lambda table: table["name"])
    ]  # fmt: skip


def _names() -> list[str]:
    return [name for names in FUNCTIONS.values() for name in names]


def _shown(described: Described) -> str:
    text = described.text.replace("{schema}", "milepost")
    return f"{described.comment}\n\n```sql\n{text}\n```"


def _plain(found: re.Match[str]) -> str:
    return found["signature"].strip()


def _first_paragraph(comment: str) -> str:
    """What it does. The paragraphs after it say why it does so in this way."""
    lines = (line.removeprefix("--").strip() for line in comment.splitlines())
    return " ".join(lines and "\n".join(lines).split("\n\n")[0].split()).replace(
        "{schema}", "milepost"
    )


def _not_shown() -> Iterator[str]:
    known = {path.stem for path in (SQL / "functions").rglob("*.sql")}
    for document in documents():
        for name in sorted(set(CALL.findall(document.read_text())) & known - set(_names())):
            yield f"{document.name} calls milepost.{name}(), which is not in the SQL reference"
