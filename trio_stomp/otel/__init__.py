"""OpenTelemetry: traces and metrics of a client, by the semantic conventions of messaging. Requires the extra ``otel``.

::

    async with trio_stomp.connect(url, hooks=trio_stomp.otel.OpenTelemetryHooks()) as client:
        ...
"""

try:
    from trio_stomp.otel.context import context_of
    from trio_stomp.otel.statistics_report import report_statistics
    from trio_stomp.otel.telemetry import OpenTelemetryHooks
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    msg = "trio_stomp.otel requires OpenTelemetry. Run: pip install 'trio-stomp[otel]'"
    raise ModuleNotFoundError(msg, name=error.name) from error

__all__ = ["OpenTelemetryHooks", "context_of", "report_statistics"]
