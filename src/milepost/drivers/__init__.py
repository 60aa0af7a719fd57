"""Run statements in the transaction of whatever object the caller has: a psycopg connection, a
Session of SQLAlchemy, a connection of asyncpg. Nothing is imported that the caller has not."""

from milepost.drivers.callers import AnyAsyncConnection, AnyConnection, AnyEngine
from milepost.drivers.driver import AsyncDriver, Copy, Driver, PendingDriver
from milepost.drivers.kinds import driver_of
from milepost.drivers.psycopg import Psycopg, savepoint

__all__ = [
    "AnyAsyncConnection",
    "AnyConnection",
    "AnyEngine",
    "AsyncDriver",
    "Copy",
    "Driver",
    "PendingDriver",
    "Psycopg",
    "driver_of",
    "savepoint",
]
