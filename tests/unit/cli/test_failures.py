from __future__ import annotations

import psycopg

from milepost.cli.failures import in_one_line


def test_lines_of_libpq_become_one() -> None:
    error = psycopg.OperationalError("connection failed: refused\n\tIs the  server running?\n")
    assert in_one_line(error) == "connection failed: refused; Is the server running?"


def test_an_error_without_words_is_named() -> None:
    assert in_one_line(psycopg.OperationalError()) == "OperationalError"
