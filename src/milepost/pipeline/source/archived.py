"""What the source reads of a file of the archive: some of its row groups, and some of their rows.

Row groups are skipped by their statistics. What is selected is the same as by `range_read.sql`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from milepost.errors import UnreadableMessage
from milepost.log.history.cold import ColdFile, read_columns
from milepost.pipeline.names import PLACE
from milepost.pipeline.source.filters import EVERYTHING, Conditions
from milepost.pipeline.source.parts import Part, holds_only, may_hold
from milepost.pipeline.source.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from milepost.log.history import ArchivedFile

_STRINGS = {"topic": "topics", "type": "types", "key": "keys", "id": "ids"}
_BOUNDS = {
    "transaction_id": ("min_transaction_id", "max_transaction_id"),
    "position": ("min_position", "max_position"),
}
_TIME = pa.timestamp("us", tz="UTC")
_ROWS_PER_BATCH = 16_384
# Of the times that are stored as text, those that are before all others.
_EARLY = "^-|BC$"


@dataclass(frozen=True, slots=True)
class Count:
    """How many selected messages were found, and how many messages were examined. `last`: where to
    end, if enough of either were found before the end of the part."""

    selected: int
    walked: int
    last: Position | None = None


def batches(part: Part, conditions: Conditions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The selected messages of a part, in order: their positions, and these columns."""
    names = list(dict.fromkeys((*PLACE, *columns)))
    needed = dict.fromkeys((*names, *_examined(conditions)))
    if "recorded_at" in names:
        needed["recorded_at_text"] = None
    for number in row_groups(part, conditions):
        rows = _selected(_read(part, number, list(needed)), part.range, conditions)
        if "recorded_at" in names:
            _refuse_odd_times(rows)
        yield from rows.select(names).to_batches(_ROWS_PER_BATCH)


def row_groups(part: Part, conditions: Conditions) -> list[int]:
    """Those that may have selected messages of a part."""
    if not may_hold(_file(part), conditions):
        return []
    opened = ColdFile.open(_file(part))
    numbers = range(opened.metadata.num_row_groups)
    return [n for n in numbers if _may_have(_Statistics.of(opened, n), part.range, conditions)]


def divided(part: Part, conditions: Conditions, number: int) -> list[Part]:
    """In so many parts, of about the same size. They end where row groups do, so that none is read
    twice."""
    file, groups = _file(part), row_groups(part, conditions)
    if not groups:
        return []
    metadata = ColdFile.open(file).metadata
    sizes = [metadata.row_group(group).num_rows for group in groups]
    targets = [sum(sizes) * each // number for each in range(1, number)]
    ends = list(accumulate(sizes))
    inner = sorted({bisect_left(ends, target) for target in targets} - {len(groups) - 1})
    bounds = [part.range.after, *(_ends(file)[groups[i]] for i in inner), part.range.last]
    return [replace(part, range=Range(after, last)) for after, last in pairwise(bounds)]


def count(part: Part, conditions: Conditions, up_to: int, max_walked: int) -> Count:
    """Look for so many messages that topics and types select. The manifest may know. Otherwise no
    further row group is examined after `max_walked` messages."""
    file = _file(part)
    wanted = Conditions(topics=conditions.topics, types=conditions.types)
    if holds_only(file, wanted):
        wanted, max_walked = EVERYTHING, file.messages + 1
        if part.is_whole and file.messages < up_to:
            return Count(file.messages, 0)
    selected = walked = 0
    for number in row_groups(part, wanted):
        rows = _selected(_read(part, number, [*PLACE, *_examined(wanted)]), part.range, wanted)
        walked += ColdFile.open(file).metadata.row_group(number).num_rows
        if selected + rows.num_rows >= up_to:
            return Count(up_to, walked, _position(rows, up_to - selected - 1))
        selected += rows.num_rows
        if walked >= max_walked:
            return Count(selected, walked, min(_ends(file)[number], part.range.last))
    return Count(selected, walked)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The lowest and the highest values of a row group, of the columns that have them."""

    limits: dict[str, tuple[Any, Any]]

    @classmethod
    def of(cls, opened: ColdFile, number: int) -> _Statistics:
        group, found = opened.metadata.row_group(number), {}
        for i in range(group.num_columns):
            column = group.column(i)
            known = column.statistics
            # A time that is null is stored as text.
            is_partial = column.path_in_schema == "recorded_at" and known and known.null_count
            if known is not None and known.has_min_max and not is_partial:
                found[column.path_in_schema] = (known.min, known.max)
        return cls(found)

    def may_have(self, name: str, low: Any, high: Any) -> bool:
        """Whether there may be a value between two, of which None is no limit."""
        least, most = self.limits.get(name, (None, None))
        if least is None:
            return True
        return (low is None or low <= most) and (high is None or high >= least)

    def places(self) -> tuple[Position, Position] | None:
        """No message is before the first or after the second. In transaction order, there may be
        none at them."""
        if not all(name in self.limits for name in PLACE):
            return None
        first, last = (Position(*(self.limits[name][end] for name in PLACE)) for end in (0, 1))
        return first, last

    @property
    def last(self) -> Position | None:
        """Of one transaction, the last message has the highest position."""
        places = self.places()
        if places is None or places[0].transaction_id != places[1].transaction_id:
            return None
        return places[1]


def _may_have(statistics: _Statistics, range_: Range, conditions: Conditions) -> bool:
    places = statistics.places()
    if places is not None and (places[1] <= range_.after or places[0] > range_.last):
        return False
    for name, option in _STRINGS.items():
        wanted = getattr(conditions, option)
        if wanted is not None and not any(statistics.may_have(name, each, each) for each in wanted):
            return False
    limits = {
        name: (getattr(conditions, a), getattr(conditions, b)) for name, (a, b) in _BOUNDS.items()
    }
    limits["recorded_at"] = (conditions.recorded_from, conditions.recorded_to)
    return all(statistics.may_have(name, *bounds) for name, bounds in limits.items())


@lru_cache(64)
def _ends(file: ArchivedFile) -> list[Position]:
    """The position of the last message of each row group."""
    opened = ColdFile.open(file)
    found = []
    for number in range(opened.metadata.num_row_groups):
        last = _Statistics.of(opened, number).last
        if last is None:
            rows = read_columns(file, number, list(PLACE))
            last = _position(rows, rows.num_rows - 1)
        found.append(last)
    return found


def _selected(rows: pa.Table, range_: Range, conditions: Conditions) -> pa.Table:
    masks = [*_place_masks(rows, range_), *_string_masks(rows, conditions)]
    for name, options in _BOUNDS.items():
        low, high = (getattr(conditions, option) for option in options)
        masks += _between(rows.column(name), low, high)
    if conditions.is_keyed is not None:
        is_keyed = pc.is_valid(rows.column("key"))
        masks.append(is_keyed if conditions.is_keyed else pc.invert(is_keyed))
    if conditions.recorded_from is not None or conditions.recorded_to is not None:
        masks.append(_times_mask(rows, conditions.recorded_from, conditions.recorded_to))
    return rows.filter(reduce(pc.and_, masks)) if masks else rows


def _place_masks(rows: pa.Table, range_: Range) -> list[pa.ChunkedArray]:
    """Most row groups are inside the range as a whole. Rows are in order, so their ends tell."""
    if not rows.num_rows:
        return []
    masks = []
    if _position(rows, 0) <= range_.after:
        masks.append(_compared(rows, range_.after, pc.greater, pc.greater))
    if _position(rows, rows.num_rows - 1) > range_.last:
        masks.append(_compared(rows, range_.last, pc.less, pc.less_equal))
    return masks


def _compared(rows: pa.Table, place: Position, ids: Any, positions: Any) -> pa.ChunkedArray:
    is_same = pc.equal(rows.column("transaction_id"), place.transaction_id)
    within = pc.and_(is_same, positions(rows.column("position"), place.position))
    return pc.or_(ids(rows.column("transaction_id"), place.transaction_id), within)


def _string_masks(rows: pa.Table, conditions: Conditions) -> list[pa.ChunkedArray]:
    masks = []
    for name, option in _STRINGS.items():
        wanted, unwanted = getattr(conditions, option), getattr(conditions, f"not_{option}")
        if wanted is not None:
            masks.append(_is_in(rows.column(name), wanted))
        if unwanted is not None:
            # As in SQL, a key that is null is not unequal to anything.
            is_other = pc.invert(_is_in(rows.column(name), unwanted))
            masks += [is_other, pc.is_valid(rows.column(name))]
    return masks


def _is_in(column: pa.ChunkedArray, strings: frozenset[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(strings), pa.string()))


def _between(column: pa.ChunkedArray, low: Any, high: Any) -> list[pa.ChunkedArray]:
    masks = [] if low is None else [pc.greater_equal(column, low)]
    return masks if high is None else [*masks, pc.less_equal(column, high)]


def _times_mask(rows: pa.Table, since: datetime | None, until: datetime | None) -> pa.ChunkedArray:
    """A time that is stored as text is before all others, or after all others."""
    texts = rows.column("recorded_at_text")
    is_early = pc.match_substring_regex(texts, _EARLY)
    odd = ([] if since is None else [pc.invert(is_early)]) + ([] if until is None else [is_early])
    limits = (None if time is None else pa.scalar(time, _TIME) for time in (since, until))
    plain = _between(rows.column("recorded_at"), *limits)
    return pc.if_else(pc.is_valid(texts), reduce(pc.and_, odd), reduce(pc.and_, plain))


def _refuse_odd_times(rows: pa.Table) -> None:
    """As for a row of the table: Spark's times are in the years 1 to 9999."""
    texts = rows.column("recorded_at_text")
    if texts.null_count == len(texts):
        return
    row = pc.index(pc.is_valid(texts), value=True).as_py()
    raise UnreadableMessage(_position(rows, row), f"it was recorded at {texts[row].as_py()}")


def _examined(conditions: Conditions) -> list[str]:
    """The columns that decide what is selected, other than the position."""
    names = [
        name
        for name, option in _STRINGS.items()
        if getattr(conditions, option) is not None
        or getattr(conditions, f"not_{option}") is not None
    ]
    if conditions.is_keyed is not None:
        names.append("key")
    if conditions.recorded_from is not None or conditions.recorded_to is not None:
        names += ["recorded_at", "recorded_at_text"]
    return names


def _read(part: Part, number: int, columns: list[str]) -> pa.Table:
    return read_columns(_file(part), number, columns)


def _file(part: Part) -> ArchivedFile:
    if part.file is None:
        raise ValueError("This part is read from the table.")
    return part.file


def _position(rows: pa.Table, row: int) -> Position:
    transaction_id, position = (rows.column(name)[row].as_py() for name in PLACE)
    return Position(transaction_id, position)
