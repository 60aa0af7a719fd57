"""The tables as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib

from examples.flights.check import BY_CARRIER, BY_HOUR, ROUTES, Table, kept

matplotlib.use("agg")  # no screen is needed
import matplotlib.pyplot as plt  # after the choice above

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

ROUTES_SHOWN = 10


def save(path: Path) -> None:
    figure, (by_carrier, by_hour, busiest) = plt.subplots(1, 3, figsize=(15, 5))
    _bars(by_carrier, _mean_delays(kept(BY_CARRIER, 1)), "minutes late at departure, by carrier")
    _bars(by_hour, _mean_delays(kept(BY_HOUR, 1)), "minutes late at departure, by hour")
    _bars(busiest, _busiest(kept(ROUTES, 2)), "flights on the busiest routes")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _mean_delays(table: Table) -> dict[str, float]:
    """Departed flights and their delays are the first two numbers."""
    return {str(key[0]): row[1] / row[0] for key, row in sorted(table.items()) if row[0]}


def _busiest(table: Table) -> dict[str, float]:
    ranked = sorted(table.items(), key=lambda item: -item[1][0])[:ROUTES_SHOWN]
    return {"-".join(key): float(row[0]) for key, row in ranked}


def _bars(axes: Axes, values: dict[str, float], title: str) -> None:
    axes.bar(list(values), list(values.values()))
    axes.set_title(title)
    axes.tick_params(axis="x", rotation=60)
