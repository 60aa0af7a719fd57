"""Any sequence of appends, archivings, removals, compactions and reads: readers see what the model
has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from milepost import Milepost
from milepost.db import Connection
from milepost.errors import MilepostError
from milepost.log import read
from milepost.log.history import History, manifest
from milepost.log.history.cold import Stretch, forget_files
from milepost.log.history.rows import Rows
from tests.archiving import Archive
from tests.integration.log.history.machine import Log
from tests.models import look_for_a_fault, run_model

EXAMPLES = 30
ROUNDS = 50


@pytest.fixture
def machine(mp: Milepost, conn: Connection, archive: Archive) -> Iterator[type[Log]]:
    with mp.connect() as other:
        facts = {"conn": conn, "other": other, "archive": archive}
        yield type("BoundLog", (Log,), facts)
    forget_files()


def test_readers_see_what_the_model_has(machine: type[Log]) -> None:
    run_model(machine, EXAMPLES)


def _forgets_the_next_group(stretch: Stretch, after: Any, up_to: Any, count: int) -> Any:
    rows, reached = READ(stretch, after, up_to, count)
    return rows, up_to if reached == stretch.last else reached


def _reads_its_first_row_again(rows: Rows, position: Any) -> int:
    return max(0, FIRST_AFTER(rows, position) - 1)


READ, FIRST_AFTER = Stretch.read, Rows.first_after
SABOTAGE: dict[str, tuple[Any, str, Any]] = {
    "the next row group": (Stretch, "read", _forgets_the_next_group),
    "the cut by position": (Rows, "first_after", _reads_its_first_row_again),
    "the filter": (Rows, "selected", lambda rows, _: rows),
    "late times": (read, "position_since", lambda *_: None),
    "names in the manifest": (manifest.ArchivedFile, "may_have", lambda *_: False),
    "another look at the manifest": (
        History, "read",
        lambda h, _, after, up_to, selection, count: h._stretch_of(
            h._file, after, selection
        ).read(after, up_to, count),
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("guard", SABOTAGE)
def test_the_model_notices_a_reader_that_is_broken(
    machine: type[Log], guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, broken = SABOTAGE[guard]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, MilepostError, ValueError)):
        look_for_a_fault(machine, ROUNDS)
