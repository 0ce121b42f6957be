"""Models whose primary key has several columns, as Django has them since 5.2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import ConfigurationError, Lookup, Server
from django_mcp.core.components.tool import tool_component
from django_mcp.testing import SyncClient
from django_mcp.toolsets import ModelToolset

pytestmark = pytest.mark.skipif(
    not hasattr(models, "CompositePrimaryKey"), reason="Django has none before 5.2"
)


@pytest.fixture
def line(transactional_db: None) -> Iterator[Any]:
    with isolate_apps("example_site.helpdesk"):

        class Line(models.Model):
            pk = models.CompositePrimaryKey("order", "number")
            order = models.IntegerField()
            number = models.IntegerField()
            code = models.CharField(max_length=9, unique=True)
            text = models.CharField(max_length=9, default="new")

            class Meta:
                app_label = "helpdesk"

        with connection.schema_editor() as editor:
            editor.create_model(Line)
        yield Line
        with connection.schema_editor() as editor:
            editor.delete_model(Line)


def server_of(model: Any, **attributes: Any) -> Server:
    server = Server("lines", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    declared = {
        "model": model,
        "fields": ["order", "number", "code", "text"],
        "operations": ["list", "get", "count", "aggregate", "create", "update", "delete"],
        "group_fields": ["text"],
        "ordering_fields": ["order"],
        "page_size": 2,
        **attributes,
    }
    kind: Any = type("Lines", (ModelToolset,), declared)
    kind.__mcp_register__(server)
    return server


def test_unique_field_identifies_the_rows(line: Any) -> None:
    user = User.objects.create(username="ann", is_superuser=True)
    with SyncClient(server_of(line), user=user) as client:

        def call(tool: str, **arguments: Any) -> Any:
            result = client.call_tool(tool, arguments)
            assert not result.is_error, result.text
            return result.structured

        for number in (1, 2, 3):
            created = call("create_line", order=1, number=number, code=f"c{number}")
            assert created["text"] == "new"
        first = call("list_lines", ordering=["-order"])
        second = call("list_lines", ordering=["-order"], cursor=first["next_cursor"])
        codes = [row["code"] for row in (*first["items"], *second["items"])]
        assert sorted(codes) == ["c1", "c2", "c3"]
        assert call("get_line", code="c2")["number"] == 2
        assert call("update_line", code="c2", text="old")["text"] == "old"
        assert call("delete_line", code="c3")["code"] == "c3"
        assert call("count_lines") == {"count": 2}
        assert call("aggregate_lines", group_by=["text"])["groups"][0]["count"] == 1


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"fields": ["order", "text"], "operations": ["list"]}, "add one to fields"),
        ({"fields": ["order", "text"]}, "add one, or set key"),
        ({"fields": ["pk", "code"]}, "name them .order, number., or a unique field"),
    ],
)
def test_toolset_without_a_single_key_is_a_named_error(
    line: Any, attributes: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        server_of(line, **attributes)


def test_row_as_an_argument_needs_a_lookup(line: Any) -> None:
    def show(line: Any) -> str:
        return str(line.number)

    show.__annotations__["line"] = line
    with pytest.raises(ConfigurationError, match=r'Lookup\(field="code"\)'):
        tool_component(show)

    show.__annotations__["line"] = Annotated[line, Lookup(field="code")]
    line.objects.create(order=1, number=7, code="c7")
    server = Server("lines", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    server.tool(show)
    with SyncClient(server) as client:
        assert client.call_tool("show", {"line": "c7"}).text == "7"
