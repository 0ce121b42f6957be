"""Fifteen behaviors of the seeds that are easy to miss, one test each.

Other tests cover the details of each of them.
"""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from pydantic import BaseModel

from django_mcp import (
    Frame,
    McpError,
    Resource,
    ResourceTemplate,
    Response,
    Server,
    Tool,
    registry,
    stores,
)
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.resource import resource_component
from django_mcp.core.components.tool import tool_component
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.frame import StdioTransport
from django_mcp.testing import Client, accept
from django_mcp.testing.plugin import ClientFor
from django_mcp.transports.http.endpoint import Endpoint
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

LAST = "2025-11-25"
LISTS = [f"notifications/{name}/list_changed" for name in ("tools", "resources", "prompts")]
in_sessions = pytest.mark.parametrize(
    "mcp_version", ["2024-11-05", "2025-03-26", "2025-06-18", LAST]
)
input_request_versions = pytest.mark.parametrize("mcp_version", ["2025-06-18", LAST, "2026-07-28"])


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def handler() -> str:
    """A handler that every worker can import."""
    return "said"


def test_frame_registration_accepts_task_support_meta_and_templates() -> None:
    class Documented(Tool):
        """What its docstring says."""

        def execute(self) -> None:
            """Do nothing."""

    frame = (
        Frame()
        .register_tool("t", task_support="required", meta={"example.com/a": 1}, handler=handler)
        .register_resource("a://{b}", name="old way")
        .register_resource_template("c://{d}", name="new way")
    )
    tool, *templates = frame.get_components()

    assert Frame().get_protocol_module() is None
    assert [template.kind for template in templates] == ["resource_template"] * 2
    assert tool.descriptor()["execution"] == {"taskSupport": "required"}
    assert tool.descriptor()["_meta"] == {"example.com/a": 1}
    assert tool_component(Documented).descriptor()["description"] == "What its docstring says."


def test_clear_session_empties_private_and_keeps_assigns_and_request() -> None:
    frame = (
        Frame({"kept": 1}, initialized=True, transport=StdioTransport(os_pid=1))
        .put_request({"id": 1, "method": "tools/call"})
        .put_private(session_id="s", client_info={}, protocol_version=LAST)
        .put_pagination_limit(5)
        .register_tool("t")
    )

    cleared = frame.clear_session()
    assert cleared.private == {}
    assert cleared.get_components() == []
    assert (cleared.assigns, cleared.transport) == (frame.assigns, frame.transport)
    assert (cleared.request, cleared.initialized) == (frame.request, True)
    assert frame.clear_request().private == frame.private
    assert frame.clear_components().private["pagination_limit"] == 5
    assert frame.clear_components().request == frame.request


def tenant(frame: Frame) -> dict[str, Any]:
    """A frame processor: values of the web request override others."""
    return {"tenant": frame.get_req_header("x-tenant")}


async def test_frame_processor_assigns_are_not_mixed_between_serialized_calls(
    configure: Configure,
) -> None:
    configure(FRAME_PROCESSORS=["tests.core.frame.test_seed_behaviors.tenant"])
    began, proceed = asyncio.Event(), asyncio.Event()
    server = Server("queueing", serialize_requests=True, notify_lists_on_initialize=False)

    @server.tool
    async def whose(frame: Frame) -> Any:
        began.set()
        await proceed.wait()
        mine = str(frame.assigns["tenant"])
        seen = frame.assigns.get("seen", "")
        return f"{mine} after {seen}", frame.assign(seen=mine, tenant="of the session")

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    calls = []
    for name in ("acme", "globex"):
        caller = AsgiClient(
            server, NEWEST_SESSION, session=peer.session, headers={"x-tenant": name}
        )
        calls.append(asyncio.ensure_future(caller.post(peer.call("whose", id=name))))
        await began.wait()
    proceed.set()
    results = [json.loads((await call).body)["result"] for call in calls]

    assert [text(result) for result in results] == ["acme after ", "globex after acme"]


@in_sessions
async def test_empty_results_are_answered_and_their_frames_are_stored(
    client_for: ClientFor,
) -> None:
    server = Server("terse")

    @server.tool
    def tool(frame: Frame) -> Frame:
        return frame.assign(by="tool")

    @server.resource("terse://here")
    def resource(frame: Frame) -> Frame:
        return frame.assign(by="resource")

    @server.prompt
    def prompt(frame: Frame) -> tuple[None, Frame]:
        return None, frame.assign(by="prompt")

    @server.tool
    def error(frame: Frame) -> tuple[McpError, Frame]:
        return McpError("No"), frame.assign(by="error")

    @server.tool
    def last(frame: Frame) -> str:
        return str(frame.assigns["by"])

    async with client_for(server) as client:
        called = await client.call_tool("tool")
        kept = [(await client.call_tool("last")).text]
        read = await client.read_resource("terse://here")
        kept.append((await client.call_tool("last")).text)
        got = await client.get_prompt("prompt")
        kept.append((await client.call_tool("last")).text)
        await error_of(client.call_tool("error"))
        kept.append((await client.call_tool("last")).text)

    assert (called["content"], called.get("isError", False)) == ([], False)
    assert [each["text"] for each in read["contents"]] == [""]
    assert got["messages"] == []
    assert kept == ["tool", "resource", "prompt", "error"]


async def test_mcp_error_is_a_jsonrpc_error_and_error_response_is_a_result(
    client_for: ClientFor,
) -> None:
    server = Server("failing")
    promised = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @server.tool
    def for_the_program(frame: Frame) -> Any:
        return McpError.invalid_request("Not so"), frame

    @server.tool
    def for_the_model() -> Response:
        return Response.tool().error("Try again")

    @server.tool(output_schema=promised)
    def promise(how: str) -> Any:
        answers: dict[str, Any] = {
            "wrong": {"n": "many"},
            "unstructured": Response.tool().text("five"),
            "failed": Response.tool().error("No numbers today"),
        }
        return answers[how]

    async with client_for(server) as client:
        error = await error_of(client.call_tool("for_the_program"))
        result = await client.call_tool("for_the_model")
        wrong = await error_of(client.call_tool("promise", {"how": "wrong"}))
        nothing = await error_of(client.call_tool("promise", {"how": "unstructured"}))
        failed = await client.call_tool("promise", {"how": "failed"})

    assert (error.code, error.message) == (-32600, "Not so")
    assert (result["isError"], result.text) == (True, "Try again")
    assert (wrong.code, nothing.code) == (-32603, -32603)
    assert (failed["isError"], failed.text) == (True, "No numbers today")


@pytest.mark.parametrize("support", ["forbidden", "optional", "required"])
async def test_task_support_is_ignored_without_tasks_capability(support: Any) -> None:
    server = Server("taskless", capabilities={"tasks": None})
    server.register_tool("work", handler, task_support=support)

    async with Client(server, version=LAST) as client:
        (listed,) = await client.list_tools()
        plainly = await client.call_tool("work")
        as_a_task = await client.request("tools/call", {"name": "work", "task": {"ttl": 1000}})

    assert "execution" not in listed
    assert plainly.text == as_a_task.text == "said"


def test_omitted_component_name_title_and_mime_type_are_derived() -> None:
    class HTTPStatus(Tool):
        def execute(self) -> None:
            """Not the description of the tool."""

    class Report(Resource):
        uri = "file:///reports/today.txt"

        def read(self) -> str:
            """Not the description of the resource."""
            return ""

    class Nameless(ResourceTemplate):
        uri_template = "file:///{path}"

        def read(self, path: str) -> str:
            """Not the description of the template."""
            return path

    tool = tool_component(HTTPStatus)
    titled = tool_component(HTTPStatus, title="a")
    report = resource_component(Report).descriptor()

    assert (tool.name, tool.descriptor()["description"]) == ("http_status", "")
    assert [tool.display_title, titled.display_title] == ["http_status", "a"]
    assert (report["name"], report["mimeType"]) == ("today.txt", "text/plain")
    with pytest.raises(ValueError, match="name"):
        resource_component(Nameless)
    with pytest.raises(ValueError, match="name"):
        Frame().register_resource_template("file:///{path}")


async def test_handler_receives_validated_arguments_and_frame_the_raw_request(
    client_for: ClientFor,
) -> None:
    server = Server("checking")

    class Order(Tool):
        class Input(BaseModel):
            due: date
            count: int = 1

        def execute(self, params: Input, frame: Frame) -> str:
            assert frame.request is not None
            raw = frame.request.params["arguments"]
            return f"{params.due!r} {params.count} {raw}"

    @server.tool(input_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    def by_hand(params: dict[str, Any]) -> str:
        return str(params)

    server.tool(Order)
    async with client_for(server) as client:
        clean = await client.call_tool("order", {"due": "2026-01-31"})
        unknown = await client.call_tool("order", {"due": "2026-01-31", "colour": "red"})
        missing = await client.request("tools/call", {"name": "by_hand"})
        wrong = await client.call_tool("by_hand", {"n": "many"})

    assert clean.text == "datetime.date(2026, 1, 31) 1 {'due': '2026-01-31'}"
    assert unknown["isError"] is True
    assert "colour" in unknown.text
    assert missing.text == "{}"
    assert wrong["isError"] is True


def test_frame_getters_return_none_for_missing_values() -> None:
    over_http = Frame().put_transport(
        req_headers=[("X-Token", "first"), ("x-token", "second")], query_params=None
    )
    over_stdio = Frame().put_transport(type="stdio", env={"HOME": "/root"}, os_pid=12345)

    assert over_http.get_req_header("x-TOKEN") == "first"
    assert over_http.get_req_header("other") is None
    assert over_http.get_query_param("any") is None
    assert over_stdio.get_req_header("x-token") is over_stdio.get_query_param("any") is None
    assert isinstance(over_stdio.transport, StdioTransport)
    assert (over_stdio.transport.env, over_stdio.transport.pid) == ({"HOME": "/root"}, "12345")
    for frame in (Frame(), over_http, over_stdio):
        assert frame.get_client_info() is frame.get_client_capabilities() is None
        assert frame.get_mcp_session_id() is frame.get_protocol_version() is None


@in_sessions
async def test_declared_and_session_tools_are_merged_into_one_list(client_for: ClientFor) -> None:
    server = Server("listing", notify_lists_on_initialize=False, page_size=2)

    @server.tool
    def grow(frame: Frame) -> Frame:
        return (
            frame.register_tool("apple", handler=handler)
            .register_tool("zebra", handler=handler)
            .register_tool("hidden", handler=handler, scopes=["never"], when_denied="hidden")
        )

    server.tool(name="middle")(handler)
    async with client_for(server) as client:
        await client.call_tool("grow")
        first = await client.request("tools/list")
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})
        forged = await error_of(client.request("tools/list", {"cursor": "MTIz"}))
        received = [each["method"] for each in client.notifications]

    pages = [[tool["name"] for tool in page["tools"]] for page in (first, second)]
    assert pages == [["apple", "grow"], ["middle", "zebra"]]
    assert "nextCursor" not in second
    assert forged.code == -32602
    if client.connection.name != "http":
        assert received == LISTS[:1]


@input_request_versions
async def test_running_tool_can_send_notifications_and_input_requests(
    client_for: ClientFor,
) -> None:
    server = Server("asking", notify_lists_on_initialize=False)
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    @server.tool
    def greet(frame: Frame) -> str:
        frame.client.progress(1, 2)
        frame.client.log("info", "asking")
        name = frame.client.elicit("Who?", form, key="who").content["name"]
        model = frame.client.create_message(f"Greet {name}", max_tokens=9, key="how").text
        roots = frame.client.list_roots(key="where")
        return f"{model} ({len(roots)} roots)"

    sampled = {"role": "assistant", "content": {"type": "text", "text": "Hi!"}, "model": "m"}
    roots = [{"uri": "file:///home"}]
    given = {"elicitation": accept(name="Ada"), "sampling": sampled, "roots": roots}
    async with client_for(server, **given) as client:
        result = await client.call_tool("greet")

    assert result.text == "Hi! (1 roots)"
    assert client.progress[0]["progress"] == 1
    assert client.logs[0]["data"] == "asking"


async def test_cancelled_call_stores_nothing_and_returns_cancelled_error() -> None:
    server, began, ran = Server("cancelling", notify_lists_on_initialize=False), asyncio.Event(), []

    @server.tool
    async def remember(frame: Frame, wait: bool = True) -> Any:
        ran.append(wait)
        began.set()
        try:
            if wait:
                await frame.cancellation.await_request()
        except asyncio.CancelledError:
            assert frame.cancellation.requested
        return "done", frame.assign(remembered=True)

    @server.tool
    def recall(frame: Frame) -> str:
        return str(frame.assigns.get("remembered"))

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    running = asyncio.ensure_future(peer.post(peer.call("remember", id="running")))
    await began.wait()
    await peer.notify("notifications/cancelled", requestId="running", reason="too slow")
    cancelled = json.loads((await running).body)
    recalled = json.loads((await peer.post(peer.call("recall"))).body)

    assert cancelled["error"] == {"code": -32603, "message": "Cancelled"}
    assert ran == [True]
    assert text(recalled["result"]) == "None"


async def test_initialize_sends_list_changed_once_per_list_and_local_calls_never() -> None:
    server = Server("beginning", notify_lists_on_initialize=True)
    server.register_tool("say", handler)
    server.register_prompt("say", handler)
    server.register_resource("say://it", handler)
    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()

    async with peer.stream() as stream:
        received = await stream.methods(3)
        frame = server.handle_initialize({"name": "c", "version": "1"}, {})
        called = await server.acall_tool("say", frame=frame)
        read = await server.aread_resource("say://it")
        got = await server.aget_prompt("say")
        listed = await server.alist_tools()
        answer = await server.ahandle({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        await server.asend_notification("example/end")
        after = await stream.methods(1)

    assert sorted(received) == sorted(LISTS)
    assert after == ["example/end"]
    assert text(called) == read["contents"][0]["text"] == "said"
    assert got["messages"][0]["content"]["text"] == "said"
    assert answer is not None
    assert answer["result"]["tools"] == [{**listed[0]}]


async def test_experimental_capabilities_follow_keepalive_and_log_rate_limit(
    client_for: ClientFor,
) -> None:
    server = Server("experimental", notify_lists_on_initialize=False)

    @server.tool
    def chat(frame: Frame) -> str:
        for level in ("INFO", "WARN", "ERROR", "nonsense", "FATAL"):
            frame.client.log(level, data=level)
        return "chatted"

    async def advertised() -> Any:
        async with Client(server, version=LAST) as client:
            capabilities = client.initialize_result["capabilities"]
            assert capabilities["logging"] == {}
            assert "sampling" not in capabilities
            return capabilities.get("experimental")

    none = await advertised()
    server.set_keepalive(60_000, failure_threshold=2)
    server.set_log_rate_limit(2)
    both = await advertised()
    log_capability = {"experimental": {"logLevel": "WARN"}}
    async with Client(server, version=LAST, log_level=None, capabilities=log_capability) as client:
        await client.call_tool("chat")
    server.set_keepalive(None)
    server.set_log_rate_limit(0)

    assert none is await advertised() is None
    assert both == {
        "keepalive": {"enabled": True, "intervalMs": 60_000, "failureThreshold": 2},
        "loggingRateLimit": {"enabled": True, "perSecond": 2},
    }
    # The level is checked first, and does not count; messages over the rate limit are dropped.
    assert [log["data"] for log in client.logs] == ["WARN", "ERROR"]


class HeaderAuthentication:
    """An authenticator that trusts a header."""

    async def authenticate(self, scope: Any, /) -> Principal | None:
        name = dict(scope["headers"]).get(b"x-name")
        if name is None:
            return None
        return Principal(scheme="name", subject=name.decode(), user=User(username=name.decode()))


async def test_session_is_bound_to_its_owner_and_loaded_by_every_worker(
    client_for: ClientFor,
) -> None:
    server = Server("hygienic", notify_lists_on_initialize=False)

    @server.tool(complete={"n": lambda typed: ["1"]})
    def remember(n: int, frame: Frame) -> Any:
        frame.client.log("info", f"remembering {n}")
        return "kept", frame.assign(n=n).register_tool("own", handler=handler)

    Client(server)  # This applies the settings of the site to the server.
    one_worker, another = (
        Endpoint(
            server,
            registry.authentication_by(server, (HeaderAuthentication(),)),
        )
        for _ in "12"
    )
    ada = AsgiClient(server, NEWEST_SESSION, application=one_worker, headers={"x-name": "ada"})
    nobody = AsgiClient(server, NEWEST_SESSION, application=one_worker)
    await ada.initialize()
    mallory = AsgiClient(
        server,
        NEWEST_SESSION,
        application=one_worker,
        headers={"x-name": "mallory"},
        session=ada.session,
    )
    fixated = AsgiClient(
        server, NEWEST_SESSION, application=one_worker, headers={"x-name": "ada"}, session="mine"
    )
    foreign = AsgiClient(
        server,
        NEWEST_SESSION,
        application=one_worker,
        headers={"x-name": "ada", "origin": "https://evil.example"},
        session=ada.session,
    )

    assert len(ada.session or "") >= 40
    assert (await mallory.post(mallory.request("ping"))).status == 404
    assert (await fixated.post(fixated.request("ping"))).status == 404
    assert (await foreign.post(foreign.request("ping"))).status == 403
    async with nobody.open_get() as stream:
        assert await stream.status() == 401

    await ada.post(ada.call("remember", n=5))
    elsewhere = AsgiClient(
        server, NEWEST_SESSION, application=another, headers={"x-name": "ada"}, session=ada.session
    )
    listed = json.loads((await elsewhere.post(elsewhere.request("tools/list"))).body)
    session = await stores.sessions().load(ada.session or "")

    assert [tool["name"] for tool in listed["result"]["tools"]] == ["own", "remember"]
    assert isinstance(session, Session)
    assert (session.assigns, session.client_info["name"]) == ({"n": 5}, "wire")
    assert (session.version, session.principal) == (LAST, "name:ada")
    assert "notifications/message" in BY_VERSION[LAST].server_notifications
    assert "completions" in server.get_capabilities()
