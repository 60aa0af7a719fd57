"""Django's settings are configured once in a process: before any of these modules is imported."""

from tests.integration.contrib.django.configured import configure

configure()
