"""The tables that the pipelines keep, against pandas over the same frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.flights.app import mp

if TYPE_CHECKING:
    import pandas as pd

Table = dict[tuple[Any, ...], tuple[int, ...]]
BY_CARRIER = """
select carrier, departed, departure_delay, arrived, arrival_delay, cancelled from delay_by_carrier
"""
BY_HOUR = """
select hour, departed, departure_delay, arrived, arrival_delay, cancelled from delay_by_hour
"""
ROUTES = "select origin, dest, departed from routes"


def differences(flights: pd.DataFrame) -> list[str]:
    """What differs, in words; nothing if all is well."""
    return [
        *_compare("delay_by_carrier", kept(BY_CARRIER, 1), delays(flights, ["carrier"])),
        *_compare("delay_by_hour", kept(BY_HOUR, 1), delays(flights, ["hour"])),
        *_compare("routes", kept(ROUTES, 2), busiest(flights)),
    ]


def kept(query: str, keys: int) -> Table:
    with mp.connect() as conn:
        rows = conn.execute(query.encode()).fetchall()
    return {row[:keys]: row[keys:] for row in rows}


def delays(flights: pd.DataFrame, by: list[str]) -> Table:
    known = flights.assign(
        arr_delay=flights.arr_delay.where(flights.arr_time.notna()),
        is_cancelled=flights.dep_time.isna(),
    )
    groups = known.groupby(by).agg(
        departed=("dep_time", "count"),
        departure_delay=("dep_delay", "sum"),
        arrived=("arr_time", "count"),
        arrival_delay=("arr_delay", "sum"),
        cancelled=("is_cancelled", "sum"),
    )
    rows = zip(groups.index, groups.to_numpy(), strict=True)
    return {_key(key): tuple(int(n) for n in row) for key, row in rows}


def busiest(flights: pd.DataFrame) -> Table:
    left = flights[flights.dep_time.notna()].groupby(["origin", "dest"]).size()
    return {_key(key): (int(count),) for key, count in left.items()}


def _compare(name: str, ours: Table, pandas: Table) -> list[str]:
    keys = sorted({*ours, *pandas})
    return [
        f"{name} {key}: {ours.get(key)} here, {pandas.get(key)} in pandas"
        for key in keys
        if ours.get(key) != pandas.get(key)
    ]


def _key(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
