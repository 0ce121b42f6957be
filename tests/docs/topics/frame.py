# shop/tests.py
from django_mcp.testing import SyncClient


def test_sessions_have_separate_baskets():
    with SyncClient(version="2025-11-25") as client, SyncClient(version="2025-11-25") as other:
        client.call_tool("add_to_basket", {"name": "Teapot"})
        client.call_tool("add_to_basket", {"name": "Green tea"})
        result = client.call_tool("show_basket")
        assert result.structured == {"result": ["Teapot", "Green tea"]}
        result = other.call_tool("show_basket")
        assert result.structured == {"result": []}
