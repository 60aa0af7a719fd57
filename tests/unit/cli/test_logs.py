from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from typing import Any

from milepost.cli.logs import JsonFormatter


def line(message: object, *arguments: object, **options: Any) -> dict[str, Any]:
    record = logging.LogRecord(
        "milepost.queue", logging.WARNING, __file__, 1, message, arguments, options.get("exc_info")
    )
    text = JsonFormatter().format(record)
    assert "\n" not in text
    document: dict[str, Any] = json.loads(text)
    return document


def test_a_line_has_its_time_level_logger_and_message() -> None:
    document = line("state\nchanged")
    assert datetime.fromisoformat(document.pop("time")).tzinfo is not None
    assert document == {"level": "WARNING", "logger": "milepost.queue", "message": "state\nchanged"}


def test_named_values_are_fields_with_their_types() -> None:
    document = line("job=%s took=%.1f of 100%% %s: owner=%r", 7, 1.25, "x", "me")
    assert document["message"] == "job=7 took=1.2 of 100% x: owner='me'"
    assert (document["job"], document["took"], document["owner"]) == (7, 1.25, "me")


def test_a_field_never_takes_the_place_of_what_every_line_has() -> None:
    document = line("level=%s message=%s", "high", "mine")
    assert (document["level"], document["message"]) == ("WARNING", "level=high message=mine")


def test_what_is_not_json_is_shown_as_text() -> None:
    assert line("error=%s", ValueError("no"))["error"] == "no"
    assert line("name=%s", "a lone \ud800")["name"] == "a lone \ud800"
    assert line({"a": 1})["message"] == "{'a': 1}"


def test_a_traceback_is_part_of_its_line() -> None:
    try:
        int("a bad order")
    except ValueError:
        document = line("failed", exc_info=sys.exc_info())
    assert document["exception"].splitlines()[-1].startswith("ValueError: ")
    assert "Traceback" in document["exception"]
