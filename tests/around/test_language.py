"""The language in which a request is answered."""

from __future__ import annotations

import pytest
from django.utils.translation import get_language, gettext, gettext_lazy
from pytest_django import Settings

from django_mcp import Server
from django_mcp.testing import Client
from tests.around.requests import call, post


@pytest.fixture
def server() -> Server:
    """A server which says "Yes" in the language of the request."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    async def in_loop() -> str:
        return f"{get_language()} {gettext('Yes')}"

    @server.tool(title=gettext_lazy("Yes"))
    def in_thread() -> str:
        return f"{get_language()} {gettext('Yes')}"

    return server


@pytest.mark.parametrize("tool", ["in_loop", "in_thread"])
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("de", "de Ja"),
        ("fr-CH, fr;q=0.9, en;q=0.8", "fr Oui"),
        ("xx, de;q=0.5", "de Ja"),
        ("*", "en-gb Yes"),
        ("\xff;;;q=,", "en-gb Yes"),
    ],
)
async def test_accept_language_is_the_active_language(
    server: Server, tool: str, header: str, expected: str
) -> None:
    assert await call(server, tool, accept_language=header) == expected


async def test_language_cookie_precedes_the_header(server: Server) -> None:
    headers = {"accept_language": "fr", "cookie": "a=b; django_language=de"}
    assert await call(server, "in_loop", **headers) == "de Ja"


async def test_language_ends_with_the_request(server: Server) -> None:
    assert await call(server, "in_thread", accept_language="de") == "de Ja"
    assert get_language() == "en-gb"
    assert await call(server, "in_thread") == "en-gb Yes"


async def test_titles_are_listed_in_the_language_of_the_request(server: Server) -> None:
    reply = await post(server, "tools/list", {}, {"accept-language": "de"})
    titles = [each.get("title") for each in reply.json()["result"]["tools"]]
    assert titles == [None, "Ja"]


async def test_language_reaches_the_task_of_a_call_in_a_session(server: Server) -> None:
    headers = {"Accept-Language": "de"}
    async with Client(server, transport="http", version="2025-11-25", headers=headers) as client:
        result = await client.call_tool("in_thread")
        assert result.text == "de Ja"


async def test_header_is_ignored_without_i18n(server: Server, settings: Settings) -> None:
    settings.USE_I18N = False
    assert "Ja" not in await call(server, "in_loop", accept_language="de")
