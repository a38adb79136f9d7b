"""The plot at the end: mean delay by hour of day, and by carrier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import matplotlib.pyplot as plt

from pipeline.delay_hours import HourKey, Hours

__all__ = ["mean_delays", "plot_delays"]

_HERE: Final = ZoneInfo("America/New_York")
# With fewer flights, a mean is not meaningful, such as for the few departures at 1 a.m.
_ENOUGH: Final = 50


def mean_delays(hours: Hours, by: Callable[[HourKey], str]) -> dict[str, float]:
    """The mean delay in minutes of each group that has enough departures."""
    minutes: dict[str, int] = defaultdict(int)
    left: dict[str, int] = defaultdict(int)
    for key, delays in hours.items():
        minutes[by(key)] += delays.delay_minutes
        left[by(key)] += delays.flights - delays.cancelled
    return {group: minutes[group] / left[group] for group in sorted(left) if left[group] >= _ENOUGH}


def _local_hour(key: HourKey) -> int:
    return datetime.fromisoformat(key[0]).astimezone(_HERE).hour


def plot_delays(hours: Hours, names: dict[str, str], path: Path) -> None:
    """Draw the plot into a PNG file."""
    figure, (by_hour, by_carrier) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for origin in sorted({key[2] for key in hours}):
        these = {key: delays for key, delays in hours.items() if key[2] == origin}
        means = mean_delays(these, lambda key: f"{_local_hour(key):02}")
        by_hour.plot([int(hour) for hour in means], list(means.values()), marker="o", label=origin)
    by_hour.set(xlabel="planned hour of departure, New York time", ylabel="mean delay, minutes", title="By hour of day")
    by_hour.legend()
    by_hour.grid(alpha=0.3)
    carriers = sorted(mean_delays(hours, lambda key: key[1]).items(), key=lambda item: item[1])
    by_carrier.barh(_labels((carrier for carrier, _ in carriers), names), [mean for _, mean in carriers])
    by_carrier.set(xlabel="mean delay, minutes", title="By carrier")
    # The types of these two in matplotlib are incomplete.
    figure.suptitle("Departures from New York City, 2013")  # pyright: ignore[reportUnknownMemberType]
    figure.savefig(path, dpi=110)  # pyright: ignore[reportUnknownMemberType]
    plt.close(figure)


def _labels(carriers: Iterable[str], names: dict[str, str]) -> list[str]:
    return [f"{carrier} {names.get(carrier, '')}".strip() for carrier in carriers]
