"""Lists of toolsets as tables: sorting, search and pages by the tool itself."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.testing import SyncClient
from django_mcp.toolsets import ModelToolset
from django_mcp.ui.base import FRAGMENT
from example_site.helpdesk.models import Customer
from tests.spec import spec

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


class Customers(ModelToolset):
    model = Customer
    fields = ["pk", "name", "city"]
    search_fields = ["name"]
    ordering_fields = ["name"]
    ordering = ["name"]
    filter_fields = {"city": ["exact"]}
    page_size = 2
    ui = True


@pytest.fixture
def client(server: Server) -> SyncClient:
    Customers().register(server)
    for name in ("Alder", SCRIPT, "Birch", "Cedar"):
        email = f"{len(name)}{name[:1]}@example.com"
        Customer.objects.create(name=name, email=email, city="Leeds")
    return SyncClient(server, user=User.objects.create_superuser("boss"))


def table_of(client: SyncClient, arguments: dict[str, Any]) -> str:
    return str(client.call_tool("list_customers", arguments)["_meta"][FRAGMENT])


def calls_of(table: str, label: str) -> dict[str, Any]:
    """The arguments of the button with this label."""
    found = re.search(rf'data-mcp-arguments="([^"]*)">\s*{label}', table)
    assert found is not None, table
    arguments: dict[str, Any] = json.loads(html.unescape(found[1]))
    return arguments


@spec("apps-03")
def test_table_has_the_rows_of_the_list(client: SyncClient) -> None:
    table = table_of(client, {})

    assert re.findall(r"<td>([^<]*)</td>", table)[1::3] == [
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "Alder",
    ]
    assert SCRIPT not in table
    assert 'aria-sort="ascending"' in table


def test_buttons_of_the_table_call_the_list_itself(client: SyncClient) -> None:
    first = table_of(client, {"city": "Leeds"})

    second = table_of(client, calls_of(first, "Next page"))
    descending = table_of(client, calls_of(second, "Name"))

    assert "Birch" in second
    assert "Cedar" in second
    assert "Cedar" in table_of(client, calls_of(first, "Name"))
    assert calls_of(second, "First page") == {"city": "Leeds"}
    assert calls_of(second, "Name") == {"city": "Leeds", "ordering": ["-name"]}
    assert 'aria-sort="descending"' in descending


def test_search_is_kept_in_the_table_and_escaped(client: SyncClient) -> None:
    table = table_of(client, {"search": '"><script>'})

    assert "<script" not in table
    assert "Nothing matches." in table
    assert 'value="&quot;&gt;&lt;script&gt;"' in table


def test_toolset_has_no_table_unless_it_says_so(server: Server) -> None:
    class Plain(Customers):
        ui = False

    Plain().register(server)
    boss = User.objects.create_superuser("boss")

    assert all("_meta" not in tool for tool in SyncClient(server, user=boss).list_tools())
