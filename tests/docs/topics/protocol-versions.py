# shop/tests.py
from django_mcp import Response, tool
from django_mcp.testing import SyncClient


@tool(read_only=True)
def opening_hours() -> Response:
    """List the opening hours of the shop."""
    return (
        Response.tool()
        .structured({"monday": "9-17", "tuesday": "9-17"})
        .resource_link("shop://holidays", "Holidays", title="Closed days")
    )


def test_older_client_receives_text():
    with SyncClient(version="2024-11-05") as client:
        result = client.call_tool("opening_hours")
    assert "structuredContent" not in result
    assert result["content"] == [
        {"type": "text", "text": '{"monday":"9-17","tuesday":"9-17"}'},
        {"type": "text", "text": "Holidays: shop://holidays"},
    ]
