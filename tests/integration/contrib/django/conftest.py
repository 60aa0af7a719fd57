"""A database with Milepost's schema and the tables of the project's models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from milepost import Milepost
from milepost.sql import LogOrder
from tests.integration.contrib.django.configured import on_database
from tests.integration.contrib.django.shop.models import Order


@pytest.fixture
def order() -> LogOrder:
    """Nothing here depends on it."""
    return "append"


@pytest.fixture
def project(url: str) -> Iterator[None]:
    with on_database(url):
        with connection.schema_editor() as editor:
            editor.create_model(Order)
        yield


@pytest.fixture
def mp(project: None) -> Milepost:
    return Milepost.from_django()
