"""What an SDK of OpenTelemetry collects during a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_mcp.core.dispatch import telemetry
from django_mcp.transports import site

SESSIONS = "mcp.server.session.duration"


class Collected:
    """What an SDK has collected."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics])

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def span(self) -> ReadableSpan:
        """The only one."""
        (span,) = self.spans()
        return span

    def durations(self, name: str = "mcp.server.operation.duration") -> list[Any]:
        """The points of a histogram."""
        data = self._metrics.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics  # type: ignore[union-attr]
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    """An SDK for one test: the API itself accepts one for each process."""
    collected = Collected()
    meter = collected.meters.get_meter("django_mcp")
    monkeypatch.setattr(telemetry, "_tracer", collected.tracers.get_tracer("django_mcp"))
    monkeypatch.setattr(telemetry, "_durations", telemetry.request_durations(meter))
    monkeypatch.setattr(telemetry, "_session_durations", telemetry.session_durations(meter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: collected.tracers)
    site.get.cache_clear()
    yield collected
    site.get.cache_clear()
    collected.tracers.shutdown()
