"""A span's context as text, beside a message or a job: W3C trace context.

Written and read here and not with OpenTelemetry's propagators: which of those is set is a matter of
HTTP, and what one process has written another one must be able to read. They also take longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState, get_current_span

PARENT, STATE = "traceparent", "tracestate"
MOST_LINKS = 128
_FORMAT = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_STATE = TraceState()
_FLAGS = [TraceFlags(number) for number in range(256)]  # they take long to make


def current() -> dict[str, str] | None:
    """Of the span that is current; None if there is none."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return None
    flags = context.trace_flags & 0xFF
    carried = {PARENT: f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"}
    if context.trace_state:
        carried[STATE] = context.trace_state.to_header()
    return carried


def as_text(carried: Mapping[str, str]) -> str:
    """For a job. No traceparent holds a space."""
    return " ".join(carried.values())


def of_message(metadata: Mapping[str, Any]) -> SpanContext | None:
    return _context(metadata.get(PARENT), metadata.get(STATE))


def of_job(trace: str | None) -> SpanContext | None:
    if trace is None:
        return None
    parent, _, state = trace.partition(" ")
    return _context(parent, state)


def links(contexts: Iterable[SpanContext | None]) -> list[Link]:
    """To different spans, the first ones; a batch may be larger than what a backend shows."""
    found: dict[tuple[int, int], Link] = {}
    for context in contexts:
        if context is not None:
            found.setdefault((context.trace_id, context.span_id), Link(context))
            if len(found) == MOST_LINKS:
                break
    return list(found.values())


def _context(parent: object, state: object) -> SpanContext | None:
    """None for anything that is not a trace context: metadata are the user's."""
    if not isinstance(parent, str) or (match := _FORMAT.fullmatch(parent)) is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    state = state if isinstance(state, str) else None
    context = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=_FLAGS[int(flags, 16)],
        trace_state=TraceState.from_header([state]) if state else _NO_STATE,
    )
    return context if context.is_valid else None
