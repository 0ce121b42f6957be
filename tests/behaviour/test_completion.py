"""Completing arguments while they are typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from django_mcp import Frame, Prompt, Server
from django_mcp.testing.plugin import ClientFor
from tests.refusals import refusal

CITIES = ["Berlin", "Bern", "Bonn"]


def beginning(value: str) -> list[str]:
    return [city for city in CITIES if city.startswith(value)]


def shop() -> Server:
    server = Server("shop")

    @server.prompt(complete={"city": beginning})
    def travel(city: str, how: Literal["train", "tram"] = "train", day: str = "") -> str:
        return city

    @server.resource("shop://{city}/hours", name="hours", complete={"city": beginning})
    def hours(city: str) -> str:
        return city

    return server


async def test_values_for_an_argument_of_a_prompt_are_proposed(client_for: ClientFor) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", "city", "Ber")

    assert completion["values"] == ["Berlin", "Bern"]


@pytest.mark.parametrize("uri", ["shop://{city}/hours", "shop://Bern/hours"])
async def test_a_template_is_named_by_itself_or_by_an_address_it_matches(
    client_for: ClientFor, uri: str
) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete(uri, "city", "Bo")

    assert completion["values"] == ["Bonn"]


async def test_the_choices_of_a_type_complete_themselves(client_for: ClientFor) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", "how", "tra")

    assert completion["values"] == ["train", "tram"]


@pytest.mark.parametrize("argument", ["day", "unheard-of"])
async def test_an_argument_which_nobody_completes_has_no_proposals(
    client_for: ClientFor, argument: str
) -> None:
    async with client_for(shop()) as client:
        completion = await client.complete("travel", argument)

    assert completion["values"] == []


async def test_no_more_than_a_hundred_values_are_sent(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.prompt(complete={"number": lambda value: [str(each) for each in range(150)]})
    def pick(number: str) -> str:
        return number

    async with client_for(server) as client:
        completion = await client.complete("pick", "number")

    assert len(completion["values"]) == 100
    assert (completion["total"], completion["hasMore"]) == (150, True)


async def test_what_was_chosen_already_is_known_where_the_revision_tells_it(
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
async def test_a_reference_to_nothing_is_refused(
    client_for: ClientFor, params: dict[str, Any]
) -> None:
    async with client_for(shop()) as client:
        error = await refusal(client.request("completion/complete", params))
        assert (await client.complete("travel", "city"))["values"] == CITIES

    assert error.code == -32602


async def test_a_server_which_completes_nothing_does_not_know_the_method(
    client_for: ClientFor,
) -> None:
    async with client_for(Server("empty")) as client:
        error = await refusal(client.complete("travel", "city"))

    assert error.code == -32601


async def test_completion_is_declared_where_the_revision_can_say_so(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(shop()) as client:
        greeting = client.welcome or await client.request("server/discover")

    assert ("completions" in greeting["capabilities"]) == (mcp_version != "2024-11-05")


async def test_a_completer_which_raises_is_an_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    def explode(value: str) -> list[str]:
        raise RuntimeError("the password is xyzzy")

    @server.prompt(complete={"city": explode})
    def travel(city: str) -> str:
        return city

    async with client_for(server) as client:
        error = await refusal(client.complete("travel", "city"))

    assert error.code == -32603
    assert "xyzzy" not in error.message
    assert "xyzzy" in caplog.text
