"""Listings with real clients: the server, its tools, resources, templates and prompts."""

from tests.clients.conftest import Kind
from tests.clients.real_client import RealClient


def test_newest_common_revision_is_negotiated(client: RealClient, kind: Kind) -> None:
    assert client.connected["connected"] == kind.version


def test_server_info_and_instructions_are_sent_to_the_client(client: RealClient) -> None:
    assert client.connected["server"]["name"] == "example-site"
    assert client.connected["server"]["title"] == "Example site"
    assert "search_tickets" in client.connected["instructions"]


def test_tools_are_listed_with_schemas_and_annotations(client: RealClient) -> None:
    tools = {tool["name"]: tool for tool in client.request("tools/list")["tools"]}

    assert {"search_tickets", "add_comment", "calculator", "timer"} <= set(tools)
    calculator = tools["calculator"]
    assert calculator["description"] == "Performs basic arithmetic operations."
    assert calculator["inputSchema"]["required"] == ["operation", "a", "b"]
    assert calculator["annotations"]["readOnlyHint"] is True
    assert tools["convert_units"]["outputSchema"]["required"] == ["amount", "unit", "quantity"]


def test_restricted_tool_is_not_listed_for_anonymous_users(client: RealClient) -> None:
    tools = client.request("tools/list")["tools"]

    assert "close_ticket" not in {tool["name"] for tool in tools}


def test_resources_are_listed(client: RealClient) -> None:
    resources = client.request("resources/list")["resources"]

    shown = {item["uri"]: item.get("title") for item in resources}
    assert shown["tickets://open"] == "Open tickets"
    assert shown["units://all"] == "Units"


def test_templates_are_listed(client: RealClient) -> None:
    templates = client.request("resources/templates/list")["resourceTemplates"]

    found = {item["uriTemplate"]: item["name"] for item in templates}
    assert found == {
        "ticket://{pk}": "ticket",
        "units://{quantity}": "units_of_quantity",
        "skill://{+path}": "skill_files",
    }


def test_prompts_are_listed_with_their_arguments(client: RealClient) -> None:
    prompts = {item["name"]: item for item in client.request("prompts/list")["prompts"]}

    assert prompts["summarise_ticket"]["title"] == "Summarise a ticket"
    arguments = {item["name"]: item for item in prompts["summarise_ticket"]["arguments"]}
    assert arguments["number"]["required"] is True
    assert arguments["length"]["required"] is False
