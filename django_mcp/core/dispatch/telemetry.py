"""OpenTelemetry: a span and a duration for each request, and the durations of sessions.

Names and attributes are from the semantic conventions for MCP (gen-ai/mcp, "Server" and
"Metrics"), without the arguments and results, which they leave to opt in. Without an SDK,
which the site configures, nothing is made.
"""

from __future__ import annotations

from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import Link, SpanKind, StatusCode

from django_mcp.core.frame.client.request_state import EARLIER_TRACE
from django_mcp.core.frame.session import Session, address
from django_mcp.core.frame.transport import HttpTransport, Transport
from django_mcp.core.protocol.jsonrpc import RequestInfo
from django_mcp.core.protocol.limits import cut, shown

if TYPE_CHECKING:
    from django_mcp.core.dispatch.handle import RequestStep, Site
    from django_mcp.core.frame.frame import Frame

NAME = "django_mcp"
OWN_MODULES = ("opentelemetry.trace", "opentelemetry.metrics")
"""Where the API has its own providers, which make nothing."""

Attributes = dict[str, Any]

TARGETS = {
    "tools/call": ("tool", "gen_ai.tool.name"),
    "prompts/get": ("prompt", "gen_ai.prompt.name"),
}
"""The kind of component that a method names, and its attribute."""

BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds: the boundaries of the histogram that the conventions advise."""


def request_durations(meter: metrics.Meter) -> metrics.Histogram:
    """Return the histogram of the durations of requests."""
    return meter.create_histogram(
        "mcp.server.operation.duration",
        unit="s",
        description="Duration of a request, from its receipt until its result.",
        explicit_bucket_boundaries_advisory=BOUNDARIES,
    )


def session_durations(meter: metrics.Meter) -> metrics.Histogram:
    """Return the histogram of the durations of sessions."""
    return meter.create_histogram(
        "mcp.server.session.duration",
        unit="s",
        description="Duration of a session, from initialize until it is ended.",
        explicit_bucket_boundaries_advisory=BOUNDARIES,
    )


_tracer = trace.get_tracer(NAME)
_durations = request_durations(metrics.get_meter(NAME))
_session_durations = session_durations(metrics.get_meter(NAME))


def is_configured() -> bool:
    """Whether the site has configured an SDK for spans or for metrics."""
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return any(not type(provider).__module__.startswith(OWN_MODULES) for provider in providers)


async def traced(answer_next: RequestStep, frame: Frame, site: Site) -> bytes:
    """Return the response of ``answer_next``; make a span, and record its duration.

    The parent is the span of the client, from ``_meta``; the span of the HTTP request is linked to
    it, and so is the earlier attempt of a call that brings requested input. Whatever the request
    starts, as a task or an approved call does, has the new span as its parent.
    """
    began = perf_counter()
    attributes = _attributes(frame)
    ambient = trace.get_current_span().get_span_context()
    sent = frame.trace
    parent = propagate.extract(sent) if sent else None
    links = [Link(ambient)] if parent is not None and ambient.is_valid else []
    links += _earlier_attempt(frame)
    details = {**attributes, **_details(frame)}
    method = attributes["mcp.method.name"]
    span = _tracer.start_span(method, parent, SpanKind.SERVER, details, links)
    token = context.attach(trace.set_span_in_context(span, parent))
    outcome: Attributes = {"error.type": "cancelled"}
    try:
        body = await answer_next(_with_parent(frame), site)
        outcome = _failure(frame)
        return body
    finally:
        context.detach(token)
        target = _target(frame)
        span.update_name(" ".join([method, *target.values()]))
        span.set_attributes({**target, **outcome})
        if "error.type" in outcome:
            span.set_status(StatusCode.ERROR)
        span.end()
        _durations.record(perf_counter() - began, {**attributes, **target, **outcome})


def session_ended(session: Session, transport: Transport | None) -> None:
    """Record the duration of a session that its client or the server has ended."""
    if session.opened_at is None:  # Its first request was not measured.
        return
    attributes = {
        "mcp.protocol.version": session.version,
        "network.transport": _transport_name(transport),
    }
    # The clock of another worker may be behind.
    _session_durations.record(max(time() - session.opened_at, 0.0), attributes)


def _earlier_attempt(frame: Frame) -> list[Link]:
    """The span that has requested the input which this call brings."""
    sent = frame.private.get(EARLIER_TRACE)
    if not sent:
        return []
    span = trace.get_current_span(propagate.extract({"traceparent": sent}, context.Context()))
    return [Link(span.get_span_context())] if span.get_span_context().is_valid else []


def _transport_name(transport: Transport | None) -> str:
    return "tcp" if isinstance(transport, HttpTransport) else "pipe"


def _attributes(frame: Frame) -> Attributes:
    """Attributes of spans and metrics: each has few values, whatever clients send."""
    method = frame.message.method
    is_known = method in frame.revision.requests
    attributes = {
        "mcp.method.name": method if is_known else "_OTHER",
        "mcp.protocol.version": frame.revision.version,
        "network.transport": _transport_name(frame.transport),
    }
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    return attributes


def _target(frame: Frame) -> Attributes:
    """The tool or prompt; none for an unknown name, since a client may send any number of them.

    It is read at the end, when the components of the server have been built.
    """
    if frame.message.method not in TARGETS:
        return {}
    kind, attribute = TARGETS[frame.message.method]
    name = frame.message.params.get("name")
    is_registered = isinstance(name, str) and frame.server.components.find(kind, name) is not None
    return {attribute: name} if is_registered else {}


def _details(frame: Frame) -> Attributes:
    """Attributes of spans alone."""
    details: Attributes = {"jsonrpc.request.id": shown(str(frame.message.id))}
    session_id = frame.get_mcp_session_id()
    if session_id is not None:
        # The id is a credential of the client.
        details["mcp.session.id"] = address(session_id)
    uri = frame.message.params.get("uri")
    if isinstance(uri, str):
        details["mcp.resource.uri"] = cut(uri)
    return details


def _with_parent(frame: Frame) -> Frame:
    """The Frame whose trace is the current span: for handlers, and for later work."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return frame
    request = frame.message
    meta = request.params.get("_meta")
    own_meta = meta if isinstance(meta, dict) else {}
    params = {**request.params, "_meta": {**own_meta, **carrier}}
    return frame.put_request(RequestInfo(request.id, request.method, params))


def _failure(frame: Frame) -> Attributes:
    """The attributes of a request that failed; empty for one that did not."""
    call = frame.exchange
    if call.outcome == "cancelled":
        return {"error.type": "cancelled"}
    if call.error is not None:
        code = str(frame.revision.error_code(call.error))
        return {"error.type": code, "rpc.response.status_code": code}
    return {"error.type": "tool_error"} if call.outcome == "error" else {}
