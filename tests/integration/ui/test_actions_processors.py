"""What forms do with processors, their segments and their dead letters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.processors.admin import list_processors
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.records import Position
from tests.integration.ui.operating import Operator
from tests.waiting import wait_until


@pytest.fixture
def url(busy_url: str) -> str:
    return busy_url


def position(operator: Operator, name: str) -> object:
    return operator.value(
        "select min(position) from milepost.checkpoints where processor = %s", name
    )


def masks(operator: Operator) -> list[tuple[int, int]]:
    rows = operator.conn.execute(
        "select id, mask from milepost.segments where processor = 'cut' order by id"
    )
    return [(id_, mask) for id_, mask in rows]


def test_a_processor_is_paused_and_resumed(operator: Operator) -> None:
    said = operator.done("pause-processor", name="stuck", version=1)
    assert said == "stuck is paused. It finishes its batch and then waits."
    assert operator.value("select is_paused from milepost.processors where name = 'stuck'") is True

    operator.done("resume-processor", name="stuck", version=1)
    assert operator.value("select is_paused from milepost.processors where name = 'stuck'") is False


def test_an_unknown_processor_is_refused(operator: Operator) -> None:
    assert "stuck" in operator.refused("pause-processor", name="typo")


def test_a_message_is_skipped_and_kept_as_a_dead_letter(operator: Operator) -> None:
    before = position(operator, "stuck")
    operator.done("skip-message", name="stuck", at="")
    assert position(operator, "stuck") != before
    (letter,) = list_dead_letters(operator.conn, "milepost", "stuck")
    assert letter.error == "skipped by an operator"


def test_a_processor_is_reset_to_the_end_and_to_the_beginning(operator: Operator) -> None:
    operator.done("reset-processor", name="stuck", to="end")
    (status,) = list_processors(operator.conn, "milepost", "stuck")
    assert status.lag_messages == 0

    operator.done("reset-processor", name="stuck", to="beginning")
    (status,) = list_processors(operator.conn, "milepost", "stuck")
    assert status.checkpoint == Position.BEGINNING


def test_a_processor_with_segments_is_reset_as_a_whole(operator: Operator) -> None:
    operator.done("reset-processor", name="cut", to="beginning")
    assert (
        operator.value("select max(position) from milepost.checkpoints where processor = 'cut'")
        == 0
    )
    assert operator.value("select count(owner) from milepost.segments") == 0


def test_a_reset_to_nowhere_is_refused(operator: Operator) -> None:
    before = position(operator, "stuck")
    assert "neither beginning, end" in operator.refused("reset-processor", name="stuck", to="soon")
    assert position(operator, "stuck") == before


def test_a_reset_that_needs_the_application_says_so(operator: Operator) -> None:
    operator.conn.execute("update milepost.processors set has_reset_handlers = true")
    assert "--app" in operator.refused("reset-processor", name="stuck", to="end")


def test_a_processor_is_abandoned(operator: Operator) -> None:
    operator.done("abandon-processor", name="parking")
    assert list_processors(operator.conn, "milepost", "parking") == []


def test_segments_are_split_and_merged(operator: Operator) -> None:
    assert masks(operator) == [(0, 1), (1, 1)]
    assert operator.done("split-segment", name="cut", segment=1) == (
        "cut: segment 1 is split into 1 and 3."
    )
    assert masks(operator) == [(0, 1), (1, 3), (3, 3)]

    assert operator.done("merge-segment", name="cut") == "cut: merged into segment 1."
    assert masks(operator) == [(0, 1), (1, 1)]


def test_the_segment_that_is_behind_is_split(operator: Operator) -> None:
    behind = [
        id_
        for (id_,) in operator.conn.execute(
            "select milepost.key_hash('good') & 1 from (values (1)) as one"
        )
    ]
    operator.done("balance-segments", name="cut")
    assert (behind[0], 3) in masks(operator)


def test_nothing_is_split_where_no_segment_is_behind(operator: Operator) -> None:
    operator.act("reset-processor", name="cut", to="end")
    said = operator.done("balance-segments", name="cut")
    assert said == "cut: no segment is behind, nothing to split."
    assert masks(operator) == [(0, 1), (1, 1)]


def test_a_claimed_segment_is_released(operator: Operator, mp: Milepost) -> None:
    """Its owner is gone, and its claim expires after the operator has asked for it."""
    operator.conn.execute(
        "update milepost.segments set owner = 'gone', epoch = epoch + 1,"
        " claimed_until = clock_timestamp() + interval '1 hour' where id = 1"
    )
    wanted = "select wanted_by is not null from milepost.segments where id = 1"
    with ThreadPoolExecutor(1) as pool, mp.connect() as conn:
        released = pool.submit(operator.done, "release-segment", name="cut", segment=1)
        wait_until(lambda: released.done() or conn.execute(wanted).fetchone() == (True,))
        assert not released.done()
        conn.execute("update milepost.segments set claimed_until = now() where id = 1")
        released.result()
    assert operator.value("select count(*) from milepost.segments where owner is not null") == 0


def test_a_segment_that_does_not_exist_is_refused(operator: Operator) -> None:
    assert "17" in operator.refused("split-segment", name="cut", segment=17)
    assert "'x'" in operator.refused("split-segment", name="cut", segment="x")


def test_a_key_that_no_message_can_have_is_refused(operator: Operator) -> None:
    assert "NUL" in operator.refused("drop-dead-letters", key="\0")


def test_a_position_that_no_message_can_have_is_refused(operator: Operator) -> None:
    assert "is neither" in operator.refused("reset-processor", name="cut", to=str(2**63))


def test_a_dead_letter_of_a_parked_key_is_retried_with_the_others_of_its_key(
    operator: Operator,
) -> None:
    first, _second = list_dead_letters(operator.conn, "milepost", "parking")
    said = operator.done("retry-dead-letter", ids=first.id)
    assert said == "2 dead letters are retried by the running processor."
    assert operator.value("select retry_requested_at is not null from milepost.parked_keys") is True


def test_a_dead_letter_is_dropped(operator: Operator) -> None:
    first, second = list_dead_letters(operator.conn, "milepost", "parking")
    assert operator.done("drop-dead-letter", ids=first.id) == "1 dead letter dropped."
    assert [each.id for each in list_dead_letters(operator.conn, "milepost")] == [second.id]
    assert operator.audit()[0].subject == str(first.id)


def test_a_parked_key_flows_again_after_all_its_letters_are_dropped(operator: Operator) -> None:
    ids = ",".join(str(each.id) for each in list_dead_letters(operator.conn, "milepost"))
    operator.done("drop-dead-letter", ids=ids)
    assert operator.value("select count(*) from milepost.parked_keys") == 0


def test_dead_letters_are_dropped_by_filter(
    operator: Operator, mp: Milepost, conn: Connection
) -> None:
    mp.append(conn, Message("Bad", {}, key="other"))
    operator.act("skip-message", name="stuck")
    assert operator.done("drop-dead-letters", processor="parking", key="nobody") == (
        "0 dead letters dropped."
    )
    assert operator.done("drop-dead-letters", processor="parking", key="bad") == (
        "2 dead letters dropped."
    )
    assert [each.processor for each in list_dead_letters(conn, "milepost")] == ["stuck"]
    assert operator.done("drop-dead-letters") == "1 dead letter dropped."


def test_dead_letters_are_retried_by_filter(operator: Operator) -> None:
    operator.act("skip-message", name="stuck")
    operator.done("retry-dead-letters", processor="stuck")
    requested = [
        each.processor
        for each in list_dead_letters(operator.conn, "milepost")
        if each.retry_requested_at
    ]
    assert requested == ["stuck"]
