"""The log that a command works on."""

from __future__ import annotations

import os

from milepost.app import Milepost
from milepost.db import environment_url


def open_log(url: str | None, schema: str) -> Milepost:
    return Milepost(environment_url(os.environ) if url is None else url, schema=schema)
