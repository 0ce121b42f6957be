"""What extensions of a site add to the pages of its servers and components, and to mcp_show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command

from django_mcp import Server, Tool, registry
from django_mcp.admin import component_page, server_page
from django_mcp.extensions import Extension, Option, installed
from django_mcp.registry import Entry

QUOTAS = Extension(
    name="com.example/quotas",
    options=[Option(name="per_hour", label="Per hour"), Option(name="burst")],
    facts=lambda server: [("Quotas", len([*server.components.registered()]))],
)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with installed(QUOTAS):
        server = Server(
            "shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"]
        )

        @server.tool
        class Discount(Tool):
            """Give a discount."""

            per_hour = 2
            burst = 9

            def execute(self, percent: int) -> int:
                return percent

        @server.tool
        def plain() -> str:
            """Do nothing."""
            return ""

        monkeypatch.setattr(registry.registered, "servers", {"shop": server})
        yield server


def entry_of(server: Server, name: str) -> Entry:
    (entry,) = (each for each in registry.entries(server) if each.component.name == name)
    return entry


def test_option_with_a_label_is_on_the_page_of_its_component(shop: Server) -> None:
    shown = {
        str(fact.label): fact.value for fact in component_page.facts(entry_of(shop, "discount"))
    }
    assert shown["Per hour"] == 2
    assert 9 not in shown.values()
    others = component_page.facts(entry_of(shop, "plain"))
    assert "Per hour" not in [str(fact.label) for fact in others]


def test_option_with_a_label_is_printed_by_mcp_show(shop: Server) -> None:
    out = StringIO()
    call_command("mcp_show", "--json", stdout=out)
    per_hour = {each["name"]: each.get("per hour") for each in json.loads(out.getvalue())}
    assert per_hour == {"discount": 2, "plain": None}


def test_facts_of_an_extension_are_on_the_page_of_a_server(shop: Server) -> None:
    shown = {str(fact.label): fact.value for fact in server_page.facts(shop, None)}
    assert shown["Quotas"] == 2
