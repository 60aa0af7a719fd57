"""What was found, in words: where the process was killed, what differs, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from milepost.testing.crash.statements import SURVIVED, Point, Statement, own_connections, shortened
from milepost.testing.snapshot import OUTSIDE, Difference, shown

Kind: TypeAlias = Literal["processor", "worker", "self_checkpointing"]
MOST_ROWS = 5
_SIDES = {
    "before": "The process was killed before statement {number} of {count}:",
    "after": "The process was killed after statement {number} of {count}: the server had executed "
    "it, and the answer was lost.",
    "lost": "The connection was lost before statement {number} of {count}: the server rolled its "
    "transaction back. The process continued, with what it held in memory, and tried again.",
    "cut": "The connection was lost after statement {number} of {count}: the server had committed, "
    "and the answer was lost. The process continued, with what it held in memory, and tried again.",
}
_IDEMPOTENT = (
    "make the effect idempotent: `insert ... on conflict do nothing` with a key from the {item}, "
    "or an upsert that sets a value instead of adding to it"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tested. `batches`: of which size, if not as the options say."""

    kind: Kind
    name: str
    has_tx: bool
    batches: str = ""

    @property
    def item(self) -> str:
        return "job" if self.kind == "worker" else "message"

    def __str__(self) -> str:
        kind = "worker" if self.kind == "worker" else "processor"
        return f"{kind} {self.name!r}{self.batches}"


@dataclass(frozen=True, slots=True)
class Finding:
    """`failure`: what the run after the crash raised, if it did not end well."""

    subject: Subject
    point: Point
    statements: Sequence[Statement]
    differences: Sequence[Difference]
    failure: str | None = None

    def text(self) -> str:
        return "\n".join([*self._crash(), "", *self._found(), "", *self._advice()])

    def _crash(self) -> Iterator[str]:
        statement, count = self.point.statement, len(self.statements)
        yield f"A crash changes the effects of {self.subject}: {verdict(self)}."
        yield ""
        yield _SIDES[self.point.side].format(number=statement.number, count=count)
        yield f"    {shortened(statement.text)}"
        yield f"    sent by {statement.where or 'Milepost itself'}"
        if self.point.side not in SURVIVED:
            yield "Then it was started again, and ran until it had caught up."

    def _found(self) -> Iterator[str]:
        if self.failure is not None:
            yield "After the crash it failed:"
            yield f"    {self.failure}"
            return
        yield "Compared with a run without a crash:"
        for difference in self.differences:
            yield from described(difference)

    def _advice(self) -> Iterator[str]:
        subject, culprit = self.subject, self._culprit()
        remedy = _IDEMPOTENT.format(item=subject.item)
        if culprit is not None and subject.has_tx:
            yield (
                f"Why: statement {culprit.number} ({culprit.where}) was sent on a connection of "
                f"its own, so it commits by itself, before the {subject.item} is marked as done. "
                f"After the crash the {subject.item} is handled again."
            )
            yield f"What to do: send it through `tx`; or {remedy}."
        elif not subject.has_tx:
            yield (
                f"Why: the handler has no `tx`, so it is called at least once for each "
                f"{subject.item}. A crash between its effects and the mark that the {subject.item} "
                "is done repeats them."
            )
            instead = (
                "" if subject.kind == "self_checkpointing" else "take `tx` and write with it; or "
            )
            yield f"What to do: {instead}{remedy}."
        elif self.point.side == "lost":
            yield (
                "Why: the transaction was rolled back, and what the handler holds in memory was "
                f"not: it already includes the {subject.item} that is handled again. What to do: "
                "keep such state in the database, change it in memory only after the commit, or "
                "read it again at the start of each call."
            )
        else:
            yield (
                "Why: something in the handler does not commit with `tx`, or depends on what it "
                "held in memory before the crash, or on what an earlier run has left. What to do: "
                f"send everything through `tx`, and keep no state in memory; or {remedy}."
            )

    def _culprit(self) -> Statement | None:
        """The last statement up to the crash that was durable by itself."""
        own, last = own_connections(self.statements), self.point.statement.number
        limit = last if self.point.side == "before" else last + 1
        found = [
            each
            for each in self.statements
            if each.connection in own and each.is_durable and each.number < limit
        ]
        return found[-1] if found else None


def verdict(finding: Finding) -> str:
    if finding.failure is not None:
        return "it cannot go on after it"
    differences = finding.differences
    if all(not each.missing for each in differences):
        return "an effect was doubled"
    if all(not each.extra for each in differences):
        return "an effect was lost"
    return "an effect was doubled, lost or changed"


def described(difference: Difference) -> Iterator[str]:
    where = difference.table if difference.table == OUTSIDE else f"table {difference.table}"
    found, expected = difference.found_count, difference.expected_count
    count = f"{found} rows" if found != 1 else "1 row"
    yield f"  {where}: {count}" + (f" instead of {expected}" if found != expected else "")
    is_changed = bool(difference.extra and difference.missing)
    for word, rows in (
        ("found" if is_changed else "too many", difference.extra),
        ("expected" if is_changed else "missing", difference.missing),
    ):
        for row in rows[:MOST_ROWS]:
            yield f"    {word:<8} {shown(row)}"
        if len(rows) > MOST_ROWS:
            yield f"    {word:<8} {len(rows) - MOST_ROWS} more"
