"""Completion of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from django_mcp import Frame, Prompt, Server
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec

CITIES = ["Berlin", "Bern", "Bonn"]


def cities_starting_with(value: str) -> list[str]:
    return [city for city in CITIES if city.startswith(value)]


def shop() -> Server:
    server = Server("shop")

    @server.prompt(complete={"city": cities_starting_with})
    def travel(city: str, how: Literal["train", "tram"] = "train", day: str = "") -> str:
        return city

    @server.resource("shop://{city}/hours", name="hours", complete={"city": cities_starting_with})
    def hours(city: str) -> str:
        return city

    return server


@spec("COMP-02", "COMP-03")
async def test_prompt_argument_is_completed(client_for: ClientFor) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", "city", "Ber")

    assert completion["values"] == ["Berlin", "Bern"]


@spec("COMP-03")
@pytest.mark.parametrize("uri", ["shop://{city}/hours", "shop://Bern/hours"])
async def test_resource_template_is_completed_by_template_or_by_matching_uri(
    client_for: ClientFor, uri: str
) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete(uri, "city", "Bo")

    assert completion["values"] == ["Bonn"]


@spec("COMP-07")
async def test_literal_type_is_completed_from_its_choices(client_for: ClientFor) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", "how", "tra")

    assert completion["values"] == ["train", "tram"]


@pytest.mark.parametrize("argument", ["day", "unheard-of"])
async def test_argument_without_completer_returns_no_values(
    client_for: ClientFor, argument: str
) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", argument)

    assert completion["values"] == []


@spec("COMP-05", "2026/CMP-02")
async def test_completion_is_truncated_to_100_values(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.prompt(complete={"number": lambda value: [str(each) for each in range(150)]})
    def pick(number: str) -> str:
        return number

    async with client_for(server) as client:
        completion = await client.complete("pick", "number")

    assert len(completion["values"]) == 100
    assert (completion["total"], completion["hasMore"]) == (150, True)


@spec("COMP-04", "2026/CMP-05")
async def test_completer_receives_context_arguments_since_2025_06_18(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.prompt
    class Travel(Prompt):
        """Travels."""

        arguments = [{"name": "country"}, {"name": "city"}]

        async def complete_city(
            self, value: str, chosen: Mapping[str, str], frame: Frame
        ) -> list[str]:
            assert frame.request is not None
            return [f"{chosen.get('country')} {value}"]

        def get_messages(self, params: Any) -> str:
            return ""

    async with client_for(server) as client:
        completion = await client.complete("travel", "city", "B", context={"country": "CH"})

    known = mcp_version >= "2025-06-18"
    assert completion["values"] == ["CH B" if known else "None B"]


@spec("COMP-06", "COMP-08", "2026/CMP-03", "2026/CMP-04")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": "travel", "argument": {"name": "city", "value": ""}},
        {"ref": {"type": "ref/prompt"}, "argument": {"name": "city", "value": ""}},
        {
            "ref": {"type": "ref/prompt", "name": "nobody"},
            "argument": {"name": "city", "value": ""},
        },
        {
            "ref": {"type": "ref/resource", "uri": "shop://x"},
            "argument": {"name": "city", "value": ""},
        },
        {
            "ref": {"type": "ref/tool", "name": "travel"},
            "argument": {"name": "city", "value": ""},
        },
        {"ref": {"type": "ref/prompt", "name": "travel"}},
        {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city"}},
        {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": 1, "value": ""}},
    ],
)
async def test_invalid_completion_params_are_rejected(
    client_for: ClientFor, params: dict[str, Any]
) -> None:
    async with client_for(shop()) as client:
        error = await error_of(client.request("completion/complete", params))
        assert (await client.complete("travel", "city"))["values"] == CITIES

    assert error.code == -32602


@spec("COMP-06", "2026/CMP-03")
async def test_completion_returns_method_not_found_without_completers(
    client_for: ClientFor,
) -> None:
    async with client_for(Server("empty")) as client:
        error = await error_of(client.complete("travel", "city"))

    assert error.code == -32601


@spec("LIFE-19", "COMP-01", "COMP-02", "2026/CMP-01")
async def test_completions_capability_is_declared_since_2025_03_26(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(shop()) as client:
        greeting = client.initialize_result or await client.request("server/discover")

    assert ("completions" in greeting["capabilities"]) == (mcp_version != "2024-11-05")


@spec("COMP-06", "2026/ERR-08", "2026/CMP-03")
async def test_exception_in_completer_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    def explode(value: str) -> list[str]:
        raise RuntimeError("the password is xyzzy")

    @server.prompt(complete={"city": explode})
    def travel(city: str) -> str:
        return city

    async with client_for(server) as client:
        error = await error_of(client.complete("travel", "city"))

    assert error.code == -32603
    assert "xyzzy" not in error.message
    assert "xyzzy" in caplog.text
