"""The Django app: `INSTALLED_APPS = ["milepost.contrib.django", ...]`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import pre_migrate

from milepost.contrib.django.migrating import upgrade
from milepost.contrib.django.settings import milepost_settings


class MilepostConfig(AppConfig):
    """Its label is `milepost`: `manage.py migrate milepost`."""

    name = "milepost.contrib.django"
    label = "milepost"
    verbose_name = "Milepost"

    def ready(self) -> None:
        checks.register(check_settings)
        pre_migrate.connect(_before_migrate, sender=self, dispatch_uid="milepost")


def check_settings(**_options: Any) -> Iterable[checks.CheckMessage]:
    """`manage.py check` says what is wrong with `settings.MILEPOST`."""
    try:
        milepost_settings()
    except ImproperlyConfigured as error:
        yield checks.Error(str(error), id="milepost.E001")


def _before_migrate(*, using: str, **_rest: Any) -> None:
    upgrade(using)
