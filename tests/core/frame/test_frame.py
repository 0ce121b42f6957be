"""The functions of a Frame, which the test creates."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import ConfigurationError, Frame
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.frame.session import Change, Session
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.frame import HttpTransport, RequestInfo, StdioTransport
from django_mcp.transports.http.request import ScopeTransport
from tests.spec import spec


def handler(params: dict[str, Any]) -> str:
    """Records its arguments."""
    return str(params)


class TestNew:
    def test_new_frame_is_empty(self) -> None:
        frame = Frame()

        assert (dict(frame.assigns), dict(frame.private)) == ({}, {})
        assert (frame.request, frame.transport, frame.initialized) == (None, None, False)

    def test_new_frame_accepts_initial_assigns(self) -> None:
        assert Frame({"user": "alice"}).assigns == {"user": "alice"}

    def test_frame_methods_return_a_new_frame(self) -> None:
        frame = Frame({"a": 1})

        changed = frame.assign(a=2).put_private(b=3).put_pagination_limit(4).register_tool("t")

        assert frame.assigns == {"a": 1}
        assert frame.private == {}
        assert changed.assigns == {"a": 2}

    def test_repr_contains_names_and_counts_but_no_values(self) -> None:
        frame = (
            Frame({"token": "hunter2"})
            .put_private(secret="hunter2")
            .put_request({"id": 1, "method": "tools/call", "params": {"password": "hunter2"}})
            .put_transport(req_headers=[("authorization", "Bearer hunter2")])
            .register_tool("hunter", description="hunter2")
        )

        assert repr(frame) == "<Frame 'tools/call' assigns=[token] components=1>"
        assert f"{frame}" == repr(frame)


class TestAssign:
    @pytest.mark.parametrize(
        "assign",
        [
            lambda frame: frame.assign("status", "active").assign("count", 5),
            lambda frame: frame.assign({"status": "active", "count": 5}),
            lambda frame: frame.assign([("status", "active"), ("count", 5)]),
            lambda frame: frame.assign(status="active", count=5),
            lambda frame: frame.assign({"status": "active"}, count=5),
            lambda frame: frame.assign("status", "active", count=5),
        ],
        ids=["one by one", "mapping", "pairs", "keywords", "mapping and keyword", "both"],
    )
    def test_assign_accepts_pairs_mappings_and_keywords(
        self, assign: Callable[[Frame], Frame]
    ) -> None:
        assert assign(Frame()).assigns == {"status": "active", "count": 5}

    def test_last_value_assigned_to_a_key_is_kept(self) -> None:
        assert Frame({"a": 0}).assign([("a", 1), ("a", 2)]).assigns == {"a": 2}

    @pytest.mark.parametrize("arguments", [("key",), ("key", 1, 2), ({"a": 1}, 2)])
    def test_assign_rejects_a_wrong_number_of_arguments(self, arguments: tuple[Any, ...]) -> None:
        with pytest.raises(TypeError):
            Frame().assign(*arguments)

    def test_each_assigned_key_is_recorded_as_a_session_change(self) -> None:
        assert Frame({"old": 0}).assign(a=1, b=2).changes == (
            Change("assigns", "put", "a", 1),
            Change("assigns", "put", "b", 2),
        )

    def test_request_assigns_override_session_assigns_without_a_change(self) -> None:
        frame = Frame({"tenant": "of the session", "a": 1}).with_request_assigns(
            {"tenant": "of the request"}
        )

        assert frame.assigns == {"tenant": "of the request", "a": 1}
        assert frame.changes == ()


class TestAssignNew:
    def test_assign_new_assigns_the_return_value_of_the_function(self) -> None:
        assert Frame().assign_new("at", lambda: 5).assigns == {"at": 5}

    @pytest.mark.parametrize("present", [5, None, False, ""])
    def test_assign_new_does_not_call_the_function_if_the_key_exists(self, present: Any) -> None:
        def expensive() -> Any:
            raise AssertionError("it was called")

        frame = Frame({"count": present}).assign_new("count", expensive)

        assert frame.assigns == {"count": present}
        assert frame.changes == ()


class TestTransport:
    http = HttpTransport(
        req_headers=[("Authorization", "Bearer 1"), ("x-tag", "first"), ("X-Tag", "second")],
        query_params={"session": "abc123"},
        remote_ip="151.236.219.228",
        scheme="https",
        host="api.example.com",
        port=443,
        request_path="/mcp",
    )

    @spec("T-HTTP-6A")
    @pytest.mark.parametrize("name", ["authorization", "Authorization", "AUTHORIZATION"])
    def test_header_lookup_ignores_case(self, name: str) -> None:
        assert Frame(transport=self.http).get_req_header(name) == "Bearer 1"

    def test_repeated_header_returns_the_first_value(self) -> None:
        assert Frame(transport=self.http).get_req_header("x-tag") == "first"

    @pytest.mark.parametrize(
        "transport", [None, HttpTransport(), StdioTransport(env={"AUTHORIZATION": "x"})]
    )
    def test_missing_header_returns_none(self, transport: Any) -> None:
        assert Frame(transport=transport).get_req_header("authorization") is None

    def test_query_parameter_is_returned(self) -> None:
        assert Frame(transport=self.http).get_query_param("session") == "abc123"

    @pytest.mark.parametrize(
        "transport",
        [None, StdioTransport(), HttpTransport(query_params=None), HttpTransport(query_params={})],
    )
    def test_missing_query_parameter_returns_none(self, transport: Any) -> None:
        assert Frame(transport=transport).get_query_param("session") is None

    def test_http_transport_contains_the_request_details(self) -> None:
        transport = Frame(transport=self.http).transport

        assert isinstance(transport, HttpTransport)
        assert (transport.type, transport.scheme, transport.host) == (
            "http",
            "https",
            "api.example.com",
        )
        assert (transport.port, transport.request_path) == (443, "/mcp")
        assert transport.remote_ip == "151.236.219.228"

    def test_stdio_transport_contains_environment_and_process_id(self) -> None:
        transport = StdioTransport(env={"USER": "alice"}, os_pid=12345)

        assert (transport.type, transport.env["USER"]) == ("stdio", "alice")
        assert (transport.pid, transport.os_pid) == ("12345", 12345)

    def test_put_transport_accepts_a_name_a_mapping_or_keywords(self) -> None:
        frame = (
            Frame()
            .put_transport("host", "example.com")
            .put_transport({"port": 8000, "scheme": "http"})
            .put_transport(request_path="/mcp")
        )

        assert frame.transport == HttpTransport(
            host="example.com", port=8000, scheme="http", request_path="/mcp"
        )

    def test_put_transport_with_a_type_replaces_the_transport(self) -> None:
        frame = Frame(transport=self.http).put_transport(type="stdio", env={"A": "1"}, os_pid=7)

        assert frame.transport == StdioTransport(env={"A": "1"}, os_pid=7)
        assert frame.put_transport(os_pid=8).transport == StdioTransport(env={"A": "1"}, os_pid=8)

    def test_put_transport_changes_a_transport_made_from_a_scope(self) -> None:
        scope = {
            "headers": [(b"host", b"shop.example"), (b"accept", b"*/*")],
            "query_string": b"a=1&a=2",
            "client": ("10.0.0.1", 5),
            "path": "/mcp",
        }
        frame = Frame(transport=ScopeTransport(scope)).put_transport(remote_ip="10.0.0.2")

        assert isinstance(frame.transport, HttpTransport)
        assert frame.transport.remote_ip == "10.0.0.2"
        assert frame.transport.host == "shop.example"
        assert frame.get_query_param("a") == "2"

    def test_put_transport_rejects_an_unknown_field(self) -> None:
        with pytest.raises(TypeError):
            Frame().put_transport(colour="red")


class TestRequest:
    def test_put_request_sets_and_clear_request_removes_the_request(self) -> None:
        frame = Frame().put_request(
            {"id": "req_123", "method": "tools/call", "params": {"name": "calculator"}}
        )

        assert frame.request == RequestInfo("req_123", "tools/call", {"name": "calculator"})
        assert frame.clear_request().request is None

    def test_clear_request_keeps_all_other_fields(self) -> None:
        frame = Frame({"a": 1}, initialized=True).put_private(b=2).register_tool("t")
        cleared = frame.put_request({"method": "ping"}).clear_request()

        assert cleared == frame


class TestPrivate:
    @pytest.mark.parametrize(
        "put",
        [
            lambda frame: frame.put_private("session_id", "abc").put_private("tenant", 1),
            lambda frame: frame.put_private({"session_id": "abc", "tenant": 1}),
            lambda frame: frame.put_private(session_id="abc", tenant=1),
        ],
    )
    def test_put_private_merges_values(self, put: Callable[[Frame], Frame]) -> None:
        frame = put(Frame().put_private(tenant=0, kept=True))

        assert frame.private == {"session_id": "abc", "tenant": 1, "kept": True}

    def test_only_private_keys_of_the_site_are_recorded_as_changes(self) -> None:
        assert Frame().put_private(session_id="abc", tenant=1).changes == (
            Change("private", "put", "tenant", 1),
        )

    def test_unchanged_private_value_is_not_recorded_as_a_change(self) -> None:
        frame = Frame(private={"tenant": None}).put_private(tenant=None)  # type: ignore[arg-type]

        assert frame.changes == ()

    def test_getters_return_none_before_initialize(self) -> None:
        frame = Frame()

        assert frame.get_mcp_session_id() is None
        assert frame.get_client_info() is None
        assert frame.get_client_capabilities() is None
        assert frame.get_protocol_version() is None
        assert frame.get_protocol_module() is None

    def test_getters_return_the_negotiated_values(self) -> None:
        frame = Frame().put_private(
            session_id="session_abc123",
            client_info={"name": "my-client", "version": "1.0.0"},
            client_capabilities={"roots": {}},
            protocol_version=NEWEST.version,
            revision=NEWEST,
        )

        assert frame.get_mcp_session_id() == "session_abc123"
        assert frame.get_client_info() == {"name": "my-client", "version": "1.0.0"}
        assert frame.get_client_capabilities() == {"roots": {}}
        assert frame.get_protocol_version() == NEWEST.version
        assert frame.get_protocol_module() is NEWEST


class TestPaginationLimit:
    def test_pagination_limit_is_stored_in_private(self) -> None:
        frame = Frame().put_pagination_limit(10)

        assert frame.private["pagination_limit"] == 10
        assert frame.changes == (Change("pagination_limit", "set", value=10),)

    @pytest.mark.parametrize("limit", [0, -1, True, 2.5, "10", None])
    def test_invalid_pagination_limit_is_rejected(self, limit: Any) -> None:
        with pytest.raises(ValueError, match="positive integer"):
            Frame().put_pagination_limit(limit)


@pytest.fixture
def full() -> Frame:
    """A Frame with a value in each field that clear_session handles."""
    return (
        Frame({"status": "active"}, initialized=True, transport=HttpTransport(host="a"))
        .put_request({"id": 1, "method": "tools/call"})
        .put_private(
            session_id="abc",
            client_info={"name": "c"},
            client_capabilities={"roots": {}},
            protocol_version=NEWEST.version,
            revision=NEWEST,
            tenant="t",
        )
        .put_pagination_limit(3)
        .register_tool("own")
    )


class TestClearSession:
    def test_clear_session_keeps_the_assigns(self, full: Frame) -> None:
        assert full.clear_session().assigns == {"status": "active"}

    def test_clear_session_keeps_the_transport(self, full: Frame) -> None:
        assert full.clear_session().transport == HttpTransport(host="a")

    def test_clear_session_keeps_the_request(self, full: Frame) -> None:
        assert full.clear_session().request == full.request

    def test_clear_session_keeps_initialized(self, full: Frame) -> None:
        assert full.clear_session().initialized is True

    def test_clear_session_removes_the_session_id(self, full: Frame) -> None:
        assert full.clear_session().get_mcp_session_id() is None

    def test_clear_session_removes_the_client_info(self, full: Frame) -> None:
        assert full.clear_session().get_client_info() is None

    def test_clear_session_removes_the_client_capabilities(self, full: Frame) -> None:
        assert full.clear_session().get_client_capabilities() is None

    def test_clear_session_removes_the_protocol_version(self, full: Frame) -> None:
        assert full.clear_session().get_protocol_version() is None

    def test_clear_session_removes_the_protocol_module(self, full: Frame) -> None:
        assert full.clear_session().get_protocol_module() is None

    def test_clear_session_removes_the_pagination_limit(self, full: Frame) -> None:
        assert "pagination_limit" not in full.clear_session().private

    def test_clear_session_removes_the_runtime_components(self, full: Frame) -> None:
        assert full.clear_session().get_components() == []

    def test_clear_session_removes_all_private_values(self, full: Frame) -> None:
        assert full.clear_session().private == {}

    def test_clear_session_changes_are_applied_to_the_session(self, full: Frame) -> None:
        session = Session(id="abc", server="s", principal="p", version=NEWEST.version)

        after = session.apply(full.assign(kept=1).clear_session().changes)

        assert (after.pagination_limit, after.components, after.private) == (None, {}, {})
        assert after.assigns == {"kept": 1}


class TestComponents:
    def test_get_components_returns_all_registered_components(self) -> None:
        frame = (
            Frame()
            .register_tool("tool")
            .register_prompt("prompt")
            .register_resource("a://resource")
            .register_resource_template("a://{template}", name="template")
        )

        assert [(item.kind, item.key) for item in frame.get_components()] == [
            ("tool", "tool"),
            ("prompt", "prompt"),
            ("resource", "a://resource"),
            ("resource_template", "a://{template}"),
        ]

    def test_clear_components_keeps_all_other_fields(self) -> None:
        frame = Frame({"a": 1}).put_pagination_limit(2)
        cleared = frame.register_tool("t").register_prompt("p").clear_components()

        assert cleared.get_components() == []
        assert cleared.private["pagination_limit"] == 2
        assert cleared.assigns == {"a": 1}

    def test_register_tool_accepts_every_option_of_the_seeds(self) -> None:
        (tool,) = (
            Frame()
            .register_tool(
                "add",
                description="Adds",
                title="Add",
                input_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
                output_schema={"type": "object"},
                annotations={"confidence": 0.9, "category": "math"},
                read_only=True,
                meta={"example.com/key": 1},
                task_support="optional",
                handler=handler,
            )
            .get_components()
        )

        assert isinstance(tool, ToolComponent)
        assert tool.descriptor() == {
            "name": "add",
            "title": "Add",
            "description": "Adds",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "outputSchema": {"type": "object"},
            "annotations": {"confidence": 0.9, "category": "math", "readOnlyHint": True},
            "execution": {"taskSupport": "optional"},
            "_meta": {"example.com/key": 1},
        }

    def test_display_title_defaults_to_the_name(self) -> None:
        (tool,) = Frame().register_tool("t").get_components()

        assert tool.display_title == "t"
        assert "title" not in tool.descriptor()

    def test_registered_resource_has_default_name_and_mime_type(self) -> None:
        (resource,) = Frame().register_resource("file:///var/log/today.txt").get_components()

        described = resource.descriptor()
        assert (described["name"], described["mimeType"]) == ("today.txt", "text/plain")

    def test_register_resource_accepts_a_uri_template(self) -> None:
        (template,) = Frame().register_resource("db:///{table}/{id}", name="rows").get_components()

        assert template.kind == "resource_template"
        assert template.descriptor()["uriTemplate"] == "db:///{table}/{id}"

    @pytest.mark.parametrize("options", [{}, {"name": None}, {"name": ""}])
    def test_resource_template_without_a_name_is_rejected(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="name"):
            Frame().register_resource_template("file:///{path}", **options)

    def test_invalid_component_is_rejected_at_registration(self) -> None:
        with pytest.raises(ConfigurationError):
            Frame().register_tool("no spaces please")
        with pytest.raises(ConfigurationError):
            Frame().register_tool("t", handler="nowhere.at.all")

    def test_last_component_registered_under_a_key_is_kept(self) -> None:
        (tool,) = (
            Frame()
            .register_tool("t", description="old")
            .register_tool("t", description="new")
            .get_components()
        )

        assert tool.descriptor()["description"] == "new"

    def test_components_with_equal_names_differ_by_kind_and_uri(self) -> None:
        frame = (
            Frame()
            .register_tool("same")
            .register_prompt("same")
            .register_resource("a://x/same")
            .register_resource("b://y/same")
            .register_resource_template("c://{same}", name="same")
        )

        assert len(frame.get_components()) == 5

    def test_registration_of_an_equal_component_returns_the_same_frame(self) -> None:
        frame = Frame().register_tool("t", description="one")

        assert frame.register_tool("t", description="one") is frame


class TestHandmadeFrame:
    """A Frame made by hand has null objects where a running one has its transport."""

    def test_client_drops_what_it_is_sent(self) -> None:
        client = Frame().client

        client.log("error", "nobody reads this")
        client.progress(1, 2)
        client.notify("notifications/custom")

        assert client.capabilities == {}

    async def test_client_drops_what_it_is_sent_from_async_code(self) -> None:
        client = Frame().client

        await client.alog("error", "nobody reads this")
        await client.aprogress(1, 2)
        await client.anotify("notifications/custom")
        await client.aclose_stream()

    def test_input_request_raises_connection_error(self) -> None:
        with pytest.raises(ConnectionError, match="made by hand"):
            Frame().client.elicit("Your name?", {"type": "object", "properties": {}})

    async def test_input_request_from_async_code_raises_connection_error(self) -> None:
        with pytest.raises(ConnectionError, match="made by hand"):
            await Frame().client.alist_roots()

    def test_cancellation_is_never_requested(self) -> None:
        cancellation = Frame().cancellation

        cancellation.request("ignored")
        cancellation.raise_if_requested()
        cancellation.on_request(lambda: None)()

        assert not cancellation.requested
        assert not Frame().cancellation.requested

    async def test_exchange_runs_functions_in_place(self) -> None:
        async def double(number: int) -> int:
            return 2 * number

        exchange = Frame().exchange

        assert await exchange.run(abs, -1) == 1
        assert await exchange.run_with_rollback(abs, -1) == 1
        assert await exchange.run_async(double(2)) == 4
        assert await exchange.run_async_with_rollback(double(2)) == 4

    def test_sync_code_can_wait_for_a_coroutine(self) -> None:
        Frame().client.close_stream()

    async def test_exchange_has_no_peer(self) -> None:
        exchange = Frame().exchange

        exchange.write({})
        with pytest.raises(ConnectionError):
            await exchange.send_request("ping", {}, timeout=1)
        with pytest.raises(ConnectionError):
            await exchange.listen(Frame(), Filter())

    @pytest.mark.parametrize("name", ["message", "request_id", "principal"])
    def test_missing_required_value_raises_lookup_error(self, name: str) -> None:
        with pytest.raises(LookupError, match="made by hand"):
            getattr(Frame(), name)

    def test_notification_has_no_request_id(self) -> None:
        frame = Frame().put_request({"method": "notifications/initialized"})

        assert frame.message.method == "notifications/initialized"
        with pytest.raises(LookupError, match="notification"):
            _ = frame.request_id

    def test_frames_made_by_hand_are_equal_and_survive_pickle_and_copy(self) -> None:
        frame = Frame({"a": 1})

        assert frame == Frame({"a": 1})
        assert pickle.loads(pickle.dumps(frame)) == frame
        assert copy.deepcopy(frame) == frame
