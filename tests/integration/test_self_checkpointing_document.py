"""The program that docs/self-checkpointing.md begins with is run as it is written there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from milepost import FileStore, Message, Milepost
from milepost.db import Connection
from tests.documents.blocks import to_run
from tests.integration.examples.running import Place
from tests.integration.processors.segments.claiming import expire_all
from tests.waiting import wait_until

DOCUMENT = Path(__file__).parents[2] / "docs" / "self-checkpointing.md"
RUN = "milepost run counts:mp"
COUNTS = {f"key-{n}": 30 for n in range(20)}


@pytest.fixture
def place(url: str, tmp_path: Path) -> Place:
    (tmp_path / "counts.py").write_text(to_run(DOCUMENT)[0].text)
    return Place(url, tmp_path)


def saved(place: Place) -> dict[str, int]:
    return FileStore(place.directory / "counts").read().entries


def append(mp: Milepost, conn: Connection) -> None:
    keys = [key for key, count in COUNTS.items() for _ in range(count)]
    mp.append(conn, *(Message("Counted", {}, key=key) for key in keys))


@pytest.mark.parametrize("order", ["append"])
def test_the_first_program_is_complete(place: Place, mp: Milepost, conn: Connection) -> None:
    append(mp, conn)
    with place.start(RUN) as process:
        try:
            wait_until(lambda: sum(saved(place).values()) > 0)  # it saves itself while it runs
        finally:
            process.kill()
    expire_all(conn)
    append(mp, conn)
    place.said(f"{RUN} --until caught_up")
    assert saved(place) == Counter(COUNTS) + Counter(COUNTS)
    place.said(f"{RUN} --until caught_up")
    assert saved(place) == Counter(COUNTS) + Counter(COUNTS)


def test_the_page_begins_with_it() -> None:
    text = DOCUMENT.read_text()
    assert text.index("```python") < text.index("| callback |") < text.index("\n## ")
