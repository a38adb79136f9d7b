"""Lets Spark find the format ``stomp`` by itself. In the wheel, this module is ``pyspark_stomp``.

Spark imports every top-level module whose name begins with ``pyspark_`` and looks for `DefaultSource` in it. If one
import fails, Spark finds none of them, so importing this one never fails.
"""

from __future__ import annotations

import sys

__all__: list[str] = []

try:
    from pyspark.sql.datasource import DataSource
except ImportError:
    # Without PySpark, nothing looks for `DefaultSource`.
    pass
else:
    __all__ += ["DefaultSource"]

    def _default_source() -> type[DataSource]:
        try:
            from trio_stomp.spark import StompDataSource  # noqa: PLC0415  # it may fail
        except ImportError as error:
            reason = f"{sys.executable} cannot use the format 'stomp': {error}"

            class Unusable(DataSource):
                """Reports why the format cannot be used. Spark would only report that it does not exist."""

                def __init__(self, options: dict[str, str]) -> None:  # noqa: ARG002  # Spark's signature
                    raise ImportError(reason)

                @classmethod
                def name(cls) -> str:
                    """The name of the format."""
                    return "stomp"

            return Unusable
        return StompDataSource

    DefaultSource = _default_source()
