"""Errors with real clients, which can continue afterwards."""

import pytest

from tests.clients.conftest import Kind
from tests.clients.real_client import RealClient, SdkError

INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002


@pytest.fixture(autouse=True)
def assert_next_request_succeeds(client: RealClient) -> None:
    assert client.call("calculator", operation="add", a=1, b=1)["content"][0]["text"] == "2"


def test_an_unknown_tool_is_an_error(client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        client.call("nonsense")

    assert caught.value.code == INVALID_PARAMS
    assert "nonsense" in caught.value.message


def test_hidden_tool_is_reported_as_unknown(client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        client.call("close_ticket", number=1)

    assert caught.value.code == INVALID_PARAMS
    assert caught.value.message == "Unknown tool: close_ticket"


def test_invalid_arguments_are_reported_as_a_tool_error(client: RealClient) -> None:
    result = client.call("calculator", operation="add", a="one", b=1)

    assert result["isError"] is True
    assert "'one'" in result["content"][0]["text"]


def test_missing_arguments_are_reported_as_a_tool_error(client: RealClient) -> None:
    result = client.call("convert_units", amount=1)

    assert result["isError"] is True
    assert "source" in result["content"][0]["text"]


def test_handler_failure_is_reported_as_a_tool_error(client: RealClient) -> None:
    result = client.call("calculator", operation="divide", a=1, b=0)

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "Cannot divide by zero"}]


def test_an_unknown_resource_is_an_error(client: RealClient, kind: Kind) -> None:
    with pytest.raises(SdkError) as caught:
        client.request("resources/read", uri="ticket://99999")

    assert caught.value.code == (RESOURCE_NOT_FOUND if kind.sessions else INVALID_PARAMS)
    assert caught.value.error["data"] == {"uri": "ticket://99999"}


def test_an_unknown_prompt_is_an_error(client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        client.request("prompts/get", name="nonsense", arguments={})

    assert caught.value.code == INVALID_PARAMS


def test_missing_prompt_argument_is_an_error(client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        client.request("prompts/get", name="summarise_ticket", arguments={})

    assert caught.value.code == INVALID_PARAMS
    assert "number" in caught.value.message


def test_invalid_cursor_is_an_error(client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        client.request("tools/list", cursor="made-up")

    assert caught.value.code == INVALID_PARAMS
