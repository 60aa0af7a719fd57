"""Milepost in a Django project: its database, its transactions, its ORM, its tasks."""

from milepost.contrib.django.write import append, put

__all__ = ["append", "put"]
