"""The tools that a user sees at an endpoint, and the documents of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import unescape
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest, HttpResponseForbidden
from django.test import Client as DjangoClient
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from pytest_django import Settings

from django_mcp import Frame, Server, registry
from django_mcp.auth import BaseAuthentication, Principal
from django_mcp.routing import endpoint
from django_mcp.testing import SyncClient
from django_mcp.testing.asgi import Reply, http_scope, perform

# Permissions are asked on other threads, which see what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
URL = "/in/the/shop"
NAMES = re.compile(r'<p class="quiet"><code>([^<]+)</code>')


class Line(BaseModel):
    product: Annotated[str, Field(examples=["tea"])]
    pieces: Annotated[int, Field(ge=2)]


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    authenticators = ["django_mcp.auth.django_session.DjangoSessionAuthentication"]
    server = Server("shop", title="The shop", path=URL, authenticators=authenticators)

    @server.tool(title="Place an order", destructive=False)
    def order(lines: list[Line], note: str = "|") -> dict[str, int]:
        """Order <em>products</em>."""
        return {}

    @server.tool(read_only=True, group="office")
    def hours() -> str:
        """Opening hours.

        Those of this week, without
        holidays:

        - on weekdays
        - on Saturdays
        """
        return ""

    @server.tool(permission="auth.view_user")
    def audit() -> str:
        """All about customers."""
        return ""

    @server.tool(scopes={"write"})
    def close() -> str:
        """Close the shop."""
        return ""

    @server.tool(scopes={"write"}, when_denied="hidden")
    def reopen() -> str:
        """Open the shop again."""
        return ""

    @server.tool(app_only=True)
    def refresh() -> str:
        """What a view calls."""
        return ""

    monkeypatch.setattr(registry.registered, "servers", {server.name: server})
    return server


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


def get(server: Server, user: User | None, query: str = "", **headers: str) -> Reply:
    """What the browser of a user receives."""
    browser = DjangoClient()
    if user is not None:
        browser.force_login(user)
        headers["cookie"] = f"sessionid={browser.cookies['sessionid'].value}"
    scope = http_scope("GET", URL, headers={**BROWSER, **headers}, query=query)
    reply: Reply = async_to_sync(perform)(endpoint(server), scope)
    assert reply.status == 200
    return reply


def listed(server: Server, user: User, query: str = "") -> list[str]:
    return NAMES.findall(get(server, user, query).body.decode())


def document(server: Server, user: User, query: str = "format=openapi") -> Any:
    return json.loads(get(server, user, query).body)


def test_user_sees_the_tools_that_their_programs_are_listed(server: Server, ann: User) -> None:
    assert listed(server, ann) == ["close", "hours", "order"]
    with SyncClient(server, user=ann) as client:
        tools = {tool["name"] for tool in client.list_tools()}
    assert tools - {"refresh"} == {"close", "hours", "order"}
    auditor = User.objects.create_user("auditor")
    auditor.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert listed(server, auditor) == ["audit", "close", "hours", "order"]


def test_hidden_tool_is_in_no_part_of_the_page_or_a_document(server: Server, ann: User) -> None:
    for query in ("", "q=audit", "format=openapi", "format=markdown"):
        text = get(server, ann, query).body.decode()
        assert "All about customers" not in text
        assert "reopen" not in text
        assert "refresh" not in text
    assert listed(server, ann, "q=audit") == []


def test_nothing_is_named_to_somebody_who_is_not_logged_in(server: Server) -> None:
    for query in ("", "q=order", "format=openapi"):
        reply = get(server, None, query)
        assert reply.media_type == "text/html"
        text = reply.body.decode()
        assert "Order" not in text
        assert f'<a href="http://testserver/login/?next={URL}">Log in</a>' in text


def test_page_of_another_site_is_shown_nothing(server: Server, ann: User) -> None:
    reply = get(server, ann, **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert "Order" not in reply.body.decode()


def test_deactivated_user_sees_nothing(server: Server, ann: User) -> None:
    browser = DjangoClient()
    browser.force_login(ann)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    headers = {**BROWSER, "cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    reply = async_to_sync(perform)(endpoint(server), http_scope("GET", URL, headers=headers))
    assert "Order" not in reply.body.decode()


def test_search_finds_words_of_names_titles_and_descriptions(server: Server, ann: User) -> None:
    assert listed(server, ann, "q=PLACE+products") == ["order"]
    assert listed(server, ann, "q=hours") == ["hours"]
    assert listed(server, ann, "q=nothing") == []
    assert 'value="&quot;a&quot;"' in get(server, ann, "q=%22a%22").body.decode()


def test_selection_of_the_url_is_kept_by_the_search_and_the_documents(
    server: Server, ann: User
) -> None:
    assert listed(server, ann, "groups=office") == ["hours"]
    page = get(server, ann, "groups=office&q=x").body.decode()
    assert '<input type="hidden" name="groups" value="office">' in page
    assert 'href="?format=openapi&amp;groups=office"' in page
    assert [*document(server, ann, "groups=office&format=openapi")["paths"]] == ["/hours"]


def test_page_shows_arguments_and_an_example(server: Server, ann: User) -> None:
    page = get(server, ann).body.decode()
    assert "Order &lt;em&gt;products&lt;/em&gt;." in page
    assert "adds or changes data" in page
    assert "changes nothing" in page
    assert "may change or delete data" in page
    assert "lines[].pieces" in page
    examples = [
        json.loads(unescape(text)) for text in re.findall(r"<pre>(\{.*?)</pre>", page, re.S)
    ]
    assert {"lines": [{"product": "tea", "pieces": 2}]} in examples


def test_page_joins_the_lines_of_a_wrapped_docstring(server: Server, ann: User) -> None:
    page = get(server, ann).body.decode()
    assert "Those of this week, without holidays:\n\n- on weekdays\n- on Saturdays" in page


def test_page_keeps_its_content_security_policy(server: Server, ann: User) -> None:
    reply = get(server, ann)
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert reply.headers["cache-control"] == "no-store"
    page = reply.body.decode()
    assert page.count("<script") == 1
    assert not re.search(r"\son\w+=", page)


def test_openapi_has_an_operation_for_each_tool(server: Server, ann: User) -> None:
    reply = get(server, ann, "format=openapi")
    assert reply.media_type == "application/json"
    assert reply.headers["content-disposition"] == 'attachment; filename="shop.json"'
    written = json.loads(reply.body)
    assert written["openapi"] == "3.1.0"
    assert written["info"]["title"] == "The shop"
    assert written["servers"] == [{"url": f"http://testserver{URL}"}]
    operation = written["paths"]["/order"]["post"]
    assert operation["operationId"] == "order"
    assert operation["summary"] == "Place an order"
    body = operation["requestBody"]["content"]["application/json"]
    Draft202012Validator(body["schema"]).validate(body["example"])
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$id"]
    identifiers = re.findall(r'"\$id": "([^"]+)"', reply.body.decode())
    assert len(identifiers) == len(set(identifiers))


def test_markdown_has_a_section_for_each_tool(server: Server, ann: User) -> None:
    reply = get(server, ann, "format=markdown")
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    text = reply.body.decode()
    assert re.findall("^## (.*)$", text, re.M) == ["close", "hours", "Place an order"]
    assert "| `lines[].pieces` | integer | required | at least 2 |" in text
    assert '| `note` | string | default "\\|" |  |' in text


def refusing(get_response: Any) -> Any:
    """Middleware of a site that sends somebody away."""

    def answer(request: HttpRequest) -> Any:
        is_refused = request.headers.get("X-Office") != "1"
        return HttpResponseForbidden() if is_refused else get_response(request)

    return answer


@pytest.mark.parametrize("setting", ["DJANGO_MIDDLEWARE", "FIRST_MIDDLEWARE"])
def test_user_whom_middleware_sends_away_sees_nothing(
    server: Server, ann: User, settings: Settings, setting: str
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, setting: [f"{__name__}.refusing"]}
    assert "Order" not in get(server, ann).body.decode()
    assert "Order" in get(server, ann, **{"x-office": "1"}).body.decode()


def test_server_with_a_captured_path_shows_no_tools(
    server: Server, ann: User, settings: Settings
) -> None:
    server.path = "/in/<slug:shop>/shop"
    assert "hours" not in get(server, ann).body.decode()


class PartnerKeys(BaseAuthentication):
    """Its callers are other sites, and not people who log in here."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | None:
        return None


def test_server_for_others_than_users_of_the_site_shows_no_tools(server: Server, ann: User) -> None:
    server.authenticators = (PartnerKeys(),)
    for user in (ann, None):
        page = get(server, user, "format=openapi").body.decode()
        assert "Order" not in page
        assert "Log in" not in page


def test_middleware_of_the_server_decides_what_is_listed(server: Server, ann: User) -> None:
    async def first_only(frame: Frame, call_next: Any) -> Any:
        result, after = await call_next(frame)
        return {**result, "tools": result["tools"][:1]}, after

    server.middleware = (first_only,)
    assert listed(server, ann) == ["close"]
