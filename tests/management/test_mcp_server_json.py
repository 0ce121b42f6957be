"""The command mcp_server_json: what it prints is valid for the registry, or it says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from django_mcp import Server, registry
from tests.core.server.card_schemas import errors_of_registry


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Server:
    server = Server("shop", path="/our/shop", title="The shop", description="Orders.")
    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default, "shop": server})
    settings.DJANGO_MCP = {"NAME": "my site", "BASE_URL": "https://shop.example"}
    return server


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("mcp_server_json", "--server", "shop", *arguments)
    document = json.loads(capsys.readouterr().out)
    assert errors_of_registry(document) == []
    return document


def test_document_is_that_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "example.shop/shop",
        "title": "The shop",
        "description": "Orders.",
        "version": "1.0",
        "remotes": [{"type": "streamable-http", "url": "https://shop.example/our/shop"}],
    }


def test_name_and_url_can_be_others(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--name", "io.github.acme/shop", "--url", "https://mcp.example.org/shop")
    document = printed(capsys, *given)
    assert document["name"] == "io.github.acme/shop"
    assert document["remotes"][0]["url"] == "https://mcp.example.org/shop"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--server", "shopp"), "There is no MCP server 'shopp'"),
        (("--server", "mcp"), r'no description: write description="…"'),
        (("--name", "shop"), "'shop' is no name with a namespace"),
        (("--name", "a/b/c"), "is no name with a namespace"),
        (("--url", "http://shop.example/mcp"), "accepts public https URLs"),
        (("--url", "https://localhost/mcp"), "accepts public https URLs"),
        (("--url", "https://10.0.0.1/mcp"), "accepts public https URLs"),
        (("--url", "shop"), "no http or https URL"),
    ],
)
def test_what_cannot_be_published_has_a_reason(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("mcp_server_json", "--server", "shop", *arguments)


def test_site_without_a_public_url_is_asked_for_it(settings: Settings) -> None:
    settings.DJANGO_MCP = {}
    with pytest.raises(CommandError, match="BASE_URL"):
        call_command("mcp_server_json", "--server", "shop")
