"""Spans and metrics of OpenTelemetry, as an SDK collects them."""

from __future__ import annotations

import re
from time import time
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from prometheus_client import generate_latest

from django_mcp import Frame, Server, ToolError
from django_mcp.core.dispatch import telemetry
from django_mcp.testing import Client, accept
from django_mcp.transports import site
from tests.around.requests import post
from tests.core.dispatch.collected import SESSIONS, Collected, collected
from tests.memory_stores import configure

__all__ = ["collected", "configure"]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
SECRET = "a value that nobody may read"

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def buy(text: str = "") -> str:
        if text == "nothing":
            raise ToolError("There is nothing.")
        if text == "error":
            raise ConnectionError(SECRET)
        return SECRET

    @server.tool(requests_input=True)
    def greet(frame: Frame) -> str:
        return str(frame.client.elicit("Your name?", NAME).content["name"])

    @server.tool(task_support="required")
    def pack(frame: Frame) -> str:
        return frame.trace["traceparent"]

    @server.prompt
    def order() -> str:
        return "Order tea."

    return server


async def test_call_is_a_span_below_the_one_of_the_client(collected: Collected) -> None:
    async with Client(shop()) as client:
        await client.call_tool("buy", {"text": SECRET}, meta=SENT)

    span = collected.span()
    assert span.name == "tools/call buy"
    assert span.kind is SpanKind.SERVER
    assert span.parent is not None
    assert format_span_id(span.parent.span_id) == PARENT
    assert format_trace_id(span.context.trace_id) == TRACE
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "buy",
        "jsonrpc.request.id": "1",
    }
    assert span.status.status_code is StatusCode.UNSET
    (duration,) = collected.durations()
    assert duration.attributes["gen_ai.tool.name"] == "buy"
    assert "jsonrpc.request.id" not in duration.attributes
    # Those that the conventions advise.
    assert duration.explicit_bounds == (
        0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "text", "error_type", "code"),
    [
        ("buy", "nothing", "tool_error", None),
        ("buy", "error", "tool_error", None),
        ("sell", "", "-32602", "-32602"),
    ],
)
async def test_failed_call_has_the_type_of_its_error(
    collected: Collected, tool: str, text: str, error_type: str, code: str | None
) -> None:
    async with Client(shop(), raise_exceptions=False) as client:
        await client.call(tool, text=text)

    span = collected.span()
    assert span.attributes is not None
    assert span.attributes["error.type"] == error_type
    assert span.attributes.get("rpc.response.status_code") == code
    assert span.status.status_code is StatusCode.ERROR
    # A name that is unknown is a value of the client, of which there may be any number.
    assert span.name == ("tools/call buy" if tool == "buy" else "tools/call")


async def test_spans_and_metrics_have_no_values_and_no_session_id(
    collected: Collected, configure: Any
) -> None:
    configure()
    async with Client(shop(), version="2025-11-25", raise_exceptions=False) as client:
        await client.call("buy", text=SECRET)
        await client.call("buy", text="error")
        session_id = client.session_id

    assert session_id is not None
    everything = "".join(span.to_json() for span in collected.spans())
    assert "mcp.session.id" in everything
    assert SECRET not in everything
    assert session_id not in everything


@pytest.mark.django_db
@pytest.mark.parametrize("meta", [SENT, {}])
async def test_retry_that_brings_requested_input_is_linked_to_the_attempt_before(
    collected: Collected, meta: dict[str, str]
) -> None:
    async with Client(shop(), elicitation=accept(name="Ada")) as client:
        await client.call_tool("greet", meta=meta)

    first, second = collected.spans()
    assert [first.name, second.name] == ["tools/call greet"] * 2
    assert first.links == ()
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert (first.context.trace_id == second.context.trace_id) is bool(meta)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-03-26"])
async def test_session_that_its_client_ends_is_measured(
    collected: Collected, configure: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure()
    async with Client(shop(), version=version, transport="http") as client:
        await client.list_tools()
        assert collected.durations(SESSIONS) == []
        monkeypatch.setattr(telemetry, "time", lambda: time() + 90)

    (duration,) = collected.durations(SESSIONS)
    assert duration.count == 1
    assert 90 <= duration.sum < 180
    assert dict(duration.attributes) == {
        "mcp.protocol.version": version,
        "network.transport": "tcp",
    }


async def test_session_of_a_connection_is_measured_once(collected: Collected) -> None:
    async with Client(shop(), version="2025-11-25", transport="stdio") as client:
        await client.list_tools()

    (duration,) = collected.durations(SESSIONS)
    assert (duration.count, duration.attributes["network.transport"]) == (1, "pipe")


@pytest.mark.django_db(transaction=True)
async def test_run_of_a_task_is_a_span_below_its_call(collected: Collected) -> None:
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with Client(shop(), capabilities=capabilities) as client:
        created = await client.call_tool("pack")
        task = {"taskId": created["taskId"]}
        while (await client.request("tasks/get", task))["status"] == "working":
            pass

    call, run = [span for span in collected.spans() if span.name == "tools/call pack"]
    assert run.parent is not None
    assert run.parent.span_id == call.context.span_id


async def test_span_of_the_http_request_is_linked(collected: Collected) -> None:
    tracer = collected.tracers.get_tracer("http")
    with tracer.start_as_current_span("POST /mcp") as request:
        await post(shop(), "tools/call", {"name": "buy", "arguments": {}})
        async with Client(shop()) as client:
            await client.call_tool("buy", meta=SENT)

    inner, linked, _ = collected.spans()
    assert inner.parent is not None
    assert inner.parent.span_id == request.get_span_context().span_id
    assert [link.context.span_id for link in linked.links] == [request.get_span_context().span_id]


async def test_unknown_method_and_prompt_are_named_as_the_conventions_say(
    collected: Collected,
) -> None:
    async with Client(shop(), version="2025-11-25", log_level=None) as client:
        await client.get_prompt("order")
        await client.send(client.message("shop/anything"))

    names = [span.name for span in collected.spans()]
    assert names == ["initialize", "prompts/get order", "_OTHER"]


async def test_nothing_is_made_without_an_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("A span was made")

    monkeypatch.setattr(telemetry, "traced", fail)
    site.get.cache_clear()
    assert not telemetry.is_configured()

    async with Client(shop()) as client:
        (await client.call("buy")).assert_ok()


def test_sdk_for_metrics_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "get_meter_provider", MeterProvider)

    assert telemetry.is_configured()


async def test_prometheus_reads_the_durations_of_calls_and_sessions(
    collected: Collected, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = MeterProvider([PrometheusMetricReader()])
    meter = provider.get_meter("django_mcp")
    monkeypatch.setattr(telemetry, "_durations", telemetry.request_durations(meter))
    monkeypatch.setattr(telemetry, "_session_durations", telemetry.session_durations(meter))
    configure()
    async with Client(shop(), version="2025-11-25", transport="http") as client:
        await client.call_tool("buy")

    text = generate_latest().decode()
    provider.shutdown()
    assert re.search(r'mcp_server_operation_duration_seconds_count\{.*="buy"', text)
    assert "mcp_server_session_duration_seconds_count{" in text
