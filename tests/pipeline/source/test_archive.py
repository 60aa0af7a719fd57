"""Reading a log whose beginning is archived: the same messages, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from milepost import Message, Milepost, Position
from milepost.db import Connection
from milepost.errors import (
    ArchiveFileBroken,
    ArchiveFileMissing,
    RangeRemoved,
    UnreadableMessage,
)
from milepost.log.history.cold import forget_files
from milepost.pipeline.source import Conditions, Planner, Range, RangeReader
from milepost.pipeline.source.options import SourceOptions, parse
from milepost.pipeline.source.parts import Part
from tests.pipeline.archived import Archive, thirds
from tests.pipeline.sourcing import append
from tests.undecodable import KINDS, append_undecodable

append_order = pytest.mark.parametrize("order", ["append"])
BEGINNING = Position.BEGINNING


def options_of(url: str, **given: str) -> SourceOptions:
    return parse({"url": url, **given}, {})


@contextmanager
def planning(options: SourceOptions) -> Iterator[Planner]:
    with closing(Planner(options)) as planner:
        yield planner


def read(options: SourceOptions, parts: list[Part]) -> list[dict[str, Any]]:
    reader = RangeReader(options)
    found = [batch for part in parts for batch in reader.batches(part.range, part.file)]
    return pa.Table.from_batches(found).to_pylist() if found else []


def read_all(url: str, conditions: Conditions | None = None, **given: str) -> list[dict[str, Any]]:
    options = options_of(url, **given)
    if conditions is not None:
        options = replace(options, conditions=conditions)
    with planning(options) as planner:
        parts = planner.split(Range(planner.start(), planner.end()))
    return read(options, parts)


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["data"].partition(":")[2].strip(" }")) for row in rows]


def mixed(mp: Milepost) -> list[Position]:
    """Two topics, two types, five keys and none."""
    positions: list[Position] = []
    for first in range(0, 90, 30):
        positions += append(mp, 20, first=first)
        positions += append(mp, 9, topic="other", first=first + 20)
        with mp.connect() as conn:
            positions += mp.append(conn, Message("Keyless", {"n": first + 29}, topic="other"))
    return positions


def conditions_of(positions: list[Position], times: list[datetime]) -> list[Conditions]:
    return [
        Conditions(),
        Conditions(topics=frozenset({"orders"})),
        Conditions(topics=frozenset({"other"}), types=frozenset({"Odd", "Keyless"})),
        Conditions(topics=frozenset()),
        Conditions(types=frozenset({"Never"})),
        Conditions(keys=frozenset({"k1", "k4"})),
        Conditions(not_keys=frozenset({"k1"})),
        Conditions(not_topics=frozenset({"other"}), not_types=frozenset({"Even"})),
        Conditions(is_keyed=False),
        Conditions(is_keyed=True, not_types=frozenset({"Odd"})),
        Conditions(min_position=13, max_position=58),
        Conditions(min_transaction_id=positions[40].transaction_id),
        Conditions(max_transaction_id=positions[40].transaction_id),
        Conditions(recorded_from=times[25], recorded_to=times[61]),
        Conditions(recorded_to=times[3] - timedelta(days=1)),
        Conditions(recorded_from=times[-1] + timedelta(days=1)),
    ]


def test_the_same_messages_wherever_they_are(mp: Milepost, url: str, archive: Archive) -> None:
    positions = mixed(mp)
    messages = list(mp.read())
    cases = conditions_of(positions, [message.recorded_at for message in messages])
    chosen = frozenset(str(messages[i].id) for i in (2, 50, 88))
    cases += [Conditions(ids=chosen), Conditions(not_ids=chosen)]
    before = [read_all(url, each) for each in cases]
    assert [len(rows) for rows in before[:4]] == [90, 60, 15, 0]

    archive.up_to(*thirds(positions))
    assert [read_all(url, each) for each in cases] == before  # rows are in both
    archive.remove(positions[44])
    assert [read_all(url, each) for each in cases] == before  # a file is half in the table
    archive.up_to(positions[-1])
    archive.remove(positions[-1])
    assert [read_all(url, each) for each in cases] == before  # the table is empty


def test_what_is_archived_is_read_from_files_while_the_rows_are_there(
    mp: Milepost, url: str, archive: Archive, conn: Connection
) -> None:
    positions = append(mp, 30)
    archive.up_to(positions[19])
    conn.execute("delete from milepost.messages where position <= %s", [positions[19].position])
    assert numbers(read_all(url)) == list(range(30))
    assert numbers(read_all(url, columns="data")) == list(range(30))


def test_tasks_divide_files_at_their_row_groups(mp: Milepost, url: str, archive: Archive) -> None:
    positions = append(mp, 100)
    archive.up_to(positions[24], positions[69])
    for given in ({"partitions": "7"}, {"messagesPerPartition": "10"}, {"partitions": "1"}):
        options = options_of(url, **given)
        with planning(options) as planner:
            parts = planner.split(Range(positions[2], positions[97]))
        assert numbers(read(options, parts)) == list(range(3, 98))
        assert parts[0].range.after == positions[2]
        assert all(one.range.last == two.range.after for one, two in pairwise(parts))
        ends = [part.range.last for part in parts if part.file is not None]
        if "partitions" in given:
            assert len(parts) in (3, 7)
        else:
            assert ends == [positions[i] for i in (9, 19, 24, 34, 44, 54, 64, 69)]


def test_files_and_row_groups_that_have_nothing_of_it_are_not_opened(
    mp: Milepost, url: str, archive: Archive
) -> None:
    first, second = append(mp, 20, topic="other"), append(mp, 20)
    files = archive.up_to(first[-1], second[-1])
    archive.remove(second[-1])
    forget_files()
    archive.path(files[0]).unlink()
    assert numbers(read_all(url, topics="orders")) == list(range(20))
    with pytest.raises(ArchiveFileMissing, match=files[0].name):
        read_all(url)


def reaches(options: SourceOptions, newest: Position, count: int) -> list[Position]:
    with planning(options) as planner:
        return [range_.last for range_ in planner.ranges(BEGINNING, newest, count)]


def test_a_batch_has_at_most_so_many_selected_messages(
    mp: Milepost, url: str, archive: Archive
) -> None:
    positions = append(mp, 100)
    archive.up_to(positions[29], positions[69])
    archive.remove(positions[49])
    ends = reaches(options_of(url), positions[-1], 25)
    # 25, then what is left of the first file and 20 of the second, ...
    assert [positions.index(end) + 1 for end in ends] == [25, 50, 70, 95, 100]
    ends = reaches(options_of(url), positions[-1], 60)
    assert [positions.index(end) + 1 for end in ends] == [30, 70, 100]  # whole files
    ends = reaches(options_of(url, types="Odd"), positions[-1], 12)
    assert [positions.index(end) + 1 for end in ends] == [24, 48, 70, 94, 100]
    assert reaches(options_of(url, types="Never"), positions[-1], 12) == [positions[-1]]


def test_a_rare_selection_is_looked_for_in_steps_of_row_groups(
    mp: Milepost, url: str, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost.pipeline.source.planner._LEAST_WALK", 20)
    positions = append(mp, 50)
    with mp.connect() as conn:
        positions += mp.append(conn, Message("Known", {"n": 50}))
    archive.up_to(positions[-1])
    ends = reaches(options_of(url, types="Known"), positions[-1], 1)
    assert [positions.index(end) + 1 for end in ends] == [20, 40, 51]


def test_about_how_many_are_left(mp: Milepost, url: str, archive: Archive) -> None:
    positions = append(mp, 90)
    archive.up_to(*thirds(positions))
    archive.remove(positions[39])
    with planning(options_of(url)) as planner:
        assert planner.about(Range(positions[29], positions[59])) == 30
        assert planner.about(Range(positions[-1], positions[-1])) == 0
        for after, last in ((0, 89), (9, 79), (59, 79)):
            # Estimates: in transaction order, one may begin with the whole transaction.
            about = planner.about(Range(positions[after], positions[last]))
            assert last - after <= about <= last - after + 7


def test_a_time_to_start_from_may_be_archived(mp: Milepost, url: str, archive: Archive) -> None:
    positions = append(mp, 30)
    time = list(mp.read())[7].recorded_at
    archive.up_to(positions[19])
    archive.remove(positions[19])
    options = options_of(url, startingPosition=time.isoformat())
    with planning(options) as planner:
        assert positions[6] <= planner.start() < positions[7]
        assert numbers(read(options, planner.split(Range(planner.start(), planner.end())))) == list(
            range(7, 30)
        )


def planned(url: str, **given: str) -> tuple[SourceOptions, list[Part]]:
    options = options_of(url, **given)
    with planning(options) as planner:
        return options, planner.split(Range(BEGINNING, planner.horizon()))


def test_what_is_archived_and_removed_after_planning_is_read_from_its_file(
    mp: Milepost, url: str, archive: Archive
) -> None:
    positions = append(mp, 60)
    options, parts = planned(url, partitions="4")
    assert {part.file for part in parts} == {None}
    archive.up_to(*thirds(positions))
    archive.remove(positions[29])
    assert numbers(read(options, parts)) == list(range(60))


def test_what_is_removed_while_it_is_read_is_read_on_in_its_file(
    mp: Milepost, url: str, archive: Archive
) -> None:
    """The connection breaks in the middle, and then the rest is gone from the table."""
    positions = append(mp, 40)
    reader = RangeReader(options_of(url))
    archive.up_to(positions[-1])
    (file,) = archive.files()
    archive.remove(positions[-1])
    for after in (positions[0], positions[25]):
        rows = pa.Table.from_batches(reader.batches(Range(after, positions[-1]))).to_pylist()
        assert numbers(rows) == list(range(positions.index(after) + 1, 40))
    assert file.messages == 40


def test_what_is_removed_and_nowhere_is_refused(mp: Milepost, url: str, archive: Archive) -> None:
    positions = append(mp, 30)
    archive.up_to(positions[9])
    options, parts = planned(url)
    archive.remove(positions[19])
    assert numbers(read(options, parts[:1])) == list(range(10))
    with pytest.raises(RangeRemoved):
        read(options, parts)
    with pytest.raises(RangeRemoved):
        read_all(url)


def test_a_plan_is_made_again_if_messages_were_removed_meanwhile(
    mp: Milepost, url: str, archive: Archive
) -> None:
    """Between the question to the manifest and the one to the table."""
    positions = append(mp, 60)

    class Late(Planner):
        def _query(self, name: str, parameters: dict[str, Any]) -> list[Any]:
            if name in ("range_rows", "range_nth") and moves:
                end = moves.pop()
                archive.up_to(end)
                archive.remove(end)
            return super()._query(name, parameters)

    options = options_of(url)
    for question in ("split", "about", "reach"):
        moves = [positions[10 * (len(archive.files()) + 1)]]
        with closing(Late(options)) as planner:
            whole = Range(BEGINNING, positions[-1])
            if question == "split":
                assert numbers(read(options, planner.split(whole))) == list(range(60))
            elif question == "about":
                assert 59 <= planner.about(whole) <= 62
            else:
                assert planner.reach(positions[25], positions[-1], 20) == positions[45]
        assert moves == []


def test_a_file_that_was_replaced_is_found_by_its_new_name(
    mp: Milepost, url: str, archive: Archive
) -> None:
    positions = append(mp, 40)
    (file,) = archive.up_to(positions[29])
    archive.remove(positions[29])
    options, parts = planned(url, partitions="3")
    forget_files()
    archive.replace(file)
    assert numbers(read(options, parts)) == list(range(40))
    assert numbers(read_all(url)) == list(range(40))


@append_order
@pytest.mark.parametrize("harm", ["missing", "damaged", "truncated"])
def test_a_file_that_cannot_be_read_matters_only_if_the_rows_are_gone(
    mp: Milepost, url: str, archive: Archive, harm: str
) -> None:
    positions = append(mp, 40)
    file, _ = archive.up_to(positions[19], positions[29])
    options, parts = planned(url, partitions="4")
    if harm == "missing":
        archive.path(file).unlink()
    elif harm == "damaged":
        archive.damage(file)
    else:
        archive.path(file).write_bytes(archive.path(file).read_bytes()[:-20])
    forget_files()
    assert numbers(read(options, parts)) == list(range(40))
    assert numbers(read_all(url)) == list(range(40))
    assert reaches(options, positions[-1], 25)[-1] == positions[-1]

    archive.remove(positions[4])
    forget_files()
    kind = ArchiveFileMissing if harm == "missing" else ArchiveFileBroken
    with pytest.raises(kind, match=file.name):
        read(options, parts)
    with pytest.raises(kind, match=file.name):
        read_all(url)
    assert numbers(read_all(url, startingPosition=str(positions[4]))) == list(range(5, 40))


@pytest.mark.parametrize("kind", ["infinity", "-infinity", "BC", "far"])
def test_a_time_that_spark_lacks_is_the_same_error_as_from_the_table(
    mp: Milepost, url: str, conn: Connection, archive: Archive, kind: str
) -> None:
    mp.append(conn, Message("T", 1))
    odd = append_undecodable(conn, kind)
    (last,) = mp.append(conn, Message("T", 2))
    year = datetime(2020, 1, 1, tzinfo=UTC)
    cases = [Conditions(recorded_from=year), Conditions(recorded_to=year)]
    reader = RangeReader(options_of(url))
    before = [_error(url, each) for each in cases]
    archive.up_to(last)
    archive.remove(last)
    with pytest.raises(UnreadableMessage, match=f"{odd} .*{KINDS[kind][0]}") as caught:
        list(reader.batches(Range(BEGINNING, last)))
    assert caught.value.position == odd
    assert [_error(url, each) for each in cases] == before
    behind = Range(odd, last)
    assert sum(batch.num_rows for batch in reader.batches(behind)) == 1
    assert len(read_all(url, columns="data")) == 3


def _error(url: str, conditions: Conditions) -> str:
    """What becomes of reading with a condition on the time."""
    try:
        return str(len(read_all(url, conditions)))
    except UnreadableMessage as error:
        return str(error)


@append_order
def test_who_may_not_see_the_manifest_reads_the_table(
    mp: Milepost, url: str, archive: Archive, conn: Connection
) -> None:
    """As a role that was granted its privileges before there was an archive."""
    from psycopg.conninfo import make_conninfo

    from milepost import grants
    from milepost.errors import NotPermitted

    positions = append(mp, 30)
    archive.up_to(positions[19])
    conn.execute("drop role if exists spark_reader")
    conn.execute("create role spark_reader login")
    try:
        grants.grant(conn, "spark_reader", ["read"], "milepost")
        conn.execute("revoke select on milepost.archive from spark_reader")
        poor = make_conninfo(url, user="spark_reader")
        assert numbers(read_all(poor)) == list(range(30))
        archive.remove(positions[9])
        with pytest.raises(NotPermitted, match="milepost grant"):
            read_all(poor)
    finally:
        conn.execute("drop owned by spark_reader")
        conn.execute("drop role spark_reader")
