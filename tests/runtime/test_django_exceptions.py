"""Exceptions that a handler may raise: their answers, and what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import IntegrityError
from django.http import Http404
from rest_framework import exceptions as rest_framework

from django_mcp import ConfigurationError, InvalidParams, Server, ToolError, register_exception
from django_mcp.core.server import failures
from django_mcp.testing import Client, ErrorResponse

RAISED = [
    (Http404("No such page"), "No such page"),
    (ObjectDoesNotExist(), "Not found"),
    (PermissionDenied(), "Permission denied"),
    (ValidationError("Too long"), "Too long"),
    (ValidationError({"title": ["Too long", "Too dull"], "__all__": "No"}),
     "title: Too long; title: Too dull; No"),
    (IntegrityError("Key (email)=(ada@example.com) already exists"),
     "The change conflicts with other data of the site."),
    (rest_framework.ValidationError({"title": ["Too long"]}), "title: Too long"),
    (rest_framework.ValidationError("Too long"), "Too long"),
    (rest_framework.ValidationError({"lines": [{}, {"price": ["Too low"]}], "non_field_errors":
      ["No"]}), "lines.1.price: Too low; No"),
    (rest_framework.ValidationError({"address": {"city": ["Unknown", "Too far"]}}),
     "address.city: Unknown; address.city: Too far"),
    (rest_framework.ParseError(), "Malformed request."),
    (rest_framework.Throttled(7), "Request was throttled. Expected available in 7 seconds."),
    (rest_framework.NotFound(), "Not found."),
]  # fmt: skip


class OutOfStock(Exception):
    pass


class SoldOut(OutOfStock):
    pass


@pytest.fixture(autouse=True)
def _own_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_registered", {})


def raising(error: BaseException) -> Callable[[], Any]:
    def handler() -> Any:
        raise error

    return handler


def server_raising(error: BaseException) -> Server:
    server = Server("desk", notify_lists_on_initialize=False)
    server.tool(name="it")(raising(error))
    server.resource("desk://it", name="it")(raising(error))
    server.prompt(name="it")(raising(error))
    return server


@pytest.mark.parametrize(("error", "words"), RAISED)
async def test_model_receives_the_message_and_nothing_is_logged(
    error: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "django_mcp"):
        async with Client(server_raising(error), raise_exceptions=True) as client:
            result = await client.call_tool("it")
    assert result == {**result, "isError": True, "content": [{"type": "text", "text": words}]}
    assert not caplog.records


async def test_missing_row_is_a_missing_resource() -> None:
    for error in (Http404("No such page"), ObjectDoesNotExist("No row")):
        async with Client(server_raising(error)) as client:
            with pytest.raises(ErrorResponse) as caught:
                await client.read_resource("desk://it")
            with pytest.raises(ErrorResponse) as unknown:
                await client.read_resource("desk://unknown")
        assert caught.value.message == unknown.value.message == "Resource not found"
        assert caught.value.code == unknown.value.code


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionDenied("Members only"), "Members only"),
        (ValidationError("Too long"), "Too long"),
        (IntegrityError("secret"), "The change conflicts with other data of the site."),
    ],
)
async def test_resource_and_prompt_are_answered_with_the_message(
    error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server_raising(error)) as client:
        for call in (client.read_resource("desk://it"), client.get_prompt("it")):
            with pytest.raises(ErrorResponse) as caught:
                await call
            assert caught.value.message == message
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


class TestRegisterException:
    async def test_exception_of_a_site_is_answered_with_its_message(self) -> None:
        register_exception(OutOfStock, "failed", lambda error: f"{error} is sold out")
        async with Client(server_raising(SoldOut("Tea"))) as client:
            result = await client.call_tool("it")
        assert result.text == "Tea is sold out"

    async def test_nearest_base_decides(self) -> None:
        register_exception(OutOfStock)
        register_exception(SoldOut, "not_found", "Sold out")
        async with Client(server_raising(SoldOut("Tea"))) as client:
            result = await client.call_tool("it")
            with pytest.raises(ErrorResponse, match="Resource not found"):
                await client.read_resource("desk://it")
        assert result.text == "Sold out"

    async def test_errors_of_the_package_keep_their_meaning(self) -> None:
        register_exception(Exception, "failed", "Something else")
        async with Client(server_raising(ToolError("Try again"))) as client:
            assert (await client.call_tool("it")).text == "Try again"
        async with Client(server_raising(InvalidParams("No"))) as client:
            with pytest.raises(ErrorResponse, match="No"):
                await client.call_tool("it")

    async def test_invalid_result_is_no_expected_exception(self) -> None:
        register_exception(ValueError, "failed", str)
        register_exception(TypeError, "failed", str)
        server = Server("desk")
        server.tool(name="it")(lambda: object())
        async with Client(server) as client:
            with pytest.raises(ErrorResponse, match="returned an invalid result"):
                await client.call_tool("it")

    async def test_unregistered_exception_is_unexpected(self) -> None:
        register_exception(OutOfStock)
        failures.unregister_exception(OutOfStock)
        async with Client(server_raising(OutOfStock("Tea"))) as client:
            result = await client.call_tool("it")
        assert "failed unexpectedly" in result.text

    @pytest.mark.parametrize("arguments", [("OutOfStock",), (OutOfStock, "gone"), (object,)])
    def test_other_arguments_are_rejected(self, arguments: Any) -> None:
        with pytest.raises(ConfigurationError, match="register_exception"):
            register_exception(*arguments)


class TestDebug:
    @pytest.fixture
    def server(self, settings: Any) -> Server:
        settings.DEBUG = True
        server = server_raising(LookupError("inside"))
        server.tool(name="unfit")(lambda: object())
        server.tool(name="expected")(raising(IntegrityError("UNIQUE failed")))
        return server

    async def test_exception_is_named_everywhere(self, server: Server) -> None:
        async with Client(server) as client:
            tool = (await client.call_tool("it")).text
            expected = (await client.call_tool("expected")).text
            messages = [tool, expected]
            for call in (
                client.read_resource("desk://it"),
                client.get_prompt("it"),
                client.call_tool("unfit"),
            ):
                with pytest.raises(ErrorResponse) as caught:
                    await call
                messages.append(caught.value.message)
        assert [each.partition("(DEBUG: ")[2].partition(":")[0] for each in messages] == [
            "LookupError", "IntegrityError", "LookupError", "LookupError", "UnserializableResult",
        ]  # fmt: skip

    async def test_exception_is_not_named_otherwise(self) -> None:
        async with Client(server_raising(LookupError("inside"))) as client:
            with pytest.raises(ErrorResponse) as caught:
                await client.read_resource("desk://it")
        assert caught.value.message == "The resource could not be read"
