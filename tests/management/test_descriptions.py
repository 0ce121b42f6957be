"""mcp_show --describe: what a model reads of tools, and what is weak in it."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import pytest
from django.core.management import call_command
from pydantic import Field

from django_mcp import Server, registry

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {f"field_{number}": {"description": "One of many."} for number in range(26)},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server("shop")

    @server.tool
    def strong(number: Annotated[int, Field(description="How many to buy.")]) -> str:
        """Buy tea."""
        return str(number)

    @server.tool
    def bare(number: int) -> str:
        return str(number)

    @server.tool(name="shop.sell", description="Sell.")
    def dotted() -> str:
        return ""

    @server.tool(name="a_tool_" + "x" * 31, description="Sell.")
    def long_name() -> str:
        return ""

    @server.tool(description="Take it all.", input_schema=PARAMETERS)
    def wide(arguments: dict[str, Any]) -> str:
        return ""

    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    return server


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("mcp_show", *arguments)
    return capsys.readouterr().out.rstrip("\n")


def test_description_is_what_a_model_reads(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "strong", "--describe")

    head, *lines = text.splitlines()
    assert head.startswith("strong (shop), about ")
    assert lines[:3] == [
        "  Buy tea.",
        "  - number: integer, required",
        "    How many to buy.",
    ]
    assert "Weak" not in text
    assert lines[-1].startswith("shop: tools 1, tokens about ")


@pytest.mark.parametrize(
    ("name", "weaknesses"),
    [
        ("bare", ["it has no description", "parameters without a description: number"]),
        (
            "shop.sell",
            [
                "its name has a character that some hosts refuse: use letters, digits, _ and -",
                "another tool has the same description",
            ],
        ),
        (
            "a_tool_" + "x" * 31,
            [
                "its name has 38 characters, and some hosts allow 37",
                "another tool has the same description",
            ],
        ),
        ("wide", ["it has 26 parameters, and models use 25 well"]),
    ],
)
def test_weakness_is_named(
    name: str, weaknesses: list[str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, name, "--describe").splitlines()

    weak = [line.removeprefix("  Weak: ") for line in lines if line.startswith("  Weak: ")]
    assert weak == weaknesses


def test_totals_count_the_tools_of_each_server(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    last = shown(capsys, "--describe").splitlines()[-1]

    assert last.startswith("shop: tools 5, tokens about ")
    assert last.endswith(", weak 4")


def test_tokens_are_a_quarter_of_the_characters_of_the_list(server: Server) -> None:
    (entry,) = [entry for entry in registry.entries(server) if entry.component.name == "strong"]

    text = json.dumps(entry.descriptor, separators=(",", ":"))
    assert entry.tokens == math.ceil(len(text) / 4)
