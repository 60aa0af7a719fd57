"""Values of Spark's rows as JSON has them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest

from milepost.cli.commands.previews import json_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (7, 7),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (bytearray(b"\x00\xff"), "00ff"),
        (timedelta(seconds=90), "0:01:30"),
        ({"a": [Decimal(1)], 2: (b"a",)}, {"a": ["1"], "2": ["61"]}),
    ],
)
def test_a_value_is_json(value: Any, expected: Any) -> None:
    assert orjson.loads(orjson.dumps(json_value(value))) == expected
