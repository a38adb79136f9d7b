"""Lets Spark find the format ``stomp`` by itself: in the wheel this module is ``pyspark_stomp``.

Spark imports every top-level module whose name begins with ``pyspark_`` and looks for `DefaultSource` in it. One whose
import fails takes the discovery of all others with it, so this one never fails.
"""

__all__: list[str] = []

try:
    from trio_stomp.spark import StompDataSource as DefaultSource
except ImportError:
    # The extra `spark` is not there, and then neither is the format.
    pass
else:
    __all__ += ["DefaultSource"]
