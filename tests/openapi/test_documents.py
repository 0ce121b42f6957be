"""Operations of a document as tools, whose views are plain ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from django.contrib.auth.models import User
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import ConfigurationError, Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.ninja import NinjaAuthentication
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.protocol.schema import compiler
from django_mcp.openapi import availability, openapi_tools
from django_mcp.openapi.calls.credentials import SESSION
from django_mcp.openapi.parameters import Parameter, encode, headers, of_openapi
from django_mcp.testing import SyncClient
from tests.openapi import ninja_api, plain_views
from tests.openapi.parity import by_tool

CALLS = 300
OPERATIONS: dict[str, tuple[str, str]] = {
    "notes_list": ("get", "/v2/notes/"),
    "notes_create": ("post", "/v2/notes/"),
    "notes_read": ("get", "/v2/notes/{id}/"),
    "notes_delete": ("delete", "/v2/notes/{id}/"),
    "get_ping": ("get", "/v2/ping"),
}
POSSIBLE: dict[str, list[dict[str, Any]]] = {
    "notes_list": [{}, {"word": ["Tea", "x"]}, {"word": ["x"]}],
    "notes_create": [{"text": "New"}, {"text": "Too long"}],
    "notes_read": [{"id": 1}, {"id": 5}],
    "notes_delete": [{"id": 1}, {"id": 5}],
    "get_ping": [{}, {"with": "a&b"}],
}


@pytest.fixture(autouse=True)
def document(settings: Settings, tmp_path: Path) -> Path:
    settings.ROOT_URLCONF = "tests.openapi.plain_views"
    settings.BASE_DIR = tmp_path
    path = tmp_path / "openapi.yaml"
    path.write_text(plain_views.DOCUMENT)
    return path


def key_of(frame: Any) -> dict[str, str] | None:
    """The key of the API of callers who came in by another one."""
    return {"X-Key": "key-one"} if frame.auth.scheme == "ninja" else None


@pytest.fixture
def notes(document: Path) -> Server:
    ninja = NinjaAuthentication(ninja_api.Key())
    session = DjangoSessionAuthentication()
    server = Server("notes", authenticators=[ninja, session, AnonymousAuthentication()])
    openapi_tools("openapi.yaml", read_only=False, credentials=key_of, answer="full", server=server)
    return server


def over_http(browser: Browser, name: str, arguments: dict[str, Any]) -> Any:
    """Return what the API answers, or None for a refusal."""
    method, path = OPERATIONS[name]
    url = path.format(**arguments)
    data = {key: it for key, it in arguments.items() if f"{{{key}}}" not in path}
    if method == "get":
        response = browser.get(url, data)
    else:
        response = getattr(browser, method)(url, data, content_type="application/json")
    if response.status_code == 204:
        return "Done."
    return response.json() if response.status_code < 300 else None


def attempt(call: Any, *arguments: Any) -> Any:
    plain_views.reset()
    returned = call(*arguments)
    return returned, dict(plain_views.NOTES)


def random_calls(callers: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    chosen = random.Random(7)
    for _ in range(CALLS):
        name = chosen.choice([*OPERATIONS])
        yield chosen.choice(callers), name, chosen.choice(POSSIBLE[name])


@pytest.mark.django_db(transaction=True)
def test_random_calls_agree_with_the_api(notes: Server, callers: dict[str, Any]) -> None:
    callers["device"] = (Browser(headers={"X-Key": "key-one"}), callers["device"][1])
    del callers["token"]
    answered = 0
    with ExitStack() as stack:
        clients = {
            caller: stack.enter_context(SyncClient(notes, transport="http", headers=headers))
            for caller, (_, headers) in callers.items()
        }
        for caller, name, arguments in random_calls([*callers]):
            expected = attempt(over_http, callers[caller][0], name, arguments)
            actual = attempt(by_tool, clients[caller], name, arguments)
            assert actual == expected, (caller, name, arguments)
            answered += expected[0] is not None
    assert 60 < answered < CALLS - 60


def test_operation_without_a_url_is_reported(notes: Server) -> None:
    with SyncClient(notes) as client:
        names = {tool["name"] for tool in client.list_tools()}
    assert names == {*OPERATIONS}
    (reason,) = availability.missing(notes).values()
    assert "GET /v2/nowhere has no URL: the URLconf has no /v2/nowhere" in reason


def test_patterns_are_those_of_operation_ids(server: Server) -> None:
    openapi_tools("openapi.yaml", include=["notes.*"], server=server)
    with SyncClient(server) as client:
        tools = {tool["name"]: tool for tool in client.list_tools()}
    assert set(tools) == {"notes_list", "notes_read"}
    assert tools["notes_list"]["description"] == "List the notes."


@pytest.mark.django_db(transaction=True)
def test_caller_with_a_token_of_the_package_counts_where_the_author_says_so(
    server: Server, users: dict[str, User]
) -> None:
    openapi_tools("openapi.yaml", include=["notes.read"], server=server)
    other = Server("other", authenticators=[AnonymousAuthentication()])
    openapi_tools("openapi.yaml", include=["notes.read"], authenticated_by=[SESSION], server=other)
    plain_views.reset()
    with SyncClient(server, user=users["agent"], scopes=["read"]) as client:
        assert client.list_tools() == []
    with SyncClient(other, user=users["agent"], scopes=["read"]) as client:
        assert client.call_tool("notes_read", {"id": 1.0}).structured["text"] == "Tea"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("schemes", "user"), [([], ""), (["key"], ""), (["login"], "agent"), ([SESSION], "agent")]
)
def test_optional_security_makes_a_user_only_of_callers_who_count_for_it(
    server: Server, users: dict[str, User], schemes: list[str], user: str
) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    document["paths"]["/ping"]["get"]["security"] = [{"login": []}, {}]
    openapi_tools(document, include=["get_ping"], authenticated_by=schemes, server=server)
    with SyncClient(server, user=users["agent"], scopes=["read"]) as client:
        assert client.call_tool("get_ping", {"with": "x"}).structured["user"] == user


@pytest.mark.parametrize("methods", [("patch", "post"), ("post", "patch")])
def test_one_tool_accepts_a_part_of_an_object_where_one_of_its_actions_does(
    server: Server, methods: tuple[str, str]
) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    nested = {"type": "object", "properties": {"note": {"$ref": "#/components/schemas/Note"}}}
    operation = {
        "tags": ["notes"],
        "security": [],
        "requestBody": {"content": {"application/json": {"schema": nested}}},
        "responses": {"200": {"description": "Yes"}},
    }
    document["paths"] = {
        url: {method: {**operation, "operationId": method}}
        for url, method in zip(("/notes/", "/ping"), methods, strict=True)
    }
    openapi_tools(document, read_only=False, one_tool_per_view=True, server=server)
    (tool,) = server.components.of_kind("tool")
    validator = compiler.compile(tool.descriptor()["inputSchema"])
    assert validator.problems({"action": "patch", "note": {"done": True}}) == ""
    assert validator.problems({"action": "post", "note": {"text": "Tea", "done": True}}) == ""
    assert "text" in validator.problems({"action": "post", "note": {"text": 1}})


def test_operation_and_tag_that_no_name_can_have_are_named_by_their_path(server: Server) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    document["paths"]["/notes/"]["get"].update(operationId="заметки", tags=["Заметки"])
    chosen = ["заметки", "get_ping"]
    openapi_tools(document, include=chosen, server=server)
    assert {tool.name for tool in server.components.of_kind("tool")} == {"get_v2_notes", "get_ping"}

    grouped = Server("grouped", authenticators=[AnonymousAuthentication()])
    openapi_tools(document, include=chosen, one_tool_per_view=True, server=grouped)
    assert {tool.name for tool in grouped.components.of_kind("tool")} == {"notes", "ping"}


def test_tag_that_is_too_long_for_a_name_takes_no_other_tool_with_it(server: Server) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    document["paths"]["/notes/"]["get"]["tags"] = ["note " * 40]
    chosen = ["notes.list", "get_ping"]
    openapi_tools(document, include=chosen, one_tool_per_view=True, server=server)

    assert [tool.name for tool in server.components.of_kind("tool")] == ["ping"]
    (reason,) = availability.missing(server).values()
    assert "at most 128" in reason


@pytest.mark.django_db(transaction=True)
def test_whole_number_in_a_path_is_an_integer(notes: Server, callers: dict[str, Any]) -> None:
    plain_views.reset()
    _, headers = callers["session"]
    with SyncClient(notes, transport="http", headers=headers) as client:
        assert "Tea" in client.call_tool("notes_read", {"id": 1.0}).text


def test_operation_with_a_broken_reference_takes_no_other_with_it(server: Server) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    missing = {"$ref": "#/components/parameters/Nothing"}
    document["paths"]["/notes/"]["get"]["parameters"] = [missing]
    chosen = ["notes.list", "get_ping"]
    openapi_tools(document, include=chosen, server=server)

    assert [tool.name for tool in server.components.of_kind("tool")] == ["get_ping"]
    (reason,) = availability.missing(server).values()
    assert "refers to '#/components/parameters/Nothing', which it lacks" in reason


def test_folded_filter_may_refer_to_a_schema(server: Server) -> None:
    document = yaml.safe_load(plain_views.DOCUMENT)
    document["components"]["schemas"]["Word"] = {"type": "string", "enum": ["a", "b"]}
    names = [f"{field}__{lookup}" for field in "abcdefghi" for lookup in ("is", "not", "in")]
    schema = {"$ref": "#/components/schemas/Word"}
    of_ping = document["paths"]["/ping"]["get"]["parameters"]
    of_ping += [{"name": name, "in": "query", "schema": schema} for name in names]
    openapi_tools(document, include=["get_ping"], server=server)
    with SyncClient(server) as client:
        arguments = {"with": "x", "filters": {"a__is": "b"}}
        assert client.call_tool("get_ping", arguments).structured["pong"] == "x"
        result = client.call_tool("get_ping", {"with": "x", "filters": {"a__is": "c"}})
        result.assert_error("a__is")


def test_paths_are_resolved_by_the_urlconf_that_is_given(
    server: Server, settings: Settings
) -> None:
    settings.ROOT_URLCONF = "tests.openapi.ninja_api"
    urlconf = "tests.openapi.plain_views"
    openapi_tools("openapi.yaml", urlconf=urlconf, include=["get_ping"], server=server)
    with SyncClient(server) as client:
        pong = client.call_tool("get_ping", {"with": "x"})
    assert pong.structured == {"pong": "x", "user": ""}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include": "notes.*"}, "include is 'notes"),
        ({"authenticated_by": "login"}, "authenticated_by is 'login'"),
    ],
)
def test_mistake_is_reported_at_once(server: Server, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        openapi_tools("openapi.yaml", server=server, **options)


def test_what_is_no_api_is_refused(server: Server) -> None:
    with pytest.raises(ConfigurationError, match="views of REST framework become tools by"):
        openapi_tools(object(), server=server)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("missing.yaml", {}, "missing.yaml cannot be read as a document of OpenAPI"),
        ({"openapi": "3.1.0", "paths": {"/a": {"$ref": "b.yaml"}}}, {}, "which is another file"),
        ({"swagger": "2.0"}, {}, "This is no document of OpenAPI 3"),
        ("openapi.yaml", {"authenticated_by": ["logn"]}, "did you mean 'login'?"),
    ],
)
def test_document_that_cannot_be_read_is_reported(
    server: Server, target: Any, options: dict[str, Any], message: str
) -> None:
    openapi_tools(target, server=server, **options)
    with SyncClient(server) as client:
        assert client.list_tools() == []
    (reason,) = availability.missing(server).values()
    assert message in reason


@pytest.mark.parametrize(
    ("style", "query"),
    [
        ({}, "of=a&is_open=true&tag=x&tag=y"),
        ({"explode": False}, "filter=of,a,is_open,true,tag,x,tag,y"),
        ({"style": "deepObject"}, "filter[of]=a&filter[is_open]=true&filter[tag]=x&filter[tag]=y"),
        (
            {"style": "deepObject", "explode": True},
            "filter[of]=a&filter[is_open]=true&filter[tag]=x&filter[tag]=y",
        ),
        ({"style": "pipeDelimited"}, "filter=of|a|is_open|true|tag|x|tag|y"),
    ],
)
def test_object_is_sent_in_the_style_of_its_parameter(style: dict[str, Any], query: str) -> None:
    parameter = of_openapi({"name": "filter", "schema": {"type": "object"}, **style})
    value = {"of": "a", "is_open": True, "tag": ["x", "y"], "none": None}
    assert unquote(encode([parameter], {"filter": value})) == query


@pytest.mark.parametrize(("explode", "text"), [({}, "a,1,b,2"), ({"explode": True}, "a=1,b=2")])
def test_object_in_a_header_is_sent_in_the_style_of_its_parameter(
    explode: dict[str, Any], text: str
) -> None:
    declared = {"name": "X-Filter", "schema": {"type": "object"}, **explode}
    parameter = of_openapi(declared, place="header")
    assert headers([parameter], {"X-Filter": {"a": 1, "b": 2}}) == {"x-filter": text}


def test_object_within_an_object_is_sent_only_by_deep_names() -> None:
    schema = {"name": "filter", "schema": {"type": "object"}}
    value = {"filter": {"date": {"after": "2026-01-01"}}}
    deep = of_openapi({**schema, "style": "deepObject"})
    assert unquote(encode([deep], value)) == "filter[date][after]=2026-01-01"
    with pytest.raises(ToolError, match=r"filter\[date\]: an object or a list cannot be sent here"):
        encode([of_openapi(schema)], value)


def test_member_of_an_object_is_no_other_parameter() -> None:
    exploded = of_openapi({"name": "filter", "schema": {"type": "object"}})
    with pytest.raises(ToolError, match="version is a parameter of its own"):
        encode([exploded, Parameter("version", {})], {"filter": {"version": "2"}, "version": "1"})
