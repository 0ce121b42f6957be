"""Single views as tools: requests, responses, versions, and mistakes of the author."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.db import OperationalError, connections
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.test import force_authenticate

from django_mcp import ConfigurationError, Frame, Server, checks, registry
from django_mcp.openapi import availability
from django_mcp.rest import operations, rest_tool, rest_tools
from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Customer
from tests.rest import api
from tests.rest.conftest import Call, Users
from tests.spec import spec
from tests.uploads.files import inline

QUERY = {"outcome": {"type": "string"}}


def outcome(server: Server, call: Call, name: str, **options: Any) -> Any:
    rest_tool(api.Outcome, query=QUERY, server=server)
    return call("outcome", outcome=name, **options)


def test_view_sees_the_caller_and_nothing_of_its_request(
    db: None, server: Server, call: Call
) -> None:
    rest_tool(api.Caller, server=server)
    user = User.objects.create(username="ada")

    known = call("caller", user=user, scopes=["b", "a"])["structuredContent"]
    anonymous = call("caller")["structuredContent"]

    assert known == {
        "user": "ada",
        "auth": "a b",
        "url": "http://testserver/caller/",
        "cookies": [],
        "headers": ["HTTP_ACCEPT", "HTTP_HOST"],
        "address": "127.0.0.1",
        "tenant": None,
    }
    assert anonymous["user"] == ""


class Guest(AnonymousUser):
    """The anonymous user of a site, which its views rely on."""

    username: Any = "guest"


def test_anonymous_caller_is_the_user_that_rest_framework_is_set_to(
    db: None, server: Server, call: Call, settings: Any
) -> None:
    settings.REST_FRAMEWORK = {"UNAUTHENTICATED_USER": f"{__name__}.Guest"}
    rest_tool(api.Caller, server=server)
    assert call("caller").structured["user"] == "guest"

    settings.REST_FRAMEWORK = {"UNAUTHENTICATED_USER": None}
    rest_tool(api.Outcome, query=QUERY, server=server)
    assert call("outcome", outcome="text").text == "Hello"


@spec("views-05")
def test_credentials_of_an_http_request_do_not_reach_the_view(
    db: None, server: Server, settings: Any
) -> None:
    settings.DJANGO_MCP = {"BASE_URL": "https://shop.example"}
    settings.ALLOWED_HOSTS = ["shop.example", "testserver"]
    rest_tool(api.Caller, server=server)
    headers = {"authorization": "Bearer secret", "cookie": "sessionid=secret", "x-tenant": "acme"}

    with SyncClient(server, transport="http", headers=headers) as client:
        found = client.call_tool("caller")["structuredContent"]

    assert found["headers"] == ["HTTP_ACCEPT", "HTTP_HOST"]
    assert found["cookies"] == []
    assert found["url"] == "https://shop.example/caller/"


def test_prepare_sets_attributes_but_not_the_user(db: None, server: Server, call: Call) -> None:
    def prepare(request: HttpRequest, frame: Frame) -> None:
        request.tenant = f"tenant of {frame.user.username}"  # type: ignore[attr-defined]
        request.user = User(username="root")

    rest_tool(api.Caller, server=server, prepare=prepare)
    found = call("caller", user=User.objects.create(username="ada"))["structuredContent"]

    assert (found["tenant"], found["user"]) == ("tenant of ada", "ada")


def test_prepare_cannot_replace_the_caller(db: None, server: Server, call: Call) -> None:
    def prepare(request: HttpRequest, frame: Frame) -> None:
        root = User(pk=0, username="root", is_superuser=True)
        force_authenticate(request, user=root, token=SimpleNamespace(scope="everything"))

    rest_tool(api.Caller, server=server, prepare=prepare)
    ada = User.objects.create(username="ada")
    seen = call("caller", user=ada, scopes=["read"])["structuredContent"]

    assert (seen["user"], seen["auth"]) == ("ada", "read")


def test_serializer_of_a_plain_view_is_given(server: Server, call: Call) -> None:
    rest_tool(api.Caller, "post", serializer=api.Number, server=server)

    assert call("caller_post", number=4)["structuredContent"] == {"double": 8}
    assert "number" in call("caller_post", number=-1).text


def test_function_view_takes_its_path_arguments(server: Server, call: Call) -> None:
    rest_tool(api.ping, server=server, name="ping")

    assert call("ping", name="a-b")["structuredContent"] == {"pong": "a-b"}
    assert call("ping", name="a/b")["isError"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text", [{"type": "text", "text": "Hello"}]),
        ("latin", [{"type": "text", "text": "Zürich"}]),
        ("unknown", [{"type": "text", "text": "Bern"}]),
        ("list", [{"type": "text", "text": "[1,2]"}]),
        ("nothing", [{"type": "text", "text": "Done."}]),
        ("stream", [{"type": "text", "text": "ab"}]),
        ("image", [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]),
    ],
)
def test_successful_response_becomes_content(
    server: Server, call: Call, name: str, content: Any
) -> None:
    result = outcome(server, call, name)

    assert not result.get("isError")
    assert result["content"] == content


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("file", {"mimeType": "application/zip", "blob": "UEs="}),
        ("rows", {"mimeType": "text/csv", "text": "a,b"}),
    ],
)
def test_download_is_a_resource_at_the_url_of_the_view(
    server: Server, call: Call, name: str, members: Any
) -> None:
    (block,) = outcome(server, call, name)["content"]

    url = f"http://testserver/outcome/?outcome={name}"
    assert block == {"type": "resource", "resource": {"uri": url, **members}}


def test_large_download_is_a_link(server: Server, call: Call) -> None:
    (block,) = outcome(server, call, "archive")["content"]

    assert (block["type"], block["name"]) == ("resource_link", "all.zip")
    assert block["uri"].endswith("/outcome/?outcome=archive")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("large", ["The response has more than 1000000 bytes: ask for less, by a filter or by "
                   "smaller pages."]),
        ("redirect", ["The view redirects (status 302), and tools follow no redirects."]),
        ("conflict", ["The request conflicts with the current state.", "It was closed."]),
        ("page", ["The request is invalid."]),
        ("codes", ["The request is invalid.", "a.1.b: Bad.", "X"]),
    ],
)  # fmt: skip
def test_unsuccessful_response_becomes_an_error(
    server: Server, call: Call, name: str, lines: list[str]
) -> None:
    result = outcome(server, call, name)

    assert result["isError"]
    assert result.text.splitlines() == lines


@spec("views-08")
@pytest.mark.parametrize("name", ["failure", "exception"])
def test_failure_of_the_view_is_not_described(server: Server, call: Call, name: str) -> None:
    result = outcome(server, call, name)

    assert result.text == "The tool failed unexpectedly. The failure has been logged."


def test_asynchronous_view_is_awaited(users: Users, server: Server, call: Call) -> None:
    rest_tool(api.AsyncCaller, server=server)

    assert call("async_caller", user=users.agent)["structuredContent"]["user"] == "agent"


@pytest.mark.parametrize("is_atomic", [True, False])
def test_atomic_requests_roll_back_the_writes_of_an_error(
    db: None, server: Server, call: Call, monkeypatch: pytest.MonkeyPatch, is_atomic: bool
) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", is_atomic)
    rest_tool(api.WritesAndFails, "post", serializer=None, name="fails", server=server)

    assert call("fails").text.splitlines() == ["The request is invalid.", "Not today."]
    assert Customer.objects.exists() is not is_atomic


def test_file_is_sent_as_a_form(server: Server, call: Call) -> None:
    rest_tool(api.Uploads, "post", server=server)
    file = inline(b"hello", "a.txt")

    result = call("uploads_post", title="A", file=file)

    assert result["structuredContent"] == {"title": "A", "text": "hello"}


def test_renderer_other_than_json_is_used_where_there_is_none(server: Server, call: Call) -> None:
    rest_tool(api.Report, server=server)

    resource = call("report")["content"][0]["resource"]

    assert (resource["blob"], resource["mimeType"]) == ("JVBERg==", "application/pdf")


@pytest.mark.parametrize(
    ("view", "options", "version"),
    [
        (api.ByPath, {"version": "v2"}, "v2"),
        (api.ByPath, {"kwargs": {"version": "v3"}}, "v3"),
        (api.ByHeader, {"version": "2.0"}, "2.0"),
        (api.ByHeader, {}, None),
        (api.ByQuery, {"version": "2"}, "2"),
        (api.ByNamespace, {"prefix": "two/"}, "two"),
    ],
)
def test_version_is_that_of_the_declaration(
    server: Server, call: Call, view: Any, options: dict[str, Any], version: str | None
) -> None:
    rest_tool(view, server=server, name="version", **options)

    assert call("version")["structuredContent"] == {"version": version}


def test_open_version_in_the_path_is_an_argument(server: Server, call: Call) -> None:
    rest_tool(api.ByPath, server=server, name="version")

    assert call("version", version="v9")["structuredContent"] == {"version": "v9"}


def test_url_that_leads_to_another_view_is_not_requested(server: Server, call: Call) -> None:
    rest_tool(api.Taken, server=server)
    rest_tool(api.Taking, server=server)

    assert call("taken").text == "Not found."
    assert call("taking", name="b")["structuredContent"] == {"version": None}


def test_permission_and_scopes_of_the_tool_hold_besides(
    users: Users, server: Server, call: Call
) -> None:
    rest_tool(api.Caller, server=server, permission="helpdesk.add_ticket")
    rest_tool(api.ping, server=server, name="ping", scopes="ping")

    with pytest.raises(ErrorResponse, match="Unknown tool"):
        call("caller", user=users.staff)
    with pytest.raises(ErrorResponse, match="scope"):
        call("ping", user=users.staff, name="a")
    assert call("ping", user=users.staff, scopes=["ping"], name="a")


class NoJson(BaseParser):  # type: ignore[misc]
    media_type = "text/csv"


def attempt(declare: Callable[[Server], None]) -> str:
    """Return the error of a declaration, or why there is no tool."""
    server = Server("api")
    try:
        declare(server)
        assert not server.components.of_kind("tool")
    except ConfigurationError as error:
        return str(error)
    (reason,) = availability.missing(server).values()
    return reason


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda s: rest_tools(api.TicketViewSet, ["open"], server=s), "has no action 'open'"),
        (lambda s: rest_tools(api.TicketViewSet, "list", server=s), "give a list of names"),
        (lambda s: rest_tools(api.CustomerViewSet, ["create"], server=s), "no method 'create'"),
        (lambda s: rest_tools(api.Caller, server=s), "use rest_tool"),
        (lambda s: rest_tool(api.TicketViewSet, server=s), "use rest_tools"),
        (lambda s: rest_tools(api.Things, server=s), "Things.list has no URL: add it"),
        (lambda s: rest_tools(api.Commands, server=s), "name those that become tools"),
        (lambda s: rest_tool(str, server=s), "is no view of Django REST framework"),
        (lambda s: rest_tool(api.Caller, "put", server=s), "has no method 'put'"),
        (lambda s: rest_tool(api.Caller, "trace", server=s), "has no method 'trace'"),
        (lambda s: rest_tool(api.Caller, "post", server=s), "has no serializer: give serializer="),
        (lambda s: rest_tool(api.ByNamespace, prefix="x/", server=s), "has no URL below x/"),
        (lambda s: rest_tool(api.Caller, version="1", server=s), "has no versioning by path"),
        (
            lambda s: rest_tools(api.TicketViewSet, options={"close": {}}, server=s),
            "options has 'close'",
        ),
    ],
)
def test_mistake_of_the_author_is_explained(declare: Any, message: str) -> None:
    assert message in attempt(declare)


def broken(*_: Any) -> Any:
    raise LookupError("No tenant")


def test_view_that_cannot_be_offered_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.WSGI_APPLICATION = None
    settings.ASGI_APPLICATION = None  # A check would import it, which configures logging.
    monkeypatch.setattr(api.CustomerViewSet, "initialize_request", broken)
    server = Server("api")
    rest_tools(api.CustomerViewSet, server=server)
    rest_tools(api.Commands, server=server)
    rest_tool(api.Caller, "post", server=server)
    rest_tool(api.ping, server=server, name="ping")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.registered, "servers", {"api": server})
        for _ in range(2):
            found = run_checks(tags=[checks.TAG], include_deployment_checks=True)
            messages = [each for each in found if each.id == "django_mcp_openapi.W001"]

    assert [tool.name for tool in server.components.of_kind("tool")] == ["ping"]
    named = [each.msg.removeprefix("The MCP server 'api' lacks a tool: ") for each in messages]
    assert named == [
        "tests.rest.api.Commands has neither list nor retrieve, which are the actions without "
        "actions=[…]: name those that become tools.",
        "tests.rest.api.CustomerViewSet.list: LookupError: No tenant. The same holds for "
        "tests.rest.api.CustomerViewSet.retrieve.",
        "tests.rest.api.Caller.post has no serializer: give serializer=…, or serializer=None if it "
        "reads no data.",
    ]
    logged = [each.message for each in caplog.records if each.name == "django_mcp"]
    assert [each for each in logged if "CustomerViewSet" in each] == []  # A check has said it.


def test_cause_for_which_actions_are_no_tools_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for each action, nor for each server: dozens of views may share it."""

    def without_a_shop(*args: Any, **kwargs: Any) -> None:
        raise LookupError("No shop")

    monkeypatch.setattr(api.CustomerViewSet, "initialize_request", without_a_shop)
    servers = [Server("api"), Server("other")]
    for server in servers:
        rest_tools(api.CustomerViewSet, server=server)
        assert not server.components.of_kind("tool")

    logged = [each.message for each in caplog.records if each.name == "django_mcp"]
    assert logged == [
        "The MCP server 'api' lacks a tool: tests.rest.api.CustomerViewSet.list: "
        "LookupError: No shop"
    ]


def test_serializer_that_depends_on_the_request_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def get_serializer_class(self: Any) -> Any:
        return {"ada": api.TicketSerializer}[self.request.user.username]

    monkeypatch.setattr(api.TicketViewSet, "get_serializer_class", get_serializer_class)

    message = attempt(lambda server: rest_tools(api.TicketViewSet, ["create"], server=server))
    assert "depends on the request (KeyError('')): give serializer=…" in message
    server = Server("api")
    options = {"create": {"serializer": api.TicketSerializer}}
    rest_tools(api.TicketViewSet, ["create", "list"], options=options, server=server)
    tools: Any = server.components.of_kind("tool")
    assert [tool.output_schema for tool in tools] == [None, None]


def test_serializer_without_its_tables_is_read_later(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """Checks run before migrations."""
    settings.WSGI_APPLICATION = None  # Its first import would mount this server.

    def no_table(self: Any) -> Any:
        raise OperationalError("no such table")

    rest_tools(api.TicketViewSet, ["create"], server=server)
    with monkeypatch.context() as patch:
        patch.setattr(registry.registered, "servers", {"api": server})
        patch.setattr(api.TicketSerializer, "get_fields", no_table)
        with pytest.raises(OperationalError):
            server.components.of_kind("tool")
        found = run_checks(tags=[checks.TAG], include_deployment_checks=True)
    assert [each.id for each in found if str(each.id).startswith("django_mcp.E")] == []

    assert [tool.name for tool in server.components.of_kind("tool")] == ["ticket_create"]


async def test_tools_are_built_outside_the_event_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    get_fields = api.TicketSerializer.get_fields

    def in_thread(self: Any) -> Any:
        threads.append(threading.current_thread().name)
        return get_fields(self)

    monkeypatch.setattr(api.TicketSerializer, "get_fields", in_thread)
    rest_tools(api.TicketViewSet, ["create"], server=server)

    assert len(server.components.of_kind("tool")) == 1
    assert threads
    assert threading.current_thread().name not in threads


def test_view_without_a_parser_for_json_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.Caller, "parser_classes", (NoJson,))

    message = attempt(
        lambda server: rest_tool(api.Caller, "post", serializer=api.Number, server=server)
    )
    assert "accepts text/csv, but a tool sends JSON" in message


def test_default_server_is_used_without_another(monkeypatch: pytest.MonkeyPatch) -> None:
    default = Server("mcp")
    monkeypatch.setattr(registry, "default", default)

    rest_tool(api.Caller)

    assert [tool.name for tool in default.components.of_kind("tool")] == ["caller"]


def test_declaration_imports_no_urls(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.rest.no_such_module"

    rest_tools(api.TicketViewSet, server=Server("api"))


def test_rest_framework_honors_a_forced_user(monkeypatch: pytest.MonkeyPatch) -> None:
    operations.check_forced_user()

    monkeypatch.setattr(Request, "user", SimpleLazyObject(object))
    with pytest.raises(RuntimeError, match="does not let django_mcp.rest set the caller"):
        operations.check_forced_user()
