"""What real clients are told when something is wrong; afterwards they go on as before."""

import pytest

from tests.clients.conftest import Kind
from tests.clients.real_client import RealClient, Refused

INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002


@pytest.fixture(autouse=True)
def the_next_request_works(client: RealClient) -> None:
    assert client.call("calculator", operation="add", a=1, b=1)["content"][0]["text"] == "2"


def test_an_unknown_tool_is_an_error(client: RealClient) -> None:
    with pytest.raises(Refused) as refused:
        client.call("nonsense")

    assert refused.value.code == INVALID_PARAMS
    assert "nonsense" in refused.value.message


def test_a_tool_which_is_hidden_is_an_unknown_one(client: RealClient) -> None:
    with pytest.raises(Refused) as refused:
        client.call("close_ticket", number=1)

    assert refused.value.code == INVALID_PARAMS
    assert refused.value.message == "Unknown tool: close_ticket"


def test_arguments_that_do_not_fit_are_told_to_the_model(client: RealClient) -> None:
    result = client.call("calculator", operation="add", a="one", b=1)

    assert result["isError"] is True
    assert "'one'" in result["content"][0]["text"]


def test_arguments_that_are_missing_are_told_to_the_model(client: RealClient) -> None:
    result = client.call("convert_units", amount=1)

    assert result["isError"] is True
    assert "source" in result["content"][0]["text"]


def test_a_failure_is_told_to_the_model(client: RealClient) -> None:
    result = client.call("calculator", operation="divide", a=1, b=0)

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "Cannot divide by zero"}]


def test_an_unknown_resource_is_an_error(client: RealClient, kind: Kind) -> None:
    with pytest.raises(Refused) as refused:
        client.request("resources/read", uri="ticket://99999")

    assert refused.value.code == (RESOURCE_NOT_FOUND if kind.sessions else INVALID_PARAMS)
    assert refused.value.error["data"] == {"uri": "ticket://99999"}


def test_an_unknown_prompt_is_an_error(client: RealClient) -> None:
    with pytest.raises(Refused) as refused:
        client.request("prompts/get", name="nonsense", arguments={})

    assert refused.value.code == INVALID_PARAMS


def test_an_argument_missing_from_a_prompt_is_an_error(client: RealClient) -> None:
    with pytest.raises(Refused) as refused:
        client.request("prompts/get", name="summarise_ticket", arguments={})

    assert refused.value.code == INVALID_PARAMS
    assert "number" in refused.value.message


def test_a_cursor_that_was_made_up_is_an_error(client: RealClient) -> None:
    with pytest.raises(Refused) as refused:
        client.request("tools/list", cursor="made-up")

    assert refused.value.code == INVALID_PARAMS
