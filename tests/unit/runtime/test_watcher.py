from __future__ import annotations

import gc
import warnings

import psycopg
import pytest

from milepost.runtime.runtime import Runtime


def test_a_watcher_that_cannot_connect_leaves_no_socket_open() -> None:
    runtime = Runtime("postgresql:///nobody?host=/nowhere", "milepost")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(psycopg.OperationalError), runtime.watching(1.0):
            pass
        gc.collect()
    assert not [str(warning.message) for warning in seen]
