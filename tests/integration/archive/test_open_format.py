"""The directory is plain Parquet: other programs read it, and count what PostgreSQL counted. They
are asked what docs/archive.md asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from milepost.archive.upkeep import compact
from tests.archiving import Archive, append_ranges, remove

DOCUMENT = Path(__file__).parents[3] / "docs" / "archive.md"
COUNTED = """
select topic, count(*), sum((data->>'amount')::bigint) from milepost.messages group by topic
order by topic
"""


def documented(first_words: str) -> str:
    """The block of code that begins with them."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if block.lstrip().startswith(first_words)]
    return str(found)


def asked(code: str, **known: Any) -> Any:
    """What the last expression of a block of the document is."""
    *before, last = re.split(r"\n(?=\S)(?!\"\"\"|\))", code.strip())
    exec("\n".join(before), known)  # noqa: S102 - our own document
    return eval(last, known)  # noqa: S307


@pytest.fixture
def counted(archive: Archive) -> list[tuple[Any, ...]]:
    """What PostgreSQL counts, of messages that are then only in files."""
    ranges = append_ranges(archive.conn, 5, 400)
    found = archive.conn.execute(COUNTED).fetchall()
    archive.archive_each(ranges)
    compact(archive.conn, "milepost", min_messages=900, target_messages=900)
    assert len(archive.files()) == 3
    remove(archive.conn, ranges[-1][-1])
    return found


@pytest.fixture
def files(archive: Archive, counted: list[tuple[Any, ...]]) -> list[str]:
    """As the document finds them."""
    known: dict[str, Any] = {"conn": archive.conn}
    exec(documented("files = "), known)  # noqa: S102 - our own document
    found: list[str] = known["files"]
    assert found == [file.address for file in archive.files()]
    return found


def test_duckdb_counts_the_same(files: list[str], counted: list[tuple[Any, ...]]) -> None:
    code = documented("import duckdb")
    assert asked(code, files=files).fetchall() == counted


def test_duckdb_finds_a_key(archive: Archive, files: list[str]) -> None:
    """With statistics and bloom filters."""
    query = (
        "select count(*), count(recorded_at), count(distinct position) from read_parquet($files)"
    )
    for key, number in (("k3", 285), ("k33", 0)):
        found = duckdb.sql(f"{query} where key = $key", params={"files": files, "key": key})
        assert found is not None
        assert found.fetchall() == [(number, number, number)]


def test_pandas_counts_the_same(files: list[str], counted: list[tuple[Any, ...]]) -> None:
    found = asked(documented("import pandas"), files=files)
    assert found.to_dict() == {topic: number for topic, number, _ in counted}
    whole = pd.read_parquet(files[0])
    assert str(whole.dtypes["recorded_at"]) == "datetime64[us, UTC]"
    assert whole["recorded_at_text"].isna().all()


def test_the_document_asks_the_manifest(archive: Archive, counted: list[tuple[Any, ...]]) -> None:
    rows = archive.conn.execute(documented("select location").encode()).fetchall()
    assert [row[1] for row in rows] == [file.name for file in archive.files()]
