"""What is published of a server, compared with the official schemas."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils.translation import gettext_lazy

from django_mcp import ConfigurationError, Icon, Server
from django_mcp.core.components.tool import tool_component
from django_mcp.core.server import card
from django_mcp.testing import Client
from tests.core.server.card_schemas import errors_of_card, errors_of_registry
from tests.rows import rows

FULL: dict[str, Any] = {
    "title": "The shop",
    "version": "1.2.0",
    "description": "Orders and stock of the shop.",
    "website_url": "https://shop.example.com/",
    "repository": "https://github.com/example/shop",
    "icons": [{"src": "https://shop.example.com/icon.png", "mimeType": "image/png"}],
}
URL = "https://shop.example.com/mcp"


SERVERS = [
    pytest.param(Server("shop", description="Orders."), id="least"),
    pytest.param(Server("shop", **FULL), id="all"),
    pytest.param(Server("Our little shop!", **FULL), id="name with spaces"),
    pytest.param(Server("com.example/shop", **FULL), id="name with a namespace"),
    pytest.param(
        Server("shop", description=gettext_lazy("Yes"), title=gettext_lazy("No")),  # type: ignore[arg-type]
        id="translated",
    ),
    pytest.param(
        Server("s" * 100, description="d" * 100, title="t" * 100, version="1" * 255), id="longest"
    ),
]
URLS = [
    URL,
    "http://localhost:8000/mcp",
    "http://127.0.0.1:8000/mcp",
    "http://[::1]:8000/",
    "https://under_score.example/mcp",
]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("url", URLS)
def test_card_meets_the_official_schema(server: Server, url: str) -> None:
    assert [*card.problems(server)] == []
    assert errors_of_card(card.describe(server, url)) == []


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("url", [URL, "https://example.com/orgs/<slug:org>/<team>/mcp"])
def test_server_json_meets_the_official_schema(server: Server, url: str) -> None:
    assert errors_of_registry(card.registry_document(server, url)) == []


def test_card_has_what_the_server_says_of_itself() -> None:
    assert card.describe(Server("shop", **FULL), URL) == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example.shop/shop",
        "title": "The shop",
        "description": "Orders and stock of the shop.",
        "version": "1.2.0",
        "websiteUrl": "https://shop.example.com/",
        "repository": {"url": "https://github.com/example/shop", "source": "github"},
        "icons": [{"src": "https://shop.example.com/icon.png", "mimeType": "image/png"}],
        "remotes": [
            {
                "type": "streamable-http",
                "url": URL,
                "supportedProtocolVersions": [
                    "2024-11-05",
                    "2025-03-26",
                    "2025-06-18",
                    "2025-11-25",
                    "2026-07-28",
                ],
            }
        ],
    }


@rows(
    ("name", "url", "expected"),
    [
        ("shop", "https://example.com/mcp", "com.example/shop"),
        ("shop", "https://api.example.com:8443/mcp", "com.example.api/shop"),
        ("com.example/shop", "https://other.example/mcp", "com.example/shop"),
        ("Our shop", "https://example.com/", "com.example/Our-shop"),
        ("a/b/c", "https://example.com/", "com.example/a-b-c"),
        ("shop", "http://127.0.0.1:8000/mcp", "127.0.0.1/shop"),
        ("shop", "http://[::1]/mcp", "-1/shop"),
        ("shop", "http://localhost:8000/mcp", "localhost/shop"),
    ],
)
def test_namespace_is_the_host_in_reverse(name: str, url: str, expected: str) -> None:
    assert card.qualified_name(Server(name), url) == expected


@rows(
    ("options", "remedy"),
    [
        ({"description": None}, 'write description="…"'),
        ({"description": "d" * 101}, "description has 101 characters: shorten it to 100"),
        ({"title": "t" * 101}, "title has 101 characters"),
        ({"version": "^1.2"}, "write one version"),
        ({"version": ">=1.2"}, "write one version"),
        ({"version": "1.x"}, "write one version"),
        ({"version": "1.*"}, "write one version"),
        ({"version": "1 - 2"}, "write one version"),
        ({"version": "1" * 256}, "write one version"),
        ({"website_url": "/shop"}, "write a URL with https://"),
        ({"website_url": "javascript:alert(1)"}, "write a URL with https://"),
        ({"website_url": "https://[/"}, "write a URL with https://"),
        ({"repository": "https://git.example.com/shop"}, "name of the service"),
        ({"repository": {"url": "https://git.example.com/shop"}}, "name of the service"),
        ({"repository": {"url": "x", "source": "git"}}, "name of the service"),
        ({"repository": {"url": "https://e.org", "source": "git", "x": "y"}}, "the service"),
    ],
)
def test_server_without_valid_card_has_a_remedy(options: dict[str, Any], remedy: str) -> None:
    (problem,) = card.problems(Server("shop", **{**FULL, **options}))
    assert remedy in problem


@pytest.mark.parametrize(
    "icon", [Icon("https://example.com/a.png"), "https://example.com/a.png"], ids=["Icon", "URI"]
)
async def test_icon_may_be_an_icon_or_a_uri(icon: Any) -> None:
    server = Server("shop", description="Orders.", icons=[icon])
    listed = [{"src": "https://example.com/a.png"}]
    async with Client(server, version="2025-11-25") as client:
        assert client.initialize_result["serverInfo"]["icons"] == listed
    assert card.describe(server, URL)["icons"] == listed


@rows(
    ("icons", "remedy"),
    [
        ([{"src": "/icon.png"}], "src of an icon"),
        ([7], "is 7: write a URI"),
        ("https://example.com/a.png", r'write a list, such as \["https:'),
        ({"src": "https://example.com/a.png"}, "write a list"),
        (7, "write a list"),
    ],
)
def test_icons_that_cannot_be_listed_are_refused(icons: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        Server("shop", icons=icons)
    with pytest.raises(ConfigurationError, match=remedy):
        tool_component(lambda: None, name="show", icons=icons)


@pytest.mark.parametrize("name", ["日本", "!", "s" * 101])
def test_name_without_letters_has_a_remedy(name: str) -> None:
    (problem,) = card.problems(Server(name, path="/mcp", description="Orders."))
    assert problem.startswith(f"its name is {name!r}: use letters")


@pytest.mark.parametrize(
    "version", ["1.2.0", "2.1.0-alpha", "2026.11", "1.0-x86", "v1", "1.0+local"]
)
def test_versions_are_no_ranges(version: str) -> None:
    assert [*card.problems(Server("shop", version=version, description="Orders."))] == []


def test_catalogue_names_the_domain_and_the_server() -> None:
    server = Server("shop", description="Orders.")
    document = card.catalog({f"{URL}/server-card": (server, URL)})
    assert document == {
        "specVersion": "1.0",
        "entries": [
            {
                "identifier": "urn:air:shop.example.com:mcp:shop",
                "type": "application/mcp-server-card+json",
                "url": f"{URL}/server-card",
            }
        ],
    }


def test_registry_gets_variables_and_no_images() -> None:
    icons = [{"src": "data:image/png;base64,AAAA"}, {"src": "https://example.com/a.png"}]
    server = Server("shop", description="Orders.", icons=icons)
    document = card.registry_document(server, "https://example.com/orgs/<slug:org>/mcp", "a.b/c")
    assert document["name"] == "a.b/c"
    assert document["icons"] == [{"src": "https://example.com/a.png"}]
    assert document["remotes"] == [
        {
            "type": "streamable-http",
            "url": "https://example.com/orgs/{org}/mcp",
            "variables": {"org": {"isRequired": True}},
        }
    ]


def test_repository_is_no_part_of_the_server_information() -> None:
    server = Server("shop", **FULL)
    for revision in server.by_version.values():
        assert "repository" not in server.get_server_info(revision)
