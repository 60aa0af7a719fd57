"""What people print and log holds no URL, which may hold a password."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import walk_packages

import milepost
from milepost import Milepost, TakenJob
from tests.integration.contrib.django.configured import configure

SECRET = "hunter2"  # noqa: S105
URL = f"postgresql://me:{SECRET}@localhost/nowhere"
SECRET_FIELDS = ("url", "conninfo", "password", "dsn")


def test_no_runner_shows_its_url() -> None:
    mp = Milepost(URL)

    @mp.processor("p")
    def process(messages: object, tx: object) -> None: ...

    @mp.worker("w")
    def work(job: TakenJob) -> None: ...

    for made in (mp, process, work):
        assert SECRET not in repr(made)


def every_dataclass() -> list[type]:
    configure()  # models need Django's settings
    found = []
    for module in walk_packages(milepost.__path__, "milepost."):
        if module.name.endswith("__main__"):
            continue
        names = vars(import_module(module.name)).values()
        found += [
            kind
            for kind in names
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.name
        ]
    return found


def test_no_field_with_a_url_is_in_a_repr() -> None:
    shown = [
        f"{kind.__module__}.{kind.__qualname__}.{each.name}"
        for kind in every_dataclass()
        for each in fields(kind)
        if each.repr and each.name in SECRET_FIELDS
    ]
    assert shown == []
