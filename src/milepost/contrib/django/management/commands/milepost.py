"""`manage.py milepost ...`: Milepost's command line, on the database of the settings."""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from milepost.cli import main
from milepost.contrib.django.settings import database_url, milepost_settings

PROGRAM = "manage.py milepost"


class Command(BaseCommand):
    """Passes all words on. Also `call_command("milepost", "status")`."""

    help = "Milepost's command line, on the database of settings.MILEPOST."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Not Django's way, whose parser would take options such as --version for its own."""
        words = without_djangos(argv[2:])
        set_environment()
        main(words, PROGRAM)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *_arguments: Any, words: Sequence[str], **_options: Any) -> None:
        set_environment()
        try:
            main(words, PROGRAM)
        except SystemExit as end:
            if end.code:
                text = f"milepost {' '.join(words)} ended with exit code {end.code}."
                raise CommandError(text, returncode=int(end.code)) from end


def set_environment() -> None:
    """Milepost's commands read the database from there, and so do the processes that they start.
    The list of processes does not show it to other users, as it would show an option."""
    own = milepost_settings()
    os.environ["MILEPOST_URL"] = database_url(own.using)
    os.environ["MILEPOST_SCHEMA"] = own.schema
    os.environ["MILEPOST_APP"] = own.app


def without_djangos(words: Sequence[str]) -> list[str]:
    """Without the options that manage.py has read already."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(words)[1]
