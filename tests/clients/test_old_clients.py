"""A client of revision 2024-11-05 receives only what its revision defines."""

import json

import pytest

from django_mcp.contrib.skills import extension
from django_mcp.ui.mcp_apps import metadata
from django_mcp.ui.mcp_apps.metadata import EXTENSION
from tests.clients.real_client import RealClient, SdkError

pytestmark = pytest.mark.nightly

INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002
PROGRESS_TOKEN = 0
"""The progress token of the client's calls: one that is falsy in many languages."""


def test_old_client_negotiates_its_own_revision(old_client: RealClient) -> None:
    assert old_client.connected["connected"] == "2024-11-05"
    assert old_client.connected["server"].keys() == {"name", "version"}
    capabilities = {**old_client.connected["capabilities"]}
    # What hosts of MCP Apps and of skills read, in any revision.
    assert capabilities.pop("extensions").keys() == {EXTENSION, extension.NAME}
    assert capabilities.keys() == {"logging", "prompts", "resources", "tools"}


def test_listed_components_contain_only_fields_of_the_old_revision(old_client: RealClient) -> None:
    tools = old_client.request("tools/list")["tools"]
    resources = old_client.request("resources/list")["resources"]
    templates = old_client.request("resources/templates/list")["resourceTemplates"]
    prompts = old_client.request("prompts/list")["prompts"]

    # What hosts of MCP Apps read, in any revision.
    views = [item.pop("_meta") for item in [*tools, *resources] if "_meta" in item]
    assert views
    assert all(metadata.MEMBER in meta for meta in views)
    assert {key for tool in tools for key in tool} == {"name", "description", "inputSchema"}
    shown = {"uri", "name", "description", "mimeType"}
    assert {key for item in resources for key in item} <= shown
    assert {key for item in templates for key in item} <= shown - {"uri"} | {"uriTemplate"}
    assert {key for item in prompts for key in item} == {"name", "description", "arguments"}


def test_structured_results_are_sent_as_text(old_client: RealClient) -> None:
    result = old_client.call("convert_units", amount=1, source="mile", target="metre")

    (content,) = result["content"]
    assert json.loads(content["text"])["amount"] == 1609.344
    assert "structuredContent" not in result


def test_audio_content_is_sent_to_an_old_client_as_a_resource(old_suite_client: RealClient) -> None:
    (content,) = old_suite_client.call("test_audio_content")["content"]

    assert content["type"] == "resource"
    assert content["resource"]["mimeType"] == "audio/wav"


def test_progress_arrives_before_the_result(old_client: RealClient) -> None:
    lines = old_client.conversation("tools/call", name="check_answer_times", arguments={})

    progress = [
        line["params"] for line in lines if line.get("notification") == "notifications/progress"
    ]
    assert progress[0].keys() == {"progressToken", "progress", "total"}
    assert {params["progressToken"] for params in progress} == {PROGRESS_TOKEN}
    assert [params["progress"] for params in progress][:3] == [10, 20, 30]


def test_log_messages_arrive_before_the_result(old_client: RealClient) -> None:
    lines = old_client.conversation("tools/call", name="check_answer_times", arguments={})

    logged = [
        line["params"] for line in lines if line.get("notification") == "notifications/message"
    ]
    assert {params["level"] for params in logged} == {"warning"}


def test_resources_and_prompts_are_read(old_client: RealClient) -> None:
    ticket = old_client.request("resources/read", uri="ticket://12")
    prompt = old_client.request(
        "prompts/get", name="explain_unit", arguments={"quantity": "mass", "unit": "stone"}
    )

    assert "Telephone rings twice" in ticket["contents"][0]["text"]
    assert len(prompt["messages"]) == 3


def test_arguments_are_completed(old_client: RealClient) -> None:
    result = old_client.request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "explain_unit"},
        argument={"name": "quantity", "value": "m"},
    )

    assert result["completion"]["values"] == ["mass"]


def test_ping_is_answered(old_client: RealClient) -> None:
    assert old_client.request("ping") == {}


def test_an_unknown_tool_is_an_error(old_client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        old_client.call("nonsense")

    assert caught.value.code == INVALID_PARAMS


def test_an_unknown_resource_is_an_error(old_client: RealClient) -> None:
    with pytest.raises(SdkError) as caught:
        old_client.request("resources/read", uri="ticket://99999")

    assert caught.value.code == RESOURCE_NOT_FOUND


def test_invalid_arguments_are_reported_as_a_tool_error(old_client: RealClient) -> None:
    result = old_client.call("calculator", operation="add", a="one", b=1)

    assert result["isError"] is True


def test_tool_receives_the_roots_of_an_old_client(old_suite_client: RealClient) -> None:
    call = old_suite_client.start(
        "tools/call", name="test_input_required_result_list_roots", arguments={}
    )
    request = old_suite_client.next_request()
    old_suite_client.answer(request, {"roots": [{"uri": "file:///home/ada", "name": "Home"}]})
    result = old_suite_client.until_done(call)[-1]["result"]

    assert request["method"] == "roots/list"
    assert result["content"][0]["text"] == "Roots: file:///home/ada"


def test_missing_elicitation_support_is_reported_as_a_tool_error(old_client: RealClient) -> None:
    result = old_client.call("open_ticket", customer="School", subject="a", description="b")

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("Several customers fit: ")


def test_old_client_receives_updates_of_a_subscribed_resource(old_client: RealClient) -> None:
    old_client.request("resources/subscribe", uri="ticket://30")

    old_client.call("add_comment", number=30, text="Something new.")

    notified = old_client.next_notification("notifications/resources/updated")
    assert notified["params"]["uri"] == "ticket://30"
