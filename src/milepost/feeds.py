"""What a handler appends and puts, as its author declares it: `topic:invoices`, `channel:emails`.
For the graph of the application alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

KINDS = ("topic", "channel")


def check_feeds(feeds: Sequence[str]) -> None:
    if isinstance(feeds, str):
        raise ValueError(f"feeds is {feeds!r}: expected a list, [{feeds!r}].")  # noqa: TRY004
    for each in feeds:
        kind, _, name = each.partition(":")
        if kind not in KINDS or not name:
            raise ValueError(
                f"feeds names {each!r}: expected topic:NAME or channel:NAME, as in topic:invoices."
            )
