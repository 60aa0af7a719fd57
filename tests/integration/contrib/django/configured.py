"""The settings of the project `shop`. Each test has a database of its own: `on_database` renames
it, as Django's test runner does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

APPS = [
    "django.contrib.contenttypes",
    "django.contrib.postgres",
    "django_tasks",
    "milepost.contrib.django",
    "tests.integration.contrib.django.shop",
]
DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": "not_yet"}
BACKEND = "milepost.contrib.django.tasks.MilepostBackend"
TASKS = {
    "default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"]},
    "atomic": {"BACKEND": BACKEND, "QUEUES": ["books"], "OPTIONS": {"ATOMIC": True}},
    "stubborn": {"BACKEND": BACKEND, "QUEUES": ["again"], "OPTIONS": {"MAX_ATTEMPTS": 3}},
}


def configure() -> None:
    if settings.configured:
        return
    settings.configure(
        DATABASES={"default": dict(DATABASE), "other": {**DATABASE, "NAME": "another"}},
        INSTALLED_APPS=APPS,
        USE_TZ=True,
        TIME_ZONE="Europe/Berlin",
        SECRET_KEY="of a test",  # noqa: S106 - signs nothing
        TASKS=TASKS,
        MILEPOST={},
    )
    django.setup()


@contextmanager
def on_database(url: str) -> Iterator[None]:
    """The database `default` is this one, in all threads."""
    parts: dict[str, Any] = conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    database = connections.settings["default"]
    before = dict(database)
    database.update({key: parts.get(name) or "" for key, name in names.items()})
    database["PORT"] = str(parts.get("port") or "")
    try:
        yield
    finally:
        connections["default"].close()
        del connections["default"]
        database.update(before)
